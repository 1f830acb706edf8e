"""What a speedup should be: the law of speculation, and the cost of each phase that it needs.

With beta the share of queries that phase I lets through, and alpha the share of those that phase III accepts:

    ideal   1 / (1 - beta * alpha)                                             phases I to III cost nothing
    honest  T_agent / (c_screen + beta * c_draft + (1 - beta * alpha) * T_agent)

The ideal law is the published one; the honest one pays for screening and drafting. Where the draft model may look
closer by itself, a share `looked` of the queries costs c_look more, and those that it then answers (`closer`) are added
to beta * alpha.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from speceyes.errors import InputError
from speceyes.evals.datasets.samples import Sample
from speceyes.imaging.looks import look
from speceyes.phases import AgentModel, DraftModel, fall_back, screen, speculate, speculate_closer
from speceyes.reasons import Reason


@dataclass(frozen=True, slots=True)
class Costs:
    """Mean seconds per query of each part of the work, one query at a time on servers that have nothing else to do.

    Attributes:
        screen: Phase I: the first look and one token.
        draft: Phase II.
        agent: A whole agent run without screening, the first look included.
        queries: How many queries each mean stands on.
        look: All that the draft model does for a query of which a glance was not enough; 0 where it may not.
    """

    screen: float
    draft: float
    agent: float
    queries: int
    look: float = 0.0


def law_ideal(alpha: float, beta: float, closer: float = 0.0) -> float | None:
    """The speedup if phases I to III cost nothing; None where it has no bound."""
    left = 1.0 - _share(_share(beta) * _share(alpha) + closer)
    return 1.0 / left if left > 0 else None


def law_honest(alpha: float, beta: float, costs: Costs, closer: float = 0.0, looked: float = 0.0) -> float:
    """The speedup with screening, drafting and looking closer paid for."""
    left = 1.0 - _share(_share(beta) * _share(alpha) + closer)
    spent = costs.screen + beta * costs.draft + _share(looked) * costs.look
    return costs.agent / (spent + left * costs.agent)


async def measure_costs(
    draft: DraftModel,
    agent: AgentModel,
    for_phases: Sequence[Sample],
    for_agent: Sequence[Sample],
    *,
    done: Callable[[], None] = lambda: None,
) -> Costs:
    """Measure the costs, one query after another.

    The agent gets other scenes than screening, so that it finds no prefix in the server's cache that screening left
    there: T_agent is what the agent costs alone.

    Args:
        for_phases: Samples to screen and to draft, as many as `for_agent` and with the same mix of questions.
        for_agent: Samples for whole agent runs.
        done: Is called after each pair.

    Raises:
        EngineError: A server failed.
        InputError: No samples, or not equally many.
    """
    if not for_agent or len(for_phases) != len(for_agent):
        raise InputError(f"Costs need equally many samples on both sides, not {len(for_phases)} and {len(for_agent)}.")
    spent = {"screen": 0.0, "draft": 0.0, "look": 0.0, "agent": 0.0}
    for phases_sample, agent_sample in zip(for_phases, for_agent, strict=True):
        query = phases_sample.query()
        began = time.monotonic()
        views = await look(query.images, agent.dialect.limits)
        await screen(query, views, agent)
        screened = time.monotonic()
        draft_views = await look(query.images, draft.limits, like=views)
        answer = await speculate(query, draft_views, draft)
        drafted = time.monotonic()
        for _ in range(draft.max_depth):
            answer = await speculate_closer(query, draft_views, draft, answer)
            if answer.fault is Reason.LOOK_FAILED:
                break
        looked = time.monotonic()
        query = agent_sample.query()
        started = time.monotonic()
        await fall_back(query, await look(query.images, agent.dialect.limits), agent)
        spent["screen"] += screened - began
        spent["draft"] += drafted - screened
        spent["look"] += looked - drafted
        spent["agent"] += time.monotonic() - started
        done()
    count = len(for_agent)
    mean = {name: seconds / count for name, seconds in spent.items()}
    return Costs(mean["screen"], mean["draft"], mean["agent"], count, mean["look"])


def _share(value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise InputError(f"{value} is not a share between 0 and 1.")
    return value
