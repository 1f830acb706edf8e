"""Slots never give out more than there are, and lose none; what an adaptive limit is told, and what it does."""

import asyncio
import random
from contextlib import nullcontext

import pytest

from speceyes.errors import ConfigError, EngineError, EngineOverloaded, EngineTimeout
from speceyes.scheduling import AdaptiveLimit, Claim, MeteredEngine, Slots
from speceyes.scheduling.slots import CALL_WORK
from speceyes.types import ChatRequest, Completion, Usage


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


async def test_a_task_that_is_cancelled_as_its_turn_comes_passes_the_slot_on() -> None:
    slots, served = Slots(1), []

    async def work(name: str) -> None:
        async with slots.place():
            served.append(name)

    async with slots.place():
        first, second = asyncio.create_task(work("first")), asyncio.create_task(work("second"))
        await asyncio.sleep(0)
        assert slots.waiting == 2
    first.cancel()  # it has been given the slot, and has not run since
    await asyncio.gather(first, second, return_exceptions=True)
    assert served == ["second"]
    assert (slots.held, slots.waiting) == (0, 0)


async def test_who_was_cancelled_and_has_not_noticed_gets_no_slot() -> None:
    slots, served = Slots(1), []

    async def work(name: str) -> None:
        async with slots.place():
            served.append(name)

    async with slots.place():
        first, second = asyncio.create_task(work("first")), asyncio.create_task(work("second"))
        await asyncio.sleep(0)
        first.cancel()
    assert slots.held == 1, "the second's"
    await asyncio.gather(first, second, return_exceptions=True)
    assert served == ["second"]
    assert (slots.held, slots.waiting) == (0, 0)


@pytest.mark.parametrize("seed", range(20))
async def test_no_slot_is_lost_or_doubled_whoever_gives_up_when(seed: int) -> None:
    draw, slots, now, most = random.Random(seed), Slots(3), 0, 0

    async def work() -> None:
        nonlocal now, most
        for _ in range(draw.randrange(4)):
            await asyncio.sleep(0)
        async with slots.place(Claim(draw.randrange(2), draw.choice([None, 0.1, 5.0]), draw.choice([None, 1.0]))):
            now += 1
            most = max(most, now)
            try:
                for _ in range(draw.randrange(5)):
                    await asyncio.sleep(0)
            finally:
                now -= 1

    tasks = [asyncio.create_task(work()) for _ in range(200)]
    while pending := [task for task in tasks if not task.done()]:
        if draw.random() < 0.5:
            draw.choice(pending).cancel()
        await asyncio.sleep(0)
        assert now <= slots.held <= 3
    assert most == 3
    assert (slots.held, slots.waiting) == (0, 0)


async def test_who_waits_is_served_by_what_it_claims() -> None:
    slots, order = Slots(1), []

    async def work(name: str, claim: Claim) -> None:
        async with slots.place(claim):
            order.append(name)

    async with slots.place():
        claims = {
            "long": Claim(expected_s=60.0),
            "short": Claim(expected_s=1.0),
            "in danger": Claim(expected_s=60.0, left_s=100.0),
            "unimportant": Claim(priority=5),
            "important": Claim(priority=-5),
        }
        tasks = [asyncio.create_task(work(name, claim)) for name, claim in claims.items()]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["important", "in danger", "short", "long", "unimportant"]


async def test_ten_thousand_wait_and_half_of_them_give_up() -> None:
    slots, served = Slots(4), 0

    async def work(i: int) -> None:
        nonlocal served
        async with slots.place(Claim(i % 3, float(i % 7))):
            served += 1

    async with slots, slots, slots, slots:
        tasks = [asyncio.create_task(work(i)) for i in range(10_000)]
        await asyncio.sleep(0)
        assert slots.waiting == 10_000
        for task in tasks[::2]:
            task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert slots.waiting == 5000
    await asyncio.gather(*tasks, return_exceptions=True)
    assert served == 5000
    assert (slots.held, slots.waiting) == (0, 0)


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


# With an adaptive limit


