"""Many queries at once, in their order and without a barrier: who is done takes the next."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from speceyes.errors import SpecEyesError

Item = TypeVar("Item")
Done = TypeVar("Done")


async def in_order(
    work: Callable[[Item], Awaitable[Done]], items: Iterable[Item], *, at_once: int, keep_errors: bool
) -> list[Done | SpecEyesError]:
    """Do the same with all items.

    Args:
        work: What to do with one.
        items: Drawn from as work comes to its end, so a generator holds few of them at a time.
        at_once: How many are drawn and not done, at most.
        keep_errors: Put an error in the place of its item's result. Without it the first one ends the rest.

    Returns:
        The results, in the order of the items.

    Raises:
        SpecEyesError: The first, where they are not kept.
    """
    numbered = enumerate(items)
    found: dict[int, Done | SpecEyesError] = {}

    async def draw() -> None:
        for i, item in numbered:
            try:
                found[i] = await work(item)
            except SpecEyesError as error:
                if not keep_errors:
                    raise
                found[i] = _without_locals(error)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(draw())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [found[i] for i in range(len(found))]


def _without_locals(error: SpecEyesError) -> SpecEyesError:
    """An error to keep: its traceback still says where, but no longer holds on to the query's pictures."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # the first frame is the worker's, and still in use
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    return error
