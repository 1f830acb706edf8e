"""Queries that come at times of their own, and what became of them: what `open_loop.py` measures, without any model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from benchmarks.speed import spread

from speceyes.evals.simulation import Open
from speceyes.types import Answer, Query, Route

PERCENTILES = (50, 95, 99)


def poisson(count: int, rate: float, seed: Sequence[int]) -> list[float]:
    """Seconds after the begin at which queries arrive: a Poisson process.

    Args:
        count: How many.
        rate: Queries a second.
        seed: The same one gives the same times.
    """
    times: list[float] = Open(rate).times(count, np.random.default_rng(seed)).tolist()
    return times


def turned(names: Sequence[str], by: int) -> list[str]:
    """The same in another order: each comes first in its turn."""
    at = by % len(names)
    return [*names[at:], *names[:at]]


def most_waiting(count: int, places: int) -> int:
    """Queries that may be under way or wait. With more, the load is taken to be more than the arm can bear."""
    return places + count // 4


@dataclass(frozen=True, slots=True)
class Course:
    """What one arm made of one load.

    Attributes:
        latencies: Seconds from the scheduled arrival to the answer, in the order of the answers; where it was stopped,
            only those of the queries that were answered before.
        saturated: It was stopped.
        most: The most queries that were under way or waited at a time.
        drafted: Queries that their draft has answered.
        plans: How many queries had each plan.
    """

    latencies: tuple[float, ...]
    saturated: bool
    most: int
    drafted: int = 0
    plans: Mapping[str, int] = field(default_factory=dict)


Answering = Callable[[Query], Coroutine[Any, Any, Answer]]


async def offered(answer: Answering, queries: Sequence[Query], times: Sequence[float], limit: int) -> Course:
    """Ask each query at its time, whatever has become of those before.

    Args:
        answer: Answers one query.
        queries: The queries.
        times: Seconds after the begin.
        limit: The most that may be under way or wait; with one more the rest is called off.
    """
    clock = asyncio.get_running_loop().time
    latencies: list[float] = []
    answers: list[Answer] = []
    under_way: set[asyncio.Task[None]] = set()
    began, most = clock(), 0

    async def one(query: Query, due: float) -> None:
        found = await answer(query)
        latencies.append(clock() - began - due)
        answers.append(found)

    saturated = False
    try:
        for query, due in zip(queries, times, strict=True):
            await asyncio.sleep(max(0.0, began + due - clock()))
            _raise_failures(under_way)
            under_way = {task for task in under_way if not task.done()}
            under_way.add(asyncio.create_task(one(query, due)))
            most = max(most, len(under_way))
            if most > limit:
                saturated = True
                break
        else:
            await asyncio.gather(*under_way)
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    drafted = sum(found.route is Route.DRAFT for found in answers)
    plans = dict(sorted(Counter(found.trace.plan for found in answers).items()))
    return Course(tuple(latencies), saturated, most, drafted, plans)


def _raise_failures(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done():
            task.result()


def figures(courses: Sequence[Course]) -> dict[str, Any]:
    """One arm at one load, over its repeats: percentiles of the latency in seconds, each with its spread."""
    whole = [course for course in courses if not course.saturated]
    found: dict[str, Any] = {"repeats": len(courses), "saturated": len(courses) - len(whole)}
    for percentile in PERCENTILES:
        values = [float(np.percentile(course.latencies, percentile)) for course in whole]
        found[f"p{percentile}"] = spread(values) if values else None
    answered = sum(len(course.latencies) for course in courses)
    found["drafted"] = sum(course.drafted for course in courses) / answered if answered else None
    return found | {"courses": [asdict(course) for course in courses]}


def is_saturated(found: Mapping[str, Any]) -> bool:
    """Whether an arm could not bear a load: in more than half of the repeats."""
    return 2 * int(found["saturated"]) > int(found["repeats"])
