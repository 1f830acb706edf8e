"""Several systems answer the same questions in one run, so that whatever slows the machine down slows all of them.

The questions are cut into as many parts as there are systems (or a multiple of it), and in every round each system
takes another part: a Latin square. So in each round all systems run, each in turn goes first, and between two systems'
turns at the same part lie two other parts, so that none lives on what another has left in a server's prompt cache.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from speceyes.evals.datasets.samples import Sample
from speceyes.evals.matching import is_right
from speceyes.evals.systems import Reply, System, SystemName

PART = 40
"""About how many questions a part may have. Smaller parts mix better, but in each part's tail slots stand idle."""


@dataclass(frozen=True, slots=True)
class Result:
    """One system's reply to one sample."""

    sample: Sample
    reply: Reply
    right: bool


@dataclass(frozen=True, slots=True)
class Lap:
    """One part of the questions: how many, and the wall time that a system took for them."""

    queries: int
    seconds: float


@dataclass(slots=True)
class Course:
    """What one system did in a race.

    Attributes:
        results: In the order of the samples: as many as there are samples, failures included.
        seconds: Wall time while this system ran, from the first image to the last token.
        laps: The same, part by part in the order of the samples, so that laps of two systems can be held side by side.
    """

    results: list[Result] = field(default_factory=list)
    seconds: float = 0.0
    laps: list[Lap] = field(default_factory=list)


async def race(
    systems: Sequence[System], samples: Sequence[Sample], *, done: Callable[[SystemName], None] = lambda name: None
) -> dict[SystemName, Course]:
    """Let each system answer each sample.

    Args:
        systems: Who takes part.
        samples: The questions; their pictures are drawn before the clock starts.
        done: Is told of every finished query.
    """
    parts = split(samples, len(systems))
    found: dict[SystemName, dict[str, Result]] = {system.name: {} for system in systems}
    laps: dict[SystemName, dict[int, Lap]] = {system.name: {} for system in systems}
    for number, order in enumerate(rounds(len(systems), len(parts))):
        for index in order:
            system, place = systems[index], (number - index) % len(parts)
            part = parts[place]
            replies, took = await _run(system, part, done)
            laps[system.name][place] = Lap(len(part), took)
            for sample, reply in zip(part, replies, strict=True):
                right = reply.error is None and is_right(reply.text, sample.gold, sample.options)
                found[system.name][sample.id] = Result(sample, reply, right)
    return {name: _course(results, laps[name], samples) for name, results in found.items()}


def split(samples: Sequence[Sample], systems: int) -> list[Sequence[Sample]]:
    """The samples in a multiple of `systems` parts, about equally long; some are empty where there are too few."""
    count = systems * max(1, round(len(samples) / (systems * PART)))
    edges = [len(samples) * i // count for i in range(count + 1)]
    return [samples[low:high] for low, high in itertools.pairwise(edges)]


def rounds(systems: int, parts: int) -> list[list[int]]:
    """For every round, the systems' numbers in the order in which they run: each takes its turn to go first."""
    return [[(number + place) % systems for place in range(systems)] for number in range(parts)]


def _course(results: Mapping[str, Result], laps: Mapping[int, Lap], samples: Sequence[Sample]) -> Course:
    ordered = [laps[place] for place in sorted(laps)]
    return Course([results[sample.id] for sample in samples], sum(lap.seconds for lap in ordered), ordered)


async def _run(
    system: System, part: Sequence[Sample], done: Callable[[SystemName], None]
) -> tuple[Sequence[Reply], float]:
    queries = await asyncio.to_thread(lambda: [sample.query() for sample in part])
    began = time.monotonic()
    replies = await system.answer_many(queries, lambda: done(system.name))
    return replies, time.monotonic() - began


def by_id(course: Course) -> Mapping[str, Result]:
    """The results under their samples' names."""
    return {result.sample.id: result for result in course.results}