class Heard(AdaptiveLimit):
    """A limit that notes what it is told, and is set by the test."""

    def __init__(self, start: int) -> None:
        super().__init__(start, most=10)
        self.calls: list[tuple[float, int]] = []
        self.overloads = 0

    def set(self, limit: int) -> None:
        self._middle = float(limit)
        self._begin("rest")

    def called(self, now: float, work: float, held: int) -> None:
        self.calls.append((work, held))

    def overloaded(self, now: float, began: float) -> None:
        assert began <= now
        self.overloads += 1


async def test_a_higher_limit_lets_in_who_waits_and_a_lower_one_ends_nobodys_work() -> None:
    limit, leave = Heard(2), asyncio.Event()
    slots = Slots(limit)
    assert (slots.capacity, slots.most) == (2, 10)

    async def work() -> None:
        async with slots.place():
            await leave.wait()

    tasks = [asyncio.create_task(work()) for _ in range(8)]
    await asyncio.sleep(0)
    assert (slots.held, slots.waiting) == (2, 6)
    limit.set(4)
    slots._called(0.0)  # a call is over, as one of those that are under way would tell
    assert (slots.held, slots.waiting) == (4, 4)
    limit.set(1)
    assert (slots.held, slots.waiting, slots.load) == (4, 4, 1.0)
    leave.set()
    await asyncio.gather(*tasks)
    assert (slots.held, slots.waiting) == (0, 0)
    assert max(held for _, held in limit.calls) == 4


async def test_after_a_limit_was_lowered_nobody_gets_in_until_fewer_are_under_way() -> None:
    limit = Heard(3)
    slots = Slots(limit)
    async with slots.place():
        async with slots.place(), slots.place():
            waits = asyncio.create_task(slots.place().__aenter__())
            await asyncio.sleep(0)
            limit.set(1)
        await asyncio.sleep(0)
        assert (slots.held, slots.waiting) == (1, 1)
    place = await waits
    assert (slots.held, slots.waiting) == (1, 0)
    await place.__aexit__(None, None, None)


class Engine:
    """Says or raises what it is given."""

    model = "large"

    def __init__(self, outcome: Completion | EngineError) -> None:
        self.outcome = outcome

    async def complete(self, request: ChatRequest, *, on_delta: object = None) -> Completion:
        if isinstance(self.outcome, EngineError):
            raise self.outcome
        return self.outcome


@pytest.mark.parametrize(
    ("outcome", "work", "overloads"),
    [
        (Completion("x", "stop", usage=Usage(9, 40, calls=1)), [CALL_WORK + 40], 0),
        (Completion("x", "stop", usage=Usage(None, None, calls=1)), [CALL_WORK], 0),
        (Completion("x", "stop", usage=Usage(9, 40, calls=3)), [CALL_WORK + 40], 0),
        (Completion("x", "stop", usage=Usage(9, 40, calls=3), overloads=2), [CALL_WORK + 40], 1),
        (EngineOverloaded("429", status=429), [], 1),
        (EngineTimeout("slow"), [], 1),
        (EngineError("other"), [], 0),
    ],
    ids=["tokens", "no-tokens", "retried", "waited-out", "overloaded", "timeout", "other"],
)
async def test_what_a_run_tells_of_its_calls(
    outcome: Completion | EngineError, work: list[float], overloads: int
) -> None:
    limit = Heard(2)
    with pytest.raises(type(outcome)) if isinstance(outcome, EngineError) else nullcontext():
        async with Slots(limit).place() as place:
            engine = MeteredEngine(Engine(outcome), place)
            assert engine.model == "large"
            await engine.complete(ChatRequest((), 1))
    assert [done for done, _ in limit.calls] == work
    assert limit.overloads == overloads


@pytest.mark.parametrize(
    ("error", "told"),
    [(None, (1, 0)), (EngineOverloaded("429"), (0, 1)), (EngineError("500"), (0, 0))],
    ids=["well", "overloaded", "other"],
)
async def test_what_tells_nothing_counts_as_one_call(error: EngineError | None, told: tuple[int, int]) -> None:
    limit = Heard(2)
    with pytest.raises(EngineError) if error else nullcontext():
        async with Slots(limit).place():
            if error:
                raise error
    assert (len(limit.calls), limit.overloads) == told
