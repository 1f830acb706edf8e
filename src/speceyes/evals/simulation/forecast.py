"""Several systems before the same load: what each gives, and by how much it is faster than the agent alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from speceyes.evals.law import law_ideal
from speceyes.evals.simulation.arrivals import Closed
from speceyes.evals.simulation.capacity import Found, Limits, Search, run
from speceyes.evals.simulation.demand import System, law_honest
from speceyes.evals.simulation.scenario import Scenario
from speceyes.evals.simulation.workload import Workload

SHOWN = tuple(system for system in System if system is not System.NO_SCREEN)
"""What is compared unless others are named. `no-screen` accepts other drafts than a calibration promised for."""


@dataclass(frozen=True, slots=True)
class Row:
    """One system.

    Attributes:
        found: Its servers and what the simulation gave.
        speedup: Over the agent alone before the same load: in a closed loop how many times as many queries it answers,
            in an open one how many times as long the agent alone takes for a query. None where either cannot keep up.
    """

    found: Found
    speedup: float | None

    @property
    def system(self) -> System:
        """Whose row it is."""
        return self.found.scenario.system

    @property
    def replicas(self) -> tuple[int, int]:
        """Of draft and agent; the agent alone needs no draft."""
        chosen = self.found.scenario
        return 0 if self.system is System.AGENT else chosen.draft.replicas, chosen.agent.replicas


@dataclass(frozen=True, slots=True)
class Forecast:
    """The systems side by side.

    Attributes:
        workload: What queries take.
        rows: One for each system; the agent alone is the first.
        limits: What replicas were searched for. None: they were given.
        law_honest: See `demand.law_honest`.
        law_ideal: 1 / (1 - beta * alpha); None where it has no bound.
    """

    workload: Workload
    rows: tuple[Row, ...]
    limits: Limits | None
    law_honest: float | None
    law_ideal: float | None

    def share_of_law(self, row: Row) -> float | None:
        """A row's speedup over the honest law; None for the agent alone, of which the law says nothing."""
        if row.system is System.AGENT or row.speedup is None or not self.law_honest:
            return None
        return row.speedup / self.law_honest


def forecast(
    workload: Workload,
    scenario: Scenario,
    systems: Sequence[System] = SHOWN,
    *,
    limits: Limits = Limits(),  # noqa: B008  # frozen
    fixed_draft: bool = True,
    fixed_agent: bool = True,
    told: Callable[[System], None] = lambda system: None,
) -> Forecast:
    """Simulate systems before the same load.

    Args:
        workload: What queries take.
        scenario: Servers and arrivals; its system does not count.
        systems: Which; the agent alone is added.
        limits: What must hold where replicas are searched for.
        fixed_draft: The draft's replicas are those of the scenario; otherwise the fewest that keep the limits are
            found, for each system by itself. So `fixed_agent`.
        fixed_agent: The agent's are.
        told: Is called after each simulation.
    """
    found = []
    for system in dict.fromkeys((System.AGENT, *systems)):
        chosen = replace(scenario, system=system)

        def advance(system: System = system) -> None:
            told(system)

        if fixed_draft and fixed_agent:
            found.append(run(workload, chosen, advance))
        else:
            found.append(Search(workload, chosen, limits, fixed_draft, fixed_agent, advance).result())
    return Forecast(
        workload=workload,
        rows=tuple(Row(one, _speedup(found[0], one)) for one in found),
        limits=None if fixed_draft and fixed_agent else limits,
        law_honest=law_honest(workload),
        law_ideal=law_ideal(1.0 - workload.left_over, 1.0),
    )


def _speedup(agent: Found, one: Found) -> float | None:
    alone, ours = agent.simulated, one.simulated
    if alone.overloaded or ours.overloaded:
        return None
    if isinstance(one.scenario.arrivals, Closed):
        return ours.throughput / alone.throughput if alone.throughput else None
    return alone.mean / ours.mean if ours.mean else None
