"""Who is next in a waiting line: priority, short work first within bounds, deadlines where they are in danger."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from speceyes.scheduling.line import IN_DANGER, PATIENCE, Claim, Line, Ticket


def order(line: Line[Any], now: float = 0.0) -> list[Any]:
    """Everybody, as they are served at this moment."""
    served = []
    while (item := line.next(now)) is not None:
        served.append(item)
    assert len(line) == 0
    return served


def joined(*claims: tuple[str, float, Claim]) -> Line[str]:
    line: Line[str] = Line()
    for name, now, claim in claims:
        line.join(name, claim, now)
    return line


# What stands in front of what


def test_where_nothing_is_known_it_is_first_come_first_served() -> None:
    line: Line[int] = Line()
    for i in range(100):
        line.join(i, Claim(), 0.0)
    assert order(line) == list(range(100))


def test_equal_expectations_keep_the_order_too() -> None:
    line: Line[int] = Line()
    for i in range(100):
        line.join(i, Claim(expected_s=3.0), i / 1000)
    assert order(line) == list(range(100))


def test_short_work_goes_first_and_a_lower_priority_before_that() -> None:
    line = joined(
        ("long", 0.0, Claim(expected_s=10.0)),
        ("short", 1.0, Claim(expected_s=1.0)),
        ("later", 2.0, Claim(priority=1, expected_s=0.1)),
        ("sooner", 3.0, Claim(priority=-1, expected_s=100.0)),
    )
    assert order(line) == ["sooner", "short", "long", "later"]


def test_of_which_nothing_is_known_counts_as_the_others_do() -> None:
    line = joined(
        ("long", 0.0, Claim(expected_s=8.0)), ("short", 0.0, Claim(expected_s=0.5)), ("unknown", 0.0, Claim())
    )
    assert order(line) == ["short", "unknown", "long"]


def test_a_long_task_is_overtaken_for_a_while_only() -> None:
    line = joined(("long", 0.0, Claim(expected_s=10.0)))
    line.join("in time", Claim(expected_s=1.0), PATIENCE * 9.0 - 0.1)
    line.join("too late", Claim(expected_s=1.0), PATIENCE * 9.0 + 0.1)
    assert order(line) == ["in time", "long", "too late"]


# Deadlines


def test_in_danger_of_its_deadline_a_task_goes_before_the_others() -> None:
    line = joined(
        ("first", 0.0, Claim(expected_s=1.0)),
        ("later deadline", 0.0, Claim(expected_s=1.0, left_s=101.9)),
        ("sooner deadline", 0.0, Claim(expected_s=1.0, left_s=101.5)),
        ("far from it", 0.0, Claim(expected_s=1.0, left_s=200.0)),
    )
    now = 100.0
    assert now > 101.9 - IN_DANGER
    assert order(line, now) == ["sooner deadline", "first", "later deadline", "far from it"]


def test_what_cannot_be_done_in_time_any_more_takes_nobodys_turn() -> None:
    line = joined(("first", 0.0, Claim(expected_s=1.0)), ("lost", 0.0, Claim(expected_s=10.0, left_s=105.0)))
    assert order(line, 100.0) == ["first", "lost"]


def test_a_deadline_does_not_stand_above_a_priority() -> None:
    line = joined(
        ("first", 0.0, Claim(expected_s=1.0)), ("in danger", 0.0, Claim(priority=1, expected_s=1.0, left_s=101.5))
    )
    assert order(line, 100.0) == ["first", "in danger"]


def test_at_most_every_second_place_is_given_out_of_turn() -> None:
    line: Line[str] = Line()
    for i in range(50):
        line.join(f"calm {i}", Claim(expected_s=1.0), 0.0)
    for i in range(50):
        line.join(f"danger {i}", Claim(expected_s=1.0, left_s=101.5), 0.0)
    served = [line.next(100.0) for _ in range(20)]
    assert [name for name in served if name and name.startswith("calm")] == [f"calm {i}" for i in range(10)]


# Leaving


def test_who_leaves_is_not_served_and_may_leave_twice() -> None:
    line: Line[str] = Line()
    tickets = [line.join(name, Claim(expected_s=1.0, left_s=1.0), 0.0) for name in "abc"]
    line.leave(tickets[1])
    line.leave(tickets[1])
    assert len(line) == 2
    assert order(line) == ["a", "c"]
    line.leave(tickets[0])
    assert len(line) == 0


def test_what_has_left_takes_no_memory_for_long() -> None:
    line: Line[int] = Line()
    stays = line.join(0, Claim(expected_s=1.0, left_s=1e6), 0.0)
    for i in range(10_000):
        line.leave(line.join(i, Claim(expected_s=1.0, left_s=1e6), 0.0))
        assert max(map(len, (line._turns, line._calm, line._urgent))) < 100
    assert stays.waits
    assert order(line) == [0]


# Any line


@dataclass
class Counted:
    """A priority that counts how often it is compared."""

    value: int
    seen: list[int]

    def __lt__(self, other: Counted) -> bool:
        self.seen[0] += 1
        return self.value < other.value

    def __eq__(self, other: object) -> bool:
        self.seen[0] += 1
        return isinstance(other, Counted) and self.value == other.value


def test_ten_thousand_cost_little() -> None:
    seen, count = [0], 10_000
    line: Line[int] = Line()
    for i in range(count):
        claim = Claim(Counted(i * 7919 % 10, seen), float(i % 13), 1000.0 if i % 3 else None)  # type: ignore[arg-type]
        line.join(i, claim, 0.0)
    assert len(order(line, 990.0)) == count
    assert seen[0] < 10 * count * math.log2(count)


@dataclass
class Waiting:
    """One that waits, and what the rules say about it."""

    number: int
    joined: float
    claim: Claim
    ticket: Ticket[Any] | None = None

    @property
    def turn(self) -> tuple[float, float, int]:
        return self.claim.priority, self.joined + PATIENCE * (self.claim.expected_s or 0.0), self.number

    def in_danger(self, now: float) -> bool:
        """In it by its own estimate, and still to be saved."""
        if self.claim.left_s is None or self.claim.expected_s is None:
            return False
        left = self.joined + self.claim.left_s - now
        return self.claim.expected_s <= left <= IN_DANGER * self.claim.expected_s


claims = st.builds(
    Claim,
    priority=st.integers(-1, 1),
    expected_s=st.sampled_from([0.5, 1.0, 4.0, 32.0]),
    left_s=st.none() | st.sampled_from([1.0, 5.0, 50.0]),
)
events = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 1.0, 8.0]), st.sampled_from(["join", "join", "next", "leave"]), claims),
    max_size=60,
)


@given(events)
def test_every_line_keeps_its_promises(events: list[tuple[float, str, Claim]]) -> None:
    line: Line[Waiting] = Line()
    waiting: list[Waiting] = []
    now, jumped = 0.0, False
    for number, (passed, what, claim) in enumerate(events):
        now += passed
        if what == "join":
            one = Waiting(number, now, claim)
            one.ticket = line.join(one, claim, now)
            waiting.append(one)
        elif what == "leave" and waiting:
            gone = waiting.pop(number % len(waiting))
            assert gone.ticket is not None
            line.leave(gone.ticket)
        elif what == "next" and waiting:
            served = line.next(now)
            assert served in waiting
            first = min(waiting, key=lambda one: one.turn)
            assert served.claim.priority == first.claim.priority
            if served is not first:
                assert served.in_danger(now)
                assert not jumped, "twice in a row"
                ahead = [one for one in waiting if one.in_danger(now) and one.claim.priority == served.claim.priority]
                assert served.joined + (served.claim.left_s or 0.0) == min(
                    one.joined + (one.claim.left_s or 0.0) for one in ahead
                )
            else:
                check_overtaken(served, waiting)
            jumped = served is not first
            waiting.remove(served)
        assert len(line) == len(waiting)
    assert line.next(now) is None or waiting


def check_overtaken(served: Waiting, waiting: list[Waiting]) -> None:
    """Who was there before and has the same priority has been overtaken within its bound."""
    for one in waiting:
        if one.claim.priority == served.claim.priority and one.number < served.number:
            longer = (one.claim.expected_s or 0.0) - (served.claim.expected_s or 0.0)
            assert served.joined - one.joined < PATIENCE * longer


@given(st.floats(0.1, 100.0), st.floats(0.01, 0.9))
def test_a_stream_of_short_work_that_never_ends_does_not_starve_long_work(long_s: float, share: float) -> None:
    """One place; as much short work comes as can just be done."""
    short_s = long_s * share
    line: Line[str] = Line()
    line.join("long", Claim(expected_s=long_s), 0.0)
    now, served = 0.0, 0
    while True:
        line.join("short", Claim(expected_s=short_s), now)
        if line.next(now) == "long":
            break
        now += short_s
        served += 1
    assert now <= PATIENCE * long_s
    assert served <= PATIENCE / share + 1
