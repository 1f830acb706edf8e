"""A deadline ends what runs, and says what was done."""

import asyncio

import pytest

from speceyes.errors import DeadlineExceeded, EngineTimeout
from speceyes.scheduling import deadline


async def test_it_ends_what_is_not_done_and_tells_the_story() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        async with deadline(0.01, lambda: "half of it was done"):
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    with pytest.raises(DeadlineExceeded, match=r"no answer within 0.01 s \(deadline_s\): half of it was done"):
        await work()
    assert ended.is_set()


async def test_it_does_not_touch_what_is_in_time_or_has_no_limit() -> None:
    for seconds in (60, None):
        async with deadline(seconds, lambda: ""):
            await asyncio.sleep(0)


async def test_other_time_outs_pass_through() -> None:
    with pytest.raises(TimeoutError, match="mine"):
        async with deadline(60, lambda: ""):
            raise TimeoutError("mine")
    with pytest.raises(EngineTimeout, match="the server's"):
        async with deadline(60, lambda: ""):
            raise EngineTimeout("the server's")


async def test_being_cancelled_is_not_being_late() -> None:
    async def work() -> None:
        async with deadline(60, lambda: ""):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
