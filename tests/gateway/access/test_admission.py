"""Admission: never more than the limits, nothing lost, nobody crowded out, and an honest hint when it is full."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.errors import ConfigError
from speceyes.gateway.access.admission import Admission
from speceyes.gateway.access.auth import KeyInfo
from speceyes.gateway.access.keyfile import Scope
from speceyes.gateway.access.refusals import Full


def key(name: str, limit: int | None = None) -> KeyInfo:
    return KeyInfo(name, name, frozenset(Scope), limit)


class Worker:
    """A request that holds its place until it is told to end."""

    def __init__(self, admission: Admission, who: KeyInfo, **more) -> None:
        self.entered = asyncio.Event()
        self.end = asyncio.Event()
        self.task = asyncio.create_task(self._work(admission, who, **more))

    async def _work(self, admission: Admission, who: KeyInfo, **more) -> None:
        async with admission.admit(who, **more):
            self.entered.set()
            await self.end.wait()


async def turn() -> None:
    """Let all tasks run as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def crowd(admission: Admission, names: str, **more) -> list[Worker]:
    workers = []
    for name in names:
        workers.append(Worker(admission, key(name), **more))
        await turn()
    return workers


async def finish(*workers: Worker) -> None:
    for worker in workers:
        worker.end.set()
    await asyncio.gather(*(worker.task for worker in workers), return_exceptions=True)


async def test_beyond_places_and_queue_it_is_full_at_once() -> None:
    admission = Admission(2, 3)
    workers = await crowd(admission, "aaaaa")
    assert (admission.held, admission.waiting) == (2, 3)
    with pytest.raises(Full) as caught:
        async with admission.admit(key("a")):
            pytest.fail("entered")
    assert caught.value.status == 429
    assert caught.value.headers["retry-after"] == "1"
    assert "All 2 places are taken and 3 requests wait" in str(caught.value)
    assert admission.refused == 1
    await finish(*workers)
    assert (admission.held, admission.waiting) == (0, 0)
    assert all(worker.task.exception() is None for worker in workers)


async def test_without_a_queue_nobody_waits() -> None:
    admission = Admission(1, 0)
    async with admission.admit():
        with pytest.raises(Full):
            await admission.admit().__aenter__()
    async with admission.admit():
        assert admission.held == 1


async def test_within_a_key_first_come_first_served() -> None:
    admission, order = Admission(1, 10), []

    async def work(number: int) -> None:
        async with admission.admit(key("a")):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*map(work, range(10)))
    assert order == list(range(10))


async def test_keys_take_turns() -> None:
    admission = Admission(1, 20)
    order: list[str] = []

    async def work(name: str) -> None:
        async with admission.admit(key(name)):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(name) for name in "aaaaaabbc"))
    assert "".join(order) == "aabcabaaa"


async def test_a_full_queue_gives_way_to_who_has_less_in_it() -> None:
    admission = Admission(1, 3)
    workers = await crowd(admission, "aaaa")
    other = Worker(admission, key("b"))
    await turn()
    assert isinstance(workers[3].task.exception(), Full)
    assert admission.waiting == 3
    workers[0].end.set()
    await turn()
    workers[1].end.set()
    await turn()
    assert other.entered.is_set()
    again = Worker(admission, key("a"))
    await finish(*workers, other, again)
    assert (admission.held, admission.waiting) == (0, 0)


async def test_equals_do_not_push_each_other_out() -> None:
    admission = Admission(1, 2)
    workers = await crowd(admission, "xab")
    third = Worker(admission, key("c"))
    await turn()
    assert isinstance(third.task.exception(), Full)
    assert admission.waiting == 2
    await finish(*workers)


async def test_a_keys_own_limit_leaves_places_for_others() -> None:
    admission = Admission(3, 10, in_flight_per_key=2)
    workers = await crowd(admission, "aaaa")
    assert (admission.held, admission.waiting) == (2, 2)
    other = Worker(admission, key("b"))
    await turn()
    assert other.entered.is_set()
    narrow = [Worker(admission, key("n", 1)) for _ in range(2)]
    other.end.set()
    await turn()
    assert [worker.entered.is_set() for worker in narrow] == [True, False]
    await finish(*workers, other, *narrow)
    assert (admission.held, admission.waiting) == (0, 0)


async def test_a_key_without_a_limit_is_bounded_by_the_server() -> None:
    admission = Admission(2, 5)
    workers = [Worker(admission, key("a", 100)) for _ in range(4)]
    await turn()
    assert (admission.held, admission.waiting) == (2, 2)
    await finish(*workers)


async def test_waiting_has_an_end() -> None:
    admission = Admission(1, 5, max_wait_s=0.01)
    async with admission.admit():
        with pytest.raises(Full, match=r"No place came free within 0\.01 s"):
            await admission.admit().__aenter__()
        with pytest.raises(Full, match="within 0 s"):
            await admission.admit(max_wait_s=0).__aenter__()
        assert (admission.held, admission.waiting) == (1, 0)
    assert admission.held == 0


