"""To hear what a piece of work tells while it goes on, and its silences, and to end it whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

Heard = AsyncIterator[T | None]
"""What was told, in order, and None for each time that nothing was told for so long."""


@asynccontextmanager
async def listening(
    work: Callable[[Callable[[T], None]], Coroutine[Any, Any, R]], silence_s: float
) -> AsyncIterator[tuple[Heard[T], asyncio.Task[R]]]:
    """Start work and listen to it. Leaving the block ends it.

    Args:
        work: Is given a function to tell with.
        silence_s: Seconds without a word that count as a silence.

    Yields:
        What it tells, until it is over, and its task, to be awaited for its result or its error.
    """
    told: asyncio.Queue[tuple[T] | None] = asyncio.Queue()
    working = asyncio.create_task(work(lambda item: told.put_nowait((item,))))
    working.add_done_callback(lambda _: told.put_nowait(None))

    async def heard() -> Heard[T]:
        while True:
            try:
                async with asyncio.timeout(silence_s):
                    item = await told.get()
            except TimeoutError:
                yield None
                continue
            if item is None:
                return
            yield item[0]

    try:
        yield heard(), working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
