"""Slots never give out more than there are, and lose none."""

import asyncio

import pytest

from speceyes.errors import ConfigError
from speceyes.scheduling import Slots


async def test_no_more_than_the_capacity_is_held_and_the_order_is_kept() -> None:
    slots, order, most = Slots(2), [], 0

    async def work(i: int) -> None:
        nonlocal most
        async with slots:
            most = max(most, slots.held)
            order.append(i)
            await asyncio.sleep(0)

    await asyncio.gather(*map(work, range(10)))
    assert most == 2
    assert order == list(range(10))
    assert (slots.held, slots.waiting) == (0, 0)


async def test_a_cancelled_task_gives_back_what_it_holds_or_waits_for() -> None:
    slots, entered = Slots(1), asyncio.Event()

    async def hold() -> None:
        async with slots:
            entered.set()
            await asyncio.Event().wait()

    holder, waiter = asyncio.create_task(hold()), asyncio.create_task(hold())
    await entered.wait()
    await asyncio.sleep(0)
    assert (slots.held, slots.waiting) == (1, 1)
    waiter.cancel()
    holder.cancel()
    await asyncio.gather(holder, waiter, return_exceptions=True)
    assert (slots.held, slots.waiting) == (0, 0)
    async with slots:
        assert slots.held == 1


def test_one_set_of_slots_in_several_event_loops() -> None:
    slots = Slots(1)

    async def crowd() -> int:
        async def work() -> None:
            async with slots:
                await asyncio.sleep(0)

        await asyncio.gather(*(work() for _ in range(3)))
        return slots.held

    assert [asyncio.run(crowd()) for _ in range(2)] == [0, 0]


def test_no_capacity_is_an_error() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        Slots(0)
