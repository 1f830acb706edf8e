"""A model of a server, for the arithmetic of limits: how fast it works on so many calls at a time, and nothing else.

There is always a further call, so as many are under way as the limit allows. All are worked on at once, each at the
same pace, as servers with continuous batching do; a call's length is drawn from a seed, so a run is the same each time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from speceyes.scheduling import AdaptiveLimit

Latency = Callable[[int, float], float]
"""Seconds that a unit of work takes with so many calls under way, at this time."""


def knee(at: int, unit_s: float = 1.0) -> Latency:
    """A server that works on so many calls at full pace; more of them share it."""
    return lambda under_way, now: unit_s * max(1.0, under_way / at)


def thrashing(at: int) -> Latency:
    """A server that gets less done where more than so many are under way."""
    return lambda under_way, now: max(1.0, (under_way / at) ** 1.5)


def batching(half: int) -> Latency:
    """A server on which each further call slows all down a little; at `half` it does half of what it ever can."""
    return lambda under_way, now: 1.0 + under_way / half


def changing(before: Latency, after: Latency, at_s: float) -> Latency:
    """One that becomes another."""
    return lambda under_way, now: (before if now < at_s else after)(under_way, now)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a call was over, and the limit after it."""

    now: float
    limit: int


def serve(
    limit: AdaptiveLimit, latency: Latency, *, seed: int, spread: float = 0.5, most: int = 10**9
) -> Iterator[Moment]:
    """Calls without end.

    Args:
        limit: Is told of each.
        latency: The server.
        seed: Of the calls' lengths.
        spread: Of ln(length); 0.5 is about that of an agent's turns.
        most: Calls that are there to be made at a time.
    """
    lengths = random.Random(seed)
    now = done = 0.0
    under_way: list[float] = []
    while True:
        while len(under_way) < min(limit.current, most):
            heapq.heappush(under_way, done + lengths.lognormvariate(-(spread**2) / 2, spread))
        ends = heapq.heappop(under_way)
        held = len(under_way) + 1
        now, done = now + (ends - done) * latency(held, now), ends
        limit.called(now, 1.0, held)
        yield Moment(now, limit.current)