async def test_a_request_cannot_ask_to_wait_longer_than_the_server_lets_it() -> None:
    admission = Admission(1, 5, max_wait_s=0.01)
    async with admission.admit():
        with pytest.raises(Full, match=r"0\.01 s"):
            await admission.admit(max_wait_s=1000).__aenter__()


async def test_the_hint_grows_with_the_queue_and_the_time_that_requests_take() -> None:
    now = 0.0
    admission = Admission(2, 100, clock=lambda: now)
    assert admission.retry_after_s() == 1
    for took in (8.0, 8.0):
        async with admission.admit():
            now += took
    assert admission.retry_after_s() == 4  # half a round of 8 s for the one who comes
    workers = await crowd(admission, "aaaaaa")
    assert (admission.held, admission.waiting) == (2, 4)
    assert admission.retry_after_s(key("z")) == 20  # five in a queue before two places
    assert admission.retry_after_s(key("a", 1)) == 40  # and one after the other for a key with one place
    now += 1e6
    await finish(*workers)
    assert admission.retry_after_s() == 300


@pytest.mark.parametrize("when", ["waiting", "working"])
async def test_a_cancelled_request_gives_back_what_it_has(when: str) -> None:
    admission = Admission(1, 5)
    first, second, third = await crowd(admission, "aaa")
    gone = second if when == "waiting" else first
    gone.task.cancel()
    await turn()
    assert (admission.held, admission.waiting) == (1, 1)
    await finish(first, second, third)
    assert third.entered.is_set()
    assert (admission.held, admission.waiting) == (0, 0)


async def test_a_place_that_comes_in_the_moment_of_cancelling_is_handed_on() -> None:
    admission = Admission(1, 5)
    first, second, third = await crowd(admission, "abc")
    first.end.set()
    while admission.waiting == 2:  # noqa: ASYNC110 - until the place is given to the second, which has not run yet
        await asyncio.sleep(0)
    assert not second.entered.is_set()
    second.task.cancel()
    await turn()
    assert third.entered.is_set()
    assert not second.entered.is_set()
    await finish(first, second, third)
    assert (admission.held, admission.waiting) == (0, 0)


async def test_an_error_inside_gives_the_place_back() -> None:
    admission = Admission(1, 0)
    with pytest.raises(ZeroDivisionError):
        async with admission.admit():
            1 / 0  # noqa: B018
    assert admission.held == 0


@settings(max_examples=40)
@given(
    st.integers(1, 4),
    st.integers(0, 6),
    st.none() | st.integers(1, 3),
    st.integers(0, 2**32),
)
def test_under_any_load_limits_hold_and_nothing_is_lost(
    places: int, queue: int, per_key: int | None, seed: int
) -> None:
    outcomes = asyncio.run(_storm(places, queue, per_key, random.Random(seed)))
    assert sum(outcomes.values()) == 60
    assert outcomes["done"] > 0


async def _storm(places: int, queue: int, per_key: int | None, dice: random.Random) -> Counter[str]:
    """Sixty requests of three keys, some cancelled, some impatient, at random moments."""
    admission = Admission(places, queue, in_flight_per_key=per_key)
    held: Counter[str] = Counter()

    async def work(name: str) -> str:
        for _ in range(dice.randrange(20)):
            await asyncio.sleep(0)
        try:
            async with admission.admit(key(name), max_wait_s=dice.choice([0, 0.0005, 30])):
                held[name] += 1
                try:
                    # A place counts from when it is given, which may be before its task runs.
                    assert held.total() <= admission.held <= places
                    assert held[name] <= (per_key or places)
                    assert admission.waiting <= queue
                    for _ in range(dice.randrange(10)):
                        await asyncio.sleep(0)
                finally:
                    held[name] -= 1
        except Full:
            return "full"
        return "done"

    tasks = [asyncio.create_task(work(dice.choice("abc"))) for _ in range(60)]
    for task in dice.sample(tasks, 15):
        for _ in range(dice.randrange(4)):
            await asyncio.sleep(0)
        task.cancel()
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    assert (admission.held, admission.waiting) == (0, 0)
    assert not admission._lines
    assert not admission._held_by
    for result in results:
        assert isinstance(result, str | asyncio.CancelledError), result
    return Counter(result if isinstance(result, str) else "cancelled" for result in results)


@pytest.mark.parametrize(("places", "queue", "per_key"), [(0, 1, None), (1, -1, None), (1, 1, 0)])
def test_impossible_numbers_are_errors(places: int, queue: int, per_key: int | None) -> None:
    with pytest.raises(ConfigError, match="at least one place"):
        Admission(places, queue, in_flight_per_key=per_key)
