"""What is simulated: who answers, on which servers, before which load."""

from __future__ import annotations

from dataclasses import dataclass

from speceyes.evals.simulation.arrivals import Arrivals, Closed
from speceyes.evals.simulation.demand import System
from speceyes.evals.simulation.servers import Servers


@dataclass(frozen=True, slots=True)
class Scenario:
    """One case.

    Attributes:
        system: Who answers.
        draft: The draft's servers. So `agent`.
        agent: The agent's.
        arrivals: How queries come.
        queries: How many.
        seed: Of the draw and of the arrivals.
        steady: Whether the steady state is wanted: then the first fifth of the queries and what comes after the last
            arrival are left out. Otherwise figures are of the whole run, from the first arrival to the last answer.
        in_order: Ask the workload's queries as they stand, rather than drawn.
        batch: Queries that the published schedule takes into a batch at most. None: as many as a closed loop has
            clients for each replica of the agent, and 8 in an open one.
        loops: Agent loops that the gateways allow at a time, by which `auto` measures its load. Nothing else waits for
            them here. None: as many as the agent's servers have slots.
    """

    system: System
    draft: Servers
    agent: Servers
    arrivals: Arrivals
    queries: int = 4000
    seed: int = 0
    steady: bool = True
    in_order: bool = False
    batch: int | None = None
    loops: int | None = None

    @property
    def places(self) -> int:
        """Agent loops at a time when the planner takes every place for taken."""
        return self.agent.replicas * self.agent.curve.slots if self.loops is None else self.loops

    @property
    def batch_size(self) -> int:
        """Queries in a batch of the published schedule."""
        if self.batch is not None:
            return self.batch
        return max(1, -(-self.arrivals.clients // self.agent.replicas)) if isinstance(self.arrivals, Closed) else 8
