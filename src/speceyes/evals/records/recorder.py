"""Recording: every question through screen, draft, its closer looks and agent, whatever screen or gate would say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from speceyes.errors import EngineError, ImageError
from speceyes.evals.datasets.readers import Item
from speceyes.evals.records.rows import Asked, ImageFacts, Observed, make_row
from speceyes.evals.records.schema import ERRORS, Row, is_failed
from speceyes.evals.records.writer import RunWriter
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.looks import look
from speceyes.imaging.view import View
from speceyes.phases import AgentModel, DraftModel, fall_back, screen, speculate, speculate_closer
from speceyes.types import Draft, Query, Reason

T = TypeVar("T")

PATIENCE = 20
"""So many queries in a row that no server answers, and recording stops: it would only write down errors."""


async def record(
    items: Sequence[Item],
    draft: DraftModel,
    agent: AgentModel,
    writer: RunWriter,
    *,
    concurrency: int = 1,
    done: Callable[[Row], None] = lambda row: None,
) -> None:
    """Record the questions that the run does not have yet, each safe on the disk before it counts as done.

    The phases of one question run in a row, so with one question at a time their times do not disturb each other. The
    agent finds in the server's prompt cache what screening left there, as it does in service.

    Args:
        items: The data set; an item's place in it is its row's index.
        draft: The draft model.
        agent: The agent.
        writer: The run.
        concurrency: Questions under way at a time.
        done: Is told of each row.

    Raises:
        EngineError: A server is not set up as it must be, or has failed `PATIENCE` times in a row. Any other failure
            becomes a row with an error.
        ConfigError: The run cannot be written.
    """
    left = [(index, item) for index, item in enumerate(items) if item.id not in writer.ids]
    if len(left) > 1:
        await _warm_up(left[-1][1], draft, agent)
    waiting = iter(left)
    failures = 0

    async def work() -> None:
        nonlocal failures
        for index, item in waiting:
            row = await record_one(index, item, draft, agent)
            writer.write_rows([row])
            done(row)
            failures = failures + 1 if is_failed(row) and row["image_error"] is None else 0
            if failures >= PATIENCE:
                raise EngineError(_given_up(row))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, concurrency)):
                group.create_task(work())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def record_one(index: int, item: Item, draft: DraftModel, agent: AgentModel) -> Row:
    """One question through all phases, as a row.

    Raises:
        EngineError: A server is not set up as it must be.
    """
    images: list[DecodedImage] = []
    try:
        images.append(await asyncio.to_thread(item.image))
        observed = await observe(Query(item.prompt, tuple(images), id=item.id), draft, agent)
    except ImageError as error:
        observed = Observed(errors={"image": _told(error)})
    asked = Asked(
        item.id, index, item.prompt, [ImageFacts.of(image) for image in images], item.category, item.options, item.gold
    )
    return make_row(asked, observed)


async def observe(query: Query, draft: DraftModel, agent: AgentModel) -> Observed:
    """All phases of one query, one after another. A phase that fails leaves its error, and the next one runs.

    Where the draft model may look closer by itself, it does so as often as it may, whatever a gate would say to its
    drafts before. A look that comes to nothing, or fails, is the last.

    Raises:
        ImageError: An image has a shape that a model cannot take.
        EngineError: A server is not set up as it must be.
    """
    attempts = _Attempts()
    began = time.monotonic()
    views = await look(query.images, agent.dialect.limits)
    draft_views = await look(query.images, draft.limits, like=views)
    attempts.seconds["look"] = time.monotonic() - began
    screening = await attempts.phase("screen", screen(query, views, agent))
    answer = await attempts.phase("draft", speculate(query, draft_views, draft))
    closer = await _looked_closer(query, draft_views, draft, answer, attempts)
    run = await attempts.phase("agent", fall_back(query, views, agent))
    return Observed(screening, answer, run, attempts.errors, attempts.seconds, closer)


async def _looked_closer(
    query: Query, views: Sequence[View], draft: DraftModel, first: Draft | None, attempts: _Attempts
) -> list[Draft]:
    """The drafts of depth 1 and more, each with the wall time of its look. None without a first one, as in service."""
    found: list[Draft] = []
    before = first
    while before is not None and before.depth < draft.max_depth and before.fault is not Reason.LOOK_FAILED:
        before = await attempts.phase("closer", speculate_closer(query, views, draft, before))
        if before is not None:
            found.append(replace(before, seconds=attempts.seconds["closer"]))
    return found


@dataclass(slots=True)
class _Attempts:
    """The phases' times and errors."""

    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    async def phase(self, name: str, work: Awaitable[T]) -> T | None:
        began = time.monotonic()
        try:
            result = await work
        except EngineError as error:
            if error.misconfigured:
                raise
            self.errors[name] = _told(error)
            return None
        self.seconds[name] = time.monotonic() - began
        return result


async def _warm_up(item: Item, draft: DraftModel, agent: AgentModel) -> None:
    """One question that is not recorded: a server's first answer takes longer than those that follow.

    It is the last of those that are to come, so that the prompt cache has forgotten it when its turn comes.
    """
    await record_one(0, item, draft, agent)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _given_up(row: Row) -> str:
    last = next(row[name] for name in ERRORS if row[name] is not None)
    return (
        f"{PATIENCE} questions in a row failed, the last one with {last}. Nothing that was recorded is lost. Once the "
        "server works again, resume with --retry-errors."
    )
