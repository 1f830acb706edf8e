"""What a system asks of the servers for each query: without a simulation, as if nobody had to wait.

It is what a simulation of idle servers must give, what replicas are first guessed from, and what no schedule can do
with less than.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from speceyes.evals.simulation.servers import Servers
from speceyes.evals.simulation.workload import Workload
from speceyes.gating.separability import FloatArray
from speceyes.scheduling import Plan


class System(StrEnum):
    """Who answers the queries: the agent alone, SpecEyes under one of its plans, or the published schedule."""

    AGENT = "agent"
    PUBLISHED = "published"
    """Phases I and II for a whole batch each, with a barrier after each, then the agent's loops one by one."""
    PAPER = "paper"
    DRAFT_FIRST = "draft-first"
    PARALLEL = "parallel"
    HEDGED = "hedged"
    NO_SCREEN = "no-screen"
    AUTO = "auto"
    """The plan that the shipped planner chooses, query by query, from what it has seen."""

    @property
    def plan(self) -> Plan | None:
        """The plan of all its queries; None where there is no one such plan."""
        if self in (System.PUBLISHED, System.AUTO):
            return None
        return Plan.OFF if self is System.AGENT else Plan(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """For each of N queries, in seconds, each of shape (N,).

    Attributes:
        wait: From its arrival to its answer.
        draft: Work for the draft's servers, cancelled calls counted as far as they got.
        agent: The same for the agent's.
    """

    wait: FloatArray
    draft: FloatArray
    agent: FloatArray


def demand(plan: Plan, workload: Workload) -> Demand:
    """What each query asks for under a plan: the table in `speceyes.scheduling.plan`, query by query.

    What is refused at a glance goes to the draft model's own looks, where there are some, and then to the agent. A look
    also takes what of the draft has not been done yet: that has read the picture.
    """
    look, s, d, alone, after, let, passed, closer, passed_closer = _columns(workload)
    if plan is Plan.OFF:
        return Demand(look + alone, np.zeros_like(s), alone)
    accepted = passed if plan is Plan.NO_SCREEN else let & passed
    closer = np.where(accepted, 0.0, closer)
    done = accepted | passed_closer
    if plan is Plan.NO_SCREEN:
        draft, agent = d + closer, np.where(done, 0.0, alone)
        return Demand(look + draft + agent, draft, agent)
    if plan is Plan.PAPER:
        draft, agent = np.where(let | (closer > 0), d, 0.0) + closer, s + np.where(done, 0.0, after)
        return Demand(look + draft + agent, draft, agent)
    if plan is Plan.DRAFT_FIRST:
        draft, agent = d + closer, np.where(passed, s, 0.0) + np.where(done, 0.0, np.where(passed, after, alone))
        return Demand(look + draft + agent, draft, agent)
    # The first refusal ends both phases; without one they end when both are done.
    stop = np.where(let, np.where(passed, np.maximum(s, d), d), np.where(passed, s, np.minimum(s, d)))
    closer = np.where(closer > 0, closer + d - np.minimum(d, stop), 0.0)
    if plan is Plan.PARALLEL:
        share = np.divide(np.minimum(s, stop), s, out=np.ones_like(s), where=s > 0)  # of the screening that was done
        rest = np.where(done, 0.0, alone - share * (alone - after))
        return Demand(look + stop + closer + rest, np.minimum(d, stop) + closer, np.minimum(s, stop) + rest)
    front = np.minimum(stop + closer, alone)
    stop = np.minimum(stop, alone)
    run = np.where(done, front, alone)
    return Demand(look + run, np.minimum(d, stop) + (front - stop), np.minimum(s, stop) + run)


def least_demand(system: System, workload: Workload) -> Demand:
    """As `demand`, for any system: for `published` the paper's order, whose work is the same, without closer looks; for
    `auto` that order or the agent alone, whichever is less work."""
    if system is System.AUTO:
        choices = (demand(plan, workload) for plan in (Plan.PAPER, Plan.OFF))
        return min(choices, key=lambda asked: float((asked.draft + asked.agent).sum()))
    return demand(system.plan or Plan.PAPER, workload.at_a_glance if system is System.PUBLISHED else workload)


def law_honest(workload: Workload) -> float | None:
    """The honest law, each part the mean of these very queries; None where a query costs nothing.

    agent / (screen + beta draft + (1 - beta alpha) agent after screening), with the look on either side, and with what
    closer looks of the draft model take and spare.
    """
    spent = float(demand(Plan.PAPER, workload).wait.sum())
    return float(demand(Plan.OFF, workload).wait.sum()) / spent if spent > 0 else None


def least_seconds(
    found: Demand, draft: Servers, agent: Servers, *, clients: int | None = None, together: float | None = None
) -> float:
    """The least time in which any work-conserving schedule could answer all queries, by what bounds it from below.

    No pool does more than its capacity, no query is done before its own phases are, and with so many clients no more
    than so many queries move on at a time. A schedule may miss the bound; none gets under it.

    Args:
        found: What the queries ask for.
        draft: The draft's servers. So `agent`.
        agent: The agent's.
        clients: Queries under way at a time. None: all of them.
        together: Seconds of work that both pools together can do a second, where they share a machine. None: each has
            its own.
    """
    work_draft, work_agent = float(found.draft.sum()), float(found.agent.sum())
    bounds = [work_draft / draft.capacity, work_agent / agent.capacity, float(found.wait.max())]
    if clients is not None:
        bounds.append(float(found.wait.sum()) / clients)
    if together is not None:
        bounds.append((work_draft + work_agent) / together)
    return max(bounds)


def _columns(workload: Workload) -> tuple[Any, ...]:
    parts = ("look", "screen", "draft", "agent", "agent_after_screen")
    found = ("let_through", "passed", "closer", "passed_closer")
    return tuple(np.array([getattr(query, name) for query in workload.queries]) for name in (*parts, *found))
