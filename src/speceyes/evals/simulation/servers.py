"""Pools of model servers in simulated time: each replica runs so many calls at once, and they share it alike.

Processor sharing in virtual time (Kleinrock's device): V grows as fast as each call under way is served, dV/dt =
1 / slowdown(b), so a call with w seconds of lone work that begins at V ends at V + w, however b changes in between.
The calls lie in a heap by that value, and one event at a time is on its way for each replica: the end of the call that
is next. Where the number of calls changes, that event is timed anew; an old one is known by its number and ignored.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from dataclasses import dataclass
from typing import Any

from simpy import Environment, Event, Timeout

from speceyes.evals.simulation.batching import BatchingCurve

_ROUNDING = 1e-12
"""Share by which virtual ends may differ and still be the same moment."""


@dataclass(frozen=True, slots=True)
class Servers:
    """A pool: so many replicas of one server.

    Attributes:
        replicas: How many.
        curve: How calls slow one another down; also how many of them a replica runs at a time.
    """

    replicas: int
    curve: BatchingCurve

    @property
    def capacity(self) -> float:
        """Seconds of lone work that the pool can do a second."""
        return self.replicas * self.curve.capacity()


class Call(Event):
    """A call on a replica; happens when it is done. `yield` it, or `cancel` it.

    Args:
        replica: Where it runs.
        seconds: What it takes alone.

    Attributes:
        begun: It has a slot.
        ends: Virtual time at which it will be done.
        cancelled: It was stopped.
        share: How much of it was done then; 1 where it was not stopped.
    """

    def __init__(self, replica: Replica, seconds: float) -> None:
        super().__init__(replica.env)
        self.replica = replica
        self.seconds = seconds
        self.begun = False
        self.ends = 0.0
        self.cancelled = False
        self.share = 1.0

    def cancel(self) -> None:
        """Stop it, as a closed connection does. Nothing happens to one that is done."""
        if not self.triggered and not self.cancelled:
            self.cancelled = True
            self.replica.leave(self)


class Replica:
    """One server.

    Attributes:
        env: Simulated time.
        present: Calls that are under way or wait here.
        work: Seconds of lone work done by the last change.
    """

    def __init__(self, env: Environment, curve: BatchingCurve) -> None:
        self.env = env
        self.present = 0
        self.work = 0.0
        self._slots = curve.slots
        self._slowdown = [1.0, *(curve.slowdown(calls) for calls in range(1, curve.slots + 1))]
        self._heap: list[tuple[float, int, Call]] = []
        self._waiting: deque[Call] = deque()
        self._running = 0
        self._virtual = self._since = 0.0
        self._order = itertools.count()
        self._generation = 0

    def call(self, seconds: float) -> Call:
        """Send a call."""
        sent = Call(self, seconds)
        self.present += 1
        if self._running < self._slots:
            self.catch_up()
            self._begin(sent)
            self._retime()
        else:
            self._waiting.append(sent)
        return sent

    def leave(self, call: Call) -> None:
        """A call that was cancelled goes."""
        self.present -= 1
        if not call.begun:
            call.share = 0.0
            self._waiting.remove(call)
            return
        self.catch_up()
        call.share = min(1.0, max(0.0, 1.0 - (call.ends - self._virtual) / call.seconds)) if call.seconds else 1.0
        self._running -= 1
        self._admit()
        self._retime()

    def catch_up(self) -> None:
        """Count what was done since the last change."""
        now = self.env.now
        if self._running:
            served = (now - self._since) / self._slowdown[self._running]
            self._virtual += served
            self.work += self._running * served
        self._since = now

    def _begin(self, call: Call) -> None:
        call.begun = True
        self._running += 1
        call.ends = self._virtual + call.seconds
        heapq.heappush(self._heap, (call.ends, next(self._order), call))

    def _admit(self) -> None:
        while self._waiting and self._running < self._slots:
            self._begin(self._waiting.popleft())

    def _retime(self) -> None:
        heap = self._heap
        while heap and heap[0][2].cancelled:
            heapq.heappop(heap)
        self._generation += 1
        if not heap:
            self._virtual = 0.0
            return
        delay = max(0.0, (heap[0][0] - self._virtual) * self._slowdown[self._running])
        wake = Timeout(self.env, delay, self._generation)
        wake.callbacks.append(self._wake)

    def _wake(self, event: Event) -> None:
        if event.value != self._generation:
            return
        self.catch_up()
        heap = self._heap
        # The clock is rounded, so the call that is due may seem to lack a last trace of work.
        self._virtual = max(self._virtual, heap[0][0])
        due = self._virtual * (1.0 + _ROUNDING)
        while heap and (heap[0][2].cancelled or heap[0][0] <= due):
            call = heapq.heappop(heap)[2]
            if not call.cancelled:
                self._running -= 1
                self.present -= 1
                call.succeed()
        self._admit()
        self._retime()


class Pool:
    """The replicas of a pool. A query that comes for the first time goes to the one with the fewest calls.

    Attributes:
        replicas: All of them.
    """

    def __init__(self, env: Environment, servers: Servers) -> None:
        self.replicas = [Replica(env, servers.curve) for _ in range(servers.replicas)]
        self._turn = 0

    def least_loaded(self) -> Replica:
        """Of equals each in turn."""
        if len(self.replicas) == 1:
            return self.replicas[0]
        turn = self._turn = (self._turn + 1) % len(self.replicas)
        return min(itertools.chain(self.replicas[turn:], self.replicas[:turn]), key=_present)

    @property
    def work(self) -> float:
        """Seconds of lone work done by now."""
        for replica in self.replicas:
            replica.catch_up()
        return sum(replica.work for replica in self.replicas)


def _present(replica: Replica) -> Any:
    return replica.present
