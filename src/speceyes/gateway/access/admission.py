"""How many requests may be under way, and who comes next: bounded work, a bounded queue, and no key that crowds out
the others.

Every key has a line of its own, first come, first served. A free place goes to the next line in turn, so that a key
with a thousand requests waits for itself and not the others for it (round robin; John Nagle, "On packet switches with
infinite storage", 1987). A full queue turns the newcomer away, unless another key's line is longer by two or more: then
the last one in the longest line has to go.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from speceyes.errors import ConfigError
from speceyes.gateway.access.auth import ANYBODY, KeyInfo
from speceyes.gateway.access.refusals import Full

_SMOOTHING = 0.1
"""Weight of the newest request in the average of how long requests take."""
_LONGEST_HINT_S = 300.0

_Ticket = asyncio.Future[None]


@dataclass(slots=True)
class _Line:
    limit: int
    tickets: deque[_Ticket] = field(default_factory=deque)


class Admission:
    """A number of places, and a queue before them, within one event loop.

    Args:
        in_flight: Requests that may be under way at a time.
        queue: Requests that may wait; 0: none.
        in_flight_per_key: Requests of one key that may be under way, where the key says nothing of its own.
        max_wait_s: Seconds that a request waits at most.
        clock: Seconds that only grow; for tests.

    Attributes:
        capacity: Places.
        held: Requests under way.
        waiting: Requests in the queue.
        refused: Requests that were turned away since the start.
    """

    def __init__(
        self,
        in_flight: int,
        queue: int,
        *,
        in_flight_per_key: int | None = None,
        max_wait_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if in_flight < 1 or queue < 0 or (in_flight_per_key is not None and in_flight_per_key < 1):
            raise ConfigError("admission needs at least one place, in all and for each key, and no negative queue")
        self.capacity, self.queue, self.max_wait_s = in_flight, queue, max_wait_s
        self.held = 0
        self.waiting = 0
        self.refused = 0
        self._per_key = in_flight_per_key or in_flight
        self._clock = clock
        self._service_s: float | None = None
        self._held_by: Counter[str] = Counter()
        self._lines: dict[str, _Line] = {}  # in the order of their turns

    def __repr__(self) -> str:
        return f"Admission({self.held}/{self.capacity} in flight, {self.waiting}/{self.queue} waiting)"

    @asynccontextmanager
    async def admit(self, key: KeyInfo = ANYBODY, *, max_wait_s: float | None = None) -> AsyncIterator[None]:
        """Wait for a place and hold it. A cancelled task gives its place back at once, waiting or working.

        Args:
            key: Who asks.
            max_wait_s: Shorter than the server's own limit, where the request's deadline is.

        Raises:
            Full: There is no place and no room to wait, or none came free in time.
        """
        await self._enter(key, self.max_wait_s if max_wait_s is None else min(max_wait_s, self.max_wait_s))
        began = self._clock()
        try:
            yield
        finally:
            took = self._clock() - began
            before = took if self._service_s is None else self._service_s
            self._service_s = before + _SMOOTHING * (took - before)
            self._leave(key.id)

    def retry_after_s(self, key: KeyInfo = ANYBODY) -> float:
        """When a place may be free for a newcomer: what is ahead of it, at the pace of the last requests.

        Returns:
            Seconds, at least 1 and at most 300.
        """
        limit, line = self._limit(key), self._lines.get(key.id)
        own = len(line.tickets) + 1 if line else 1
        rounds = max((self.waiting + 1) / self.capacity, own / limit)
        return float(min(max(1, math.ceil(rounds * (self._service_s or 0))), _LONGEST_HINT_S))

    def _limit(self, key: KeyInfo) -> int:
        return min(key.max_in_flight or self._per_key, self.capacity)

    async def _enter(self, key: KeyInfo, wait_s: float) -> None:
        limit = self._limit(key)
        # Who could have had a place has one: all that wait, wait for their own key's limit, or nothing is free.
        if self.held < self.capacity and self._held_by[key.id] < limit:
            self._take(key.id)
            return
        ticket = self._queue_up(key, limit)
        try:
            async with asyncio.timeout(max(wait_s, 0)):
                await ticket
        except BaseException as error:
            if ticket.done() and not ticket.cancelled() and ticket.exception() is None:
                self._leave(key.id)  # it got a place in the very moment that it gave up
            else:
                self._forget(key.id, ticket)
            if isinstance(error, TimeoutError):
                raise self._full(key, f"No place came free within {wait_s:g} s.") from error
            raise

    def _queue_up(self, key: KeyInfo, limit: int) -> _Ticket:
        if self.waiting >= self.queue:
            self._make_room(key)
        line = self._lines.setdefault(key.id, _Line(limit))
        line.limit = limit
        ticket: _Ticket = asyncio.get_running_loop().create_future()
        line.tickets.append(ticket)
        self.waiting += 1
        return ticket

    def _make_room(self, key: KeyInfo) -> None:
        own = self._lines.get(key.id)
        longest = max(self._lines, key=lambda name: len(self._lines[name].tickets), default=None)
        mine = len(own.tickets) if own else 0
        text = f"All {self.capacity} places are taken and {self.waiting} requests wait."
        if longest is None or len(self._lines[longest].tickets) < mine + 2:
            raise self._full(key, text)
        last = self._lines[longest].tickets[-1]
        self._forget(longest, last)
        if not last.done():
            last.set_exception(self._full(key, text))

    def _full(self, key: KeyInfo, text: str) -> Full:
        self.refused += 1
        return Full(self.retry_after_s(key), text)

    def _take(self, name: str) -> None:
        self.held += 1
        self._held_by[name] += 1

    def _leave(self, name: str) -> None:
        self.held -= 1
        self._held_by[name] -= 1
        if not self._held_by[name]:
            del self._held_by[name]
        self._serve()

    def _serve(self) -> None:
        """Give free places to the lines in turn."""
        while self.held < self.capacity:
            name = next((name for name, line in self._lines.items() if self._held_by[name] < line.limit), None)
            if name is None:
                return
            line = self._lines.pop(name)
            self._lines[name] = line  # to the end of the turns
            ticket = line.tickets[0]
            self._forget(name, ticket)
            if not ticket.done():  # a cancelled task has not yet seen that it is
                self._take(name)
                ticket.set_result(None)

    def _forget(self, name: str, ticket: _Ticket) -> None:
        line = self._lines.get(name)
        if line is None or ticket not in line.tickets:
            return
        line.tickets.remove(ticket)
        self.waiting -= 1
        if not line.tickets:
            del self._lines[name]
