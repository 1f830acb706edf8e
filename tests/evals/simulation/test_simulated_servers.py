"""A replica shares itself as its curve says: worked by hand, and against a plain step-by-step account."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simpy import Environment, Event

from speceyes.evals.simulation import BatchingCurve, Servers
from speceyes.evals.simulation.servers import Call, Pool, Replica

SENT = list[tuple[float, float]]
"""(moment, seconds) of calls, by moment."""


def ends_of(
    curve: BatchingCurve, sent: SENT, cancelled: dict[int, float] | None = None
) -> tuple[list[float | None], Replica]:
    """When each call ends on one replica; None where it was cancelled before."""
    env = Environment()
    replica = Replica(env, curve)
    ends: list[float | None] = [None] * len(sent)
    calls: dict[int, Call] = {}

    def send(number: int) -> Generator[Event, Any, None]:
        yield env.timeout(sent[number][0])
        calls[number] = replica.call(sent[number][1])
        yield calls[number]
        ends[number] = env.now

    def cancel(number: int, moment: float) -> Generator[Event, Any, None]:
        yield env.timeout(moment)
        if number in calls:
            calls[number].cancel()

    for number in range(len(sent)):
        env.process(send(number))
    for number, moment in (cancelled or {}).items():
        env.process(cancel(number, moment))
    env.run()
    replica.catch_up()
    return ends, replica


def step_by_step(curve: BatchingCurve, sent: SENT) -> list[float]:
    """The same without virtual time: each call's remaining work, lessened from event to event."""
    left = [seconds for _, seconds in sent]
    ends, running, waiting, now = [0.0] * len(sent), [], [], 0.0
    arriving = list(range(len(sent)))
    while arriving or running:
        slow = curve.slowdown(len(running)) if running else 1.0
        until_end = min((left[i] for i in running), default=float("inf")) * slow
        until_next = sent[arriving[0]][0] - now if arriving else float("inf")
        step = min(until_end, until_next)
        now += step
        for i in running:
            left[i] -= step / slow
        for i in [i for i in running if left[i] <= 1e-9]:
            running.remove(i)
            ends[i] = now
        if until_next <= step:
            waiting.append(arriving.pop(0))
        while waiting and len(running) < curve.slots:
            running.append(waiting.pop(0))
    return ends


def test_two_calls_share_a_processor() -> None:
    # One second alone, then both at half speed: the second ends after 1 + 2, the first has 1 s of work left then.
    ends, replica = ends_of(BatchingCurve.cpu(), [(0.0, 3.0), (1.0, 1.0)])
    assert ends == pytest.approx([4.0, 3.0])
    assert replica.work == pytest.approx(4.0)


def test_with_a_flat_curve_calls_do_not_notice_each_other() -> None:
    ends, _ = ends_of(BatchingCurve.cpu(8), [(0.0, 3.0), (1.0, 1.0), (1.5, 4.0)])
    assert ends == pytest.approx([3.0, 2.0, 5.5])


def test_more_calls_than_slots_wait_in_line() -> None:
    ends, _ = ends_of(BatchingCurve.alone(), [(0.0, 3.0), (1.0, 1.0), (1.5, 0.5)])
    assert ends == pytest.approx([3.0, 4.0, 4.5])


def test_a_cancelled_call_gives_its_share_back() -> None:
    ends, replica = ends_of(BatchingCurve.cpu(), [(0.0, 3.0), (1.0, 5.0)], {1: 2.0})
    assert ends == [pytest.approx(3.5), None]  # 1 s alone, 1 s at half speed, 1.5 s alone
    assert replica.work == pytest.approx(3.5)
    assert replica.present == 0


def test_a_waiting_call_can_be_cancelled_and_lets_the_next_one_in() -> None:
    ends, replica = ends_of(BatchingCurve.alone(), [(0.0, 3.0), (1.0, 1.0), (1.5, 0.5)], {1: 2.0})
    assert ends == [pytest.approx(3.0), None, pytest.approx(3.5)]
    assert replica.present == 0


def test_cancelling_what_is_done_changes_nothing() -> None:
    ends, replica = ends_of(BatchingCurve.cpu(), [(0.0, 1.0), (0.0, 3.0)], {0: 3.0})
    assert ends == pytest.approx([2.0, 4.0])
    assert replica.present == 0


curves = st.sampled_from(
    [
        BatchingCurve.cpu(),
        BatchingCurve.cpu(3),
        BatchingCurve.alone(),
        BatchingCurve.gpu(4),
        BatchingCurve("made", ((1, 1.0), (2, 1.1), (3, 4.0)), 3),
    ]
)
seconds = st.floats(0.01, 20.0)


@given(curves, st.lists(st.tuples(st.floats(0.0, 30.0), seconds), min_size=1, max_size=12))
def test_virtual_time_keeps_the_account(curve: BatchingCurve, sent: SENT) -> None:
    sent = sorted(sent)
    ends, replica = ends_of(curve, sent)
    assert ends == pytest.approx(step_by_step(curve, sent), rel=1e-6, abs=1e-6)
    # Conservation: all the work that was sent was done, and nothing else.
    assert replica.work == pytest.approx(sum(work for _, work in sent))
    assert replica.present == 0


@given(
    curves,
    st.lists(st.tuples(st.floats(0.0, 10.0), seconds), min_size=1, max_size=10),
    st.dictionaries(st.integers(0, 9), st.floats(0.0, 40.0)),
)
def test_nothing_is_lost_where_calls_are_cancelled(
    curve: BatchingCurve, sent: SENT, cancelled: dict[int, float]
) -> None:
    ends, replica = ends_of(curve, sent, {number: at for number, at in cancelled.items() if number < len(sent)})
    done = [work for (_, work), end in zip(sent, ends, strict=True) if end is not None]
    assert replica.present == 0
    assert sum(done) - 1e-6 <= replica.work <= sum(work for _, work in sent) + 1e-6
    assert all(end is None or end >= at + work - 1e-6 for (at, work), end in zip(sent, ends, strict=True))
    assert all(end is not None for number, end in enumerate(ends) if number not in cancelled)


def test_a_query_goes_to_the_least_loaded_and_equals_take_turns() -> None:
    env = Environment()
    pool = Pool(env, Servers(3, BatchingCurve.cpu()))
    first = [pool.least_loaded() for _ in range(3)]
    assert len(set(map(id, first))) == 3
    first[0].call(1.0)
    first[2].call(1.0)
    assert {id(pool.least_loaded()) for _ in range(5)} == {id(first[1])}
