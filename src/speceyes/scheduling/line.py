"""Who is next: a waiting line in which short work goes first, and nobody waits for ever. Pure: it knows no clock.

What is to be next stands first by

    priority, then  joined + PATIENCE * expected seconds

so where all are alike it is first come, first served. Serving the shortest first has the least mean wait (Smith,
"Various optimizers for single-stage production", 1956), and starves long work. Here a second of waiting is worth
1 / PATIENCE seconds of work, to all alike: which of two is first is known when the later one joins, and never changes.
So with the same priority

    a task is overtaken only by tasks that join less than PATIENCE * (its expected seconds - theirs) after it.

A task in danger of missing its deadline goes before the others, by deadline (earliest first, Liu and Layland, 1973),
but only every second place is given out of turn, so all others still move on at half their pace at least. Out of danger
again is who cannot make it any more: what it took from the others would be lost.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

PATIENCE = 4.0
"""Seconds for which a task may be overtaken, for each second that it is expected to take."""
IN_DANGER = 2.0
"""A task that has less time left than so many times what it is expected to take is in danger."""
_FORGET = 0.1
"""Weight of the last task in what one is expected to take of which nothing is known."""
_SPARE = 64


@dataclass(frozen=True, slots=True)
class Claim:
    """What a task stands in line with.

    Attributes:
        priority: Lower is earlier, whatever else is known.
        expected_s: Seconds that it will take. None: as much as the others, as far as known.
        left_s: Seconds from now within which it must be done. None: no limit.
    """

    priority: int = 0
    expected_s: float | None = None
    left_s: float | None = None


@dataclass(slots=True, eq=False)
class Ticket(Generic[T]):
    """A task's place in the line.

    Attributes:
        item: What was put in line.
        priority: As claimed.
        expected_s: As claimed, None where nothing was.
        due: When it must be done, on the clock of `join`.
        waits: Whether it is still in the line.
    """

    item: T
    priority: int
    expected_s: float | None
    due: float
    waits: bool = True


_Heap = list[tuple[tuple[float, ...], Ticket[T]]]
"""Keys end in a serial number, so that no two are equal."""


class Line(Generic[T]):
    """The line. Joining, leaving and being next take O(log n), and what has left takes no memory for long."""

    def __init__(self) -> None:
        self._turns: _Heap[T] = []
        """All, in the order above."""
        self._calm: _Heap[T] = []
        """Those with a deadline, by when they will be in danger."""
        self._urgent: _Heap[T] = []
        """Those in danger, by priority and deadline."""
        self._serial = itertools.count()
        self._waiting = 0
        self._typical_s = 0.0
        self._out_of_turn = False

    def __len__(self) -> int:
        """How many wait."""
        return self._waiting

    def join(self, item: T, claim: Claim, now: float) -> Ticket[T]:
        """Stand in line.

        Args:
            item: What `next` will give back.
            claim: What it claims.
            now: Seconds on a clock that only grows.
        """
        expected = claim.expected_s
        if expected is not None:
            self._typical_s += _FORGET * (expected - self._typical_s) if self._typical_s else expected
        due = math.inf if claim.left_s is None else now + claim.left_s
        ticket = Ticket(item, claim.priority, expected, due)
        turn = now + PATIENCE * (self._typical_s if expected is None else expected)
        heapq.heappush(self._turns, ((claim.priority, turn, next(self._serial)), ticket))
        if expected is not None and due < math.inf:
            heapq.heappush(self._calm, ((due - IN_DANGER * expected, next(self._serial)), ticket))
        self._waiting += 1
        return ticket

    def leave(self, ticket: Ticket[T]) -> None:
        """Go without having been served. Whoever has been served, or has left, may leave again."""
        if ticket.waits:
            ticket.waits = False
            self._waiting -= 1
            self._tidy()

    def next(self, now: float) -> T | None:
        """Who is served now; it has left the line. None: nobody waits."""
        first = _first(self._turns)
        if first is None:
            return None
        while (calm := _first(self._calm)) is not None and self._calm[0][0][0] <= now:
            heapq.heappop(self._calm)
            heapq.heappush(self._urgent, ((calm.priority, calm.due, next(self._serial)), calm))
        urgent = _first(self._urgent, lambda ticket: now + (ticket.expected_s or 0.0) <= ticket.due)
        jumps = urgent is not None and urgent.priority == first.priority and not self._out_of_turn
        served = urgent if jumps and urgent is not None else first
        self._out_of_turn = served is not first
        self.leave(served)
        return served.item

    def _tidy(self) -> None:
        """Drop what has left from the heaps, once it is more than what waits."""
        for heap in (self._turns, self._calm, self._urgent):
            if len(heap) > 2 * self._waiting + _SPARE:
                heap[:] = [entry for entry in heap if entry[1].waits]
                heapq.heapify(heap)


def _always(ticket: object) -> bool:
    return True


def _first(heap: _Heap[T], counts: Callable[[Ticket[T]], bool] = _always) -> Ticket[T] | None:
    """The first that waits and counts; what stands before it is dropped."""
    while heap and not (heap[0][1].waits and counts(heap[0][1])):
        heapq.heappop(heap)
    return heap[0][1] if heap else None
