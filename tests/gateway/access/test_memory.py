"""The memory budget: never above its total, nothing lost, no deadlock."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.errors import ConfigError
from speceyes.gateway.access.memory import MemoryBudget


async def test_who_does_not_fit_waits_in_order() -> None:
    budget, order = MemoryBudget(10), []

    async def work(name: str, size: int) -> None:
        async with budget.hold(size):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(work("a", 6), work("big", 10), work("small", 1))
    assert order == ["a", "big", "small"]
    assert (budget.held, budget.waiting) == (0, 0)


async def test_what_is_not_needed_goes_to_the_next() -> None:
    budget = MemoryBudget(10)
    async with budget.hold(10) as holding:
        waiter = asyncio.create_task(budget.hold(5).__aenter__())
        await asyncio.sleep(0)
        assert budget.waiting == 1
        holding.shrink(5)
        await waiter
        assert budget.held == 10
        holding.shrink(9)
        assert budget.held == 10
    assert budget.held == 5


async def test_waiting_has_an_end_and_a_large_one_that_leaves_lets_small_ones_pass() -> None:
    budget = MemoryBudget(10)
    async with budget.hold(6):
        large = asyncio.create_task(budget.hold(10, 0.01).__aenter__())
        await asyncio.sleep(0)
        small = asyncio.create_task(budget.hold(4).__aenter__())
        with pytest.raises(TimeoutError):
            await large
        await asyncio.wait_for(small, 30)


async def test_more_than_there_is_will_never_come() -> None:
    with pytest.raises(ConfigError, match="11 bytes are more than the 10"):
        await MemoryBudget(10).hold(11).__aenter__()


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_under_any_load_the_total_holds_and_nothing_is_lost(seed: int) -> None:
    asyncio.run(_storm(random.Random(seed)))


async def _storm(dice: random.Random) -> None:
    budget = MemoryBudget(20)
    held = 0

    async def work() -> None:
        nonlocal held
        size = dice.randint(0, 20)
        async with budget.hold(size, dice.choice([None, 0.0005])) as holding:
            held += size
            try:
                # Bytes count from when they are given, which may be before their task runs.
                assert held <= budget.held <= 20
                for _ in range(dice.randrange(5)):
                    await asyncio.sleep(0)
                less = dice.randint(0, size)
                holding.shrink(less)
                held, size = held - (size - less), less
                await asyncio.sleep(0)
            finally:
                held -= size

    tasks = [asyncio.create_task(work()) for _ in range(40)]
    for task in dice.sample(tasks, 10):
        for _ in range(dice.randrange(4)):
            await asyncio.sleep(0)
        task.cancel()
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    assert (budget.held, budget.waiting, held) == (0, 0, 0)
    for result in results:
        assert result is None or isinstance(result, TimeoutError | asyncio.CancelledError), result
