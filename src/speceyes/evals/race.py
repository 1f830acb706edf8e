"""Several systems answer the same questions in one run, so that whatever slows the machine down slows all of them.

The questions are cut into as many blocks as there are systems (or a multiple of it). So many blocks at a time make a
Latin square: in every round each system takes another block. So in each round all systems run, each in turn goes
first, and each is the first at a block as often as any other. Between two systems' turns at a block lie other blocks.
With a server that keeps few prompts (`evals/serving.py`) none lives on what another has left in its cache; with one
that keeps many, all do alike.

This is the one way in which systems answer questions, for the demo, the benchmarks and `speceyes eval`.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from speceyes.errors import EngineError, ImageError, SpecEyesError
from speceyes.evals.datasets.samples import Sample
from speceyes.evals.matching import is_right
from speceyes.evals.systems import Answering, Question, Reply, System, SystemName
from speceyes.types import Query

T = TypeVar("T")

BLOCK = 40
"""About how many questions a block may have. Smaller ones mix better, but in each block's tail places stand idle."""

Told = Callable[[Question, Reply], None]
"""Is told of each reply when it is there."""


@dataclass(frozen=True, slots=True)
class Result:
    """One system's reply to one sample."""

    sample: Sample
    reply: Reply
    right: bool


@dataclass(frozen=True, slots=True)
class Lap:
    """One block of questions: how many were asked, and the wall time that a system took for them."""

    queries: int
    seconds: float


@dataclass(slots=True)
class Course:
    """What one system did in a race.

    Attributes:
        results: In the order of the samples: as many as there are samples, failures included.
        seconds: Wall time while this system ran, from the first image to the last token.
        laps: The same, block by block in the order of the samples, so that laps of two systems can be held side by
            side.
    """

    results: list[Result] = field(default_factory=list)
    seconds: float = 0.0
    laps: list[Lap] = field(default_factory=list)


async def race(
    systems: Sequence[System],
    samples: Sequence[Sample],
    concurrency: int = 1,
    *,
    done: Callable[[SystemName], None] = lambda name: None,
) -> dict[SystemName, Course]:
    """Let each system answer each sample.

    Args:
        systems: Who takes part.
        samples: The questions; their pictures are drawn before the clock starts.
        concurrency: Queries that a system has under way at a time.
        done: Is told of every finished query.
    """
    blocks = split(samples, len(systems))
    found: dict[SystemName, dict[str, Result]] = {system.name: {} for system in systems}
    laps: dict[SystemName, dict[int, Lap]] = {system.name: {} for system in systems}
    for index, place in schedule(len(systems), len(blocks)):
        system, block = systems[index], blocks[place]

        def tell(question: Question, reply: Reply, name: SystemName = system.name) -> None:
            done(name)

        replies, lap = await run_block(system, list(map(question_of, block)), concurrency, tell)
        laps[system.name][place] = lap
        for sample, reply in zip(block, replies, strict=True):
            right = reply.error is None and is_right(reply.text, sample.gold, sample.options)
            found[system.name][sample.id] = Result(sample, reply, right)
    return {name: _course(results, laps[name], samples) for name, results in found.items()}


def question_of(sample: Sample) -> Question:
    """A generated sample as systems see it."""
    return Question(sample.id, sample.query, partial(is_right, gold=sample.gold, options=sample.options))


async def run_block(
    system: Answering, questions: Sequence[Question], concurrency: int, told: Told
) -> tuple[list[Reply], Lap]:
    """Let one system answer one block of questions, so many at a time.

    Pictures are loaded before the clock starts. A question whose picture cannot be loaded has a reply with an error and
    is not asked, so it is not in the lap.

    Args:
        system: Who answers.
        questions: The block.
        concurrency: Queries under way at a time.
        told: Is told of each reply when it is there. What it raises ends the block.

    Returns:
        The replies, in the order of the questions, and the lap.

    Raises:
        EngineError: A server is not set up as it must be. Any other failure is a reply with an error.
    """
    replies: dict[int, Reply] = {}
    queries: dict[int, Query] = {}
    for place, loaded in enumerate(await asyncio.gather(*(asyncio.to_thread(_load, one) for one in questions))):
        if isinstance(loaded, Reply):
            replies[place] = loaded
            told(questions[place], loaded)
        else:
            queries[place] = loaded
    count, waiting = len(queries), iter(list(queries))

    async def work() -> None:
        for place in waiting:
            # Taken out, not looked up: a picture that has been unpacked goes when its query is done.
            replies[place] = await _answer(system, queries.pop(place), questions[place])
            told(questions[place], replies[place])

    began = time.monotonic()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, concurrency)):
                group.create_task(work())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    lap = Lap(count, time.monotonic() - began)
    return [replies[place] for place in range(len(questions))], lap


async def _answer(system: Answering, query: Query, question: Question) -> Reply:
    try:
        return await system.answer(query, question)
    except SpecEyesError as error:
        if isinstance(error, EngineError) and error.misconfigured:
            raise
        return Reply.failed(error)


def _load(question: Question) -> Query | Reply:
    try:
        return question.load()
    except ImageError as error:
        return Reply.failed(error)


def split(samples: Sequence[T], systems: int, block: int = BLOCK) -> list[Sequence[T]]:
    """The samples in a multiple of `systems` blocks, about equally long; some are empty where there are too few.

    Args:
        samples: What is cut.
        systems: How many take part.
        block: About how long a block may be.
    """
    count = systems * max(1, round(len(samples) / (systems * block)))
    edges = [len(samples) * i // count for i in range(count + 1)]
    return [samples[low:high] for low, high in itertools.pairwise(edges)]


def schedule(systems: int, blocks: int) -> list[tuple[int, int]]:
    """(system, block) by their numbers, in the order in which they run.

    Args:
        systems: How many take part.
        blocks: How many blocks there are: a multiple of the systems.
    """
    return [
        (index, first + (number - index) % systems)
        for first in range(0, blocks, systems)
        for number in range(systems)
        for index in ((number + place) % systems for place in range(systems))
    ]


def _course(results: Mapping[str, Result], laps: Mapping[int, Lap], samples: Sequence[Sample]) -> Course:
    ordered = [laps[place] for place in sorted(laps)]
    return Course([results[sample.id] for sample in samples], sum(lap.seconds for lap in ordered), ordered)


def by_id(course: Course) -> Mapping[str, Result]:
    """The results under their samples' names."""
    return {result.sample.id: result for result in course.results}
