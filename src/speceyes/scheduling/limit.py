"""How much may be under way at a time, found by trying: the limit that gets the most work done per second.

    limit up, work per second up as much        there is room: go on
    limit up, work per second as before         the rest only waits inside the server: go back
    the server says that it is too much         at once a good deal less

The rules that watch latency (TCP Vegas, the gradient limits of Netflix's `concurrency-limits`) compare it with what it
is without load. For an agent's calls there is no such figure: a busy server is never without load, calls differ in
length, and a baseline that follows the load drifts up with it until every queue looks normal. So nothing here is
compared with a long past. A round holds two limits, one after the other, and compares what got done under each. With
c the mean number under way and X the work per second,

    slope = ln(X_high / X_low) / ln(c_high / c_low)

is 1 where each further one adds its share and 0 where it adds nothing; on servers that batch it falls bit by bit from
the one to the other. The limit goes up where it is above `WORTH` and down where it is below. By Little's law c / X is
what a unit of work takes, so of all limits that get as much done this finds about the one at which it takes least.
Steps grow as long as they agree and shrink when they contradict each other; where a round has nothing new to say, the
limit rests for longer and longer, so that trying costs little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from speceyes.errors import ConfigError

WORTH = 0.25
"""Least slope that is worth a higher limit: a tenth more under way for a fortieth more work."""
SPAN = 0.4
"""A slope that is so far from `WORTH` moves the limit by a whole step."""
APART = math.log(1.6)
"""Least ln(higher limit / lower limit) of a round: closer together, noise would decide."""
CALLS = 32
"""Least number of calls that a limit is measured by; twice the limit where that is more."""
FULL = 0.9
"""Share of a limit that has to be under way: else it is not what holds the work back."""
SHORTEST_STEP, LONGEST_STEP = math.log(1.15), math.log(2.0)
LONGEST_REST = 8
"""Measurements between two rounds, where rounds have long had nothing new to say."""
CHANGED = 0.3
"""Change of ln(work per second) that ends a rest: the server is another one now, or the work is."""
CUT = 0.8
"""What an overload leaves of the limit."""

Stage = Literal["low", "high", "rest"]


@dataclass(slots=True)
class _Measurement:
    """What got done under one limit, from when as many calls are over as were under way at its beginning."""

    skip: int
    calls: int = 0
    work: float = 0.0
    held_seconds: float = 0.0
    began: float = 0.0
    last: float = 0.0

    def add(self, now: float, work: float, held: int) -> None:
        if self.skip > 0:
            self.skip -= 1
            self.began = now
        else:
            self.calls += 1
            self.work += work
            self.held_seconds += held * (now - self.last)
        self.last = now

    @property
    def is_complete(self) -> bool:
        return self.calls > 0 and self.work > 0 and self.last > self.began

    @property
    def held(self) -> float:
        """Mean number under way."""
        return self.held_seconds / (self.last - self.began)

    @property
    def rate(self) -> float:
        """ln(work per second)."""
        return math.log(self.work / (self.last - self.began))


class AdaptiveLimit:
    """A limit that follows what the server can do. It is told of calls and of the time, and awaits nothing.

    It moves only where it is what holds the work back: while fewer are under way than it allows, it stays.

    Args:
        start: The first limit.
        least: The lowest.
        most: The highest.

    Attributes:
        least: As given.
        most: As given.
        cuts: How often an overload has lowered the limit.

    Raises:
        ConfigError: Not 1 <= least <= most.
    """

    def __init__(self, start: int = 8, *, least: int = 1, most: int = 64) -> None:
        if not 1 <= least <= most:
            raise ConfigError(f"an adaptive limit needs 1 <= least <= most, not {least} and {most}")
        self.least, self.most, self.cuts = least, most, 0
        self._middle = self._within(start)
        self._step, self._last_move = LONGEST_STEP, 0.0
        self._rest, self._rested = 0, 0
        self._usual = (-math.inf, math.inf)
        self._cut_at = -math.inf
        self._low = _Measurement(0)
        self._begin("rest")

    def __repr__(self) -> str:
        return f"AdaptiveLimit({self.current}, {self.least} to {self.most})"

    @property
    def current(self) -> int:
        """How many may be under way now."""
        return self._current

    def called(self, now: float, work: float, held: int) -> None:
        """A call is over.

        Args:
            now: Monotonic seconds.
            work: How much it was, in any unit of which a busy server does about equally much in each second.
            held: How many were under way until now, the one that made the call included.
        """
        self.freed(held)
        self._seen.add(now, work, held)
        if self._seen.calls >= max(CALLS, 2 * self._current) and self._seen.is_complete:
            self._judge(self._seen)

    def freed(self, held: int) -> None:
        """So many are under way, and no more wait.

        Where that is below the limit, the limit holds nothing back, and what has been measured says nothing about it.
        """
        if held < FULL * self._current:
            self._rest = max(1, self._rest)
            self._begin("rest")

    def overloaded(self, now: float, began: float) -> None:
        """A call was refused as too much, or took too long.

        Calls that were under way together lower the limit once, as the packets of one window do in TCP.

        Args:
            now: Monotonic seconds.
            began: When the call was made. One from before the last cut says nothing about the limit since.
        """
        if began < self._cut_at:
            return
        self._cut_at, self.cuts = now, self.cuts + 1
        self._middle = self._within(CUT * min(self._middle, self._current))
        self._step, self._last_move, self._rest = SHORTEST_STEP, 0.0, 1
        self._begin("rest")

    def _judge(self, seen: _Measurement) -> None:
        """A measurement is complete."""
        if self._stage == "low":
            self._low = seen
            self._begin("high")
        elif self._stage == "high":
            self._move(self._low, seen)
            self._begin("rest" if self._rest else "low")
        elif not self._usual[0] - CHANGED < seen.rate < self._usual[1] + CHANGED:
            # Where a server does half as much, about half as much will be enough for it
            self._middle = self._within(self._middle * math.exp(min(0.0, seen.rate - self._usual[0])))
            self._step, self._last_move, self._rest = LONGEST_STEP, 0.0, 0
            self._begin("low")
        else:
            self._rested += 1
            self._measure() if self._rested < self._rest else self._begin("low")

    def _move(self, low: _Measurement, high: _Measurement) -> None:
        """A round is over."""
        apart = math.log(high.held / low.held)
        slope = (high.rate - low.rate) / apart if apart > 0.05 else WORTH
        move = min(1.0, max(-1.0, (slope - WORTH) / SPAN))
        if min(abs(move), abs(self._last_move)) > 0.5:
            factor = 1.5 if move * self._last_move > 0 else 0.5
            self._step = min(max(factor * self._step, SHORTEST_STEP), LONGEST_STEP)
        self._last_move, self._usual = move, (min(low.rate, high.rate), max(low.rate, high.rate))
        before, self._middle = self._middle, self._within(self._middle * math.exp(move * self._step))
        moved = abs(math.log(self._middle / before)) > SHORTEST_STEP
        self._rest = 0 if moved else min(LONGEST_REST, 2 * self._rest or 1)

    def _begin(self, stage: Stage) -> None:
        self._stage, self._rested = stage, 0
        limit = self._middle
        if stage != "rest":
            half = math.exp(max(APART, self._step) / 2)
            limit = max(1, min(round(limit / half), self.most - 1))
            if stage == "high":
                limit = max(limit + 1, round(self._middle * half))
        self._current = round(self._within(limit))
        self._measure()

    def _measure(self) -> None:
        self._seen = _Measurement(self._current)

    def _within(self, limit: float) -> float:
        return min(max(float(limit), self.least), self.most)
