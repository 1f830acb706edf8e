"""A server's own time: shared alike by those who are there."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.engines.server_clock import Mark, ServerClock, Stay


class Wall:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_second_beside_others_is_shared_with_them() -> None:
    """One alone for 2 s, two for 4 s, the second alone for 1 s: 2 + 4/2 and 4/2 + 1."""
    wall, first, second = Wall(), Stay(), Stay()
    clock = ServerClock(wall)
    came = clock.enter()
    wall.now += 2
    came_later = clock.enter()
    assert clock.under_way == 2
    wall.now += 4
    clock.leave(came, first)
    wall.now += 1
    clock.leave(came_later, second)
    wall.now += 50
    assert clock.under_way == 0
    assert (first.seconds, first.served, second.seconds, second.served) == (6, 4, 5, 3)
    assert [first.beside, second.beside] == pytest.approx([1.5, 5 / 3])
    assert Stay().beside is None


def test_several_calls_of_a_phase_make_one_stay_also_where_one_fails() -> None:
    wall, stay = Wall(), Stay()
    clock = ServerClock(wall)
    for error in (ZeroDivisionError, KeyError):
        with suppress(error), clock.timing(stay):
            wall.now += 3
            raise error
        wall.now += 10
    assert (stay.seconds, stay.served, clock.under_way) == (6, 6, 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_each_busy_second_is_counted_once(steps: list[tuple[int, bool]]) -> None:
    wall, stay, under_way, busy = Wall(), Stay(), list[Mark](), 0
    clock = ServerClock(wall)
    for seconds, comes in steps:
        wall.now += seconds
        busy += seconds if under_way else 0
        if comes:
            under_way.append(clock.enter())
        elif under_way:
            clock.leave(under_way.pop(0), stay)
    while under_way:
        clock.leave(under_way.pop(), stay)
    assert stay.served == pytest.approx(busy)
    assert stay.beside is None or stay.beside >= 1.0 - 1e-9


def test_a_clock_that_is_set_back_counts_nothing_twice() -> None:
    """As that of another event loop."""
    wall, stay = Wall(), Stay()
    clock = ServerClock(wall)
    came = clock.enter()
    wall.now = 0.0
    clock.leave(came, stay)
    assert (stay.seconds, stay.served) == (0.0, 0.0)
