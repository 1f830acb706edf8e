"""Two phases at once, of which either may refuse: the first refusal ends the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from speceyes.types import Verdict


async def first_refusal(screening: Awaitable[Verdict | None], drafting: Awaitable[Verdict]) -> Verdict:
    """Run both, and cancel the one that no longer matters. An error of either ends both.

    Args:
        screening: None lets the query through; any verdict decides.
        drafting: A verdict that is not accepted decides; an accepted one waits for the screening.
    """
    first, second = asyncio.ensure_future(screening), asyncio.ensure_future(drafting)
    try:
        await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
        if not first.done() and not (drafted := await second).accepted:
            return drafted
        refusal = await first
        return await second if refusal is None else refusal
    finally:
        await end(first, second)


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what still runs, and wait until it is over, so that its connections are closed."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)  # `gather` would keep the errors, and with them the query's pictures, until a collection
    for task in tasks:
        if not task.cancelled():
            task.exception()  # has been seen
