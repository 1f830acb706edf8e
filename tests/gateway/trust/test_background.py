"""Work beside the requests, and its budgets."""

from __future__ import annotations

import asyncio
import logging

import pytest

from speceyes.gateway.trust.background import Background
from speceyes.gateway.trust.budget import HOUR_S, HourlyBudget


async def test_there_is_only_so_much_at_a_time() -> None:
    go = asyncio.Event()
    tasks = Background(2)
    first, second = tasks.start(go.wait), tasks.start(go.wait)
    assert first is not None
    assert second is not None
    assert tasks.start(go.wait) is None
    assert (tasks.under_way, tasks.full) == (2, True)
    go.set()
    await asyncio.gather(first, second)
    await asyncio.sleep(0)
    assert (tasks.under_way, tasks.full) == (0, False)


async def test_in_the_end_it_waits_and_then_gives_up_what_is_late() -> None:
    go, ended = asyncio.Event(), list[str]()

    async def late() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def soon() -> None:
        await go.wait()
        ended.append("done")

    tasks = Background(5)
    tasks.start(late)
    tasks.start(soon)
    go.set()
    closing = asyncio.create_task(tasks.close(0.2))
    await asyncio.sleep(0)
    assert tasks.start(soon) is None, "nothing begins any more"
    await closing
    assert ended == ["done", "cancelled"]
    assert tasks.under_way == 0


async def test_an_error_goes_to_the_log_and_no_further(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> None:
        raise RuntimeError("a slip in the code")

    tasks = Background(1)
    with caplog.at_level(logging.ERROR):
        tasks.start(broken)
        await tasks.close(1)
        await asyncio.sleep(0)
    assert "a slip in the code" in caplog.text


def test_a_budget_is_for_any_hour() -> None:
    now = 0.0
    budget = HourlyBudget(2, clock=lambda: now)
    assert [budget.take(), budget.take(), budget.take()] == [True, True, False]
    now = HOUR_S - 1
    assert not budget.take()
    now = HOUR_S
    assert [budget.take(), budget.take(), budget.take()] == [True, True, False]


def test_without_a_budget_there_is_no_limit() -> None:
    budget = HourlyBudget(None)
    assert all(budget.take() for _ in range(100))
