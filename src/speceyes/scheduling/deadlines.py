"""A limit on the wall time of a whole query, whatever its parts allow themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from speceyes.errors import DeadlineExceeded


@asynccontextmanager
async def deadline(seconds: float | None, story: Callable[[], str]) -> AsyncIterator[None]:
    """End what runs inside after so many seconds; what it awaits is cancelled.

    Args:
        seconds: The limit, waiting included. None: no limit.
        story: Says what was done and what was not, for the error.

    Raises:
        DeadlineExceeded: The time was up.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise DeadlineExceeded(f"no answer within {seconds:g} s (deadline_s): {story()}") from error
