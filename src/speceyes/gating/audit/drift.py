"""Has the traffic changed since the calibration? Bets against the shares that its records allow.

A share in the records is an estimate, and tested against it as if it were exact, any traffic would drift in the end.
So what is tested is a range: Wilson's interval around the recorded share, widened by a tolerance. Two gamblers bet
against each range, one that the share is above it, one that it is below. Their average is one test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from speceyes.errors import ConfigError
from speceyes.gating.audit.betting import ODDS_RATIOS, FloatArray, Wealth, log_factors
from speceyes.gating.audit.observations import Direction, Drifted, Watched
from speceyes.gating.intervals import wilson

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class DriftMonitor:
    """Watches one share, or the shares of several classes of which each observation belongs to one.

    Attributes:
        watched: What it watches.
        ranges: The share of each class that is no drift.
        wealth: A bet for each class, direction and odds ratio.
        counts: Observations of each class.
        n: Observations.
        found: The warning, once there is one; then nothing more is bet.
    """

    watched: Watched
    ranges: tuple[Range, ...]
    wealth: Wealth
    counts: tuple[int, ...]
    n: int = 0
    found: Drifted | None = None

    def __post_init__(self) -> None:
        bets = 2 * len(self.ranges) * len(ODDS_RATIOS)
        if not self.ranges or len(self.counts) != len(self.ranges) or len(self.wealth.log_stakes) != bets:
            raise ConfigError(f"This drift monitor cannot be: {len(self.ranges)} ranges need {bets} bets.")

    @classmethod
    def start(
        cls, watched: Watched, counts: Sequence[int], n: int, *, confidence: float, tolerance: float
    ) -> DriftMonitor:
        """Watch the share of each class, of which the records hold `counts` in `n`."""
        ranges = []
        for count in counts:
            low, high = wilson(count, n, confidence)
            ranges.append((max(0.0, low - tolerance), min(1.0, high + tolerance)))
        return cls(watched, tuple(ranges), Wealth.start(2 * len(ranges) * len(ODDS_RATIOS)), (0,) * len(ranges))

    def after(self, belongs: Sequence[bool], *, log_alarm: float, at: str | None) -> DriftMonitor:
        """The monitor after an observation that belongs to these classes."""
        if self.found is not None:
            return self
        out, into = _factors(self.ranges)
        wealth = self.wealth.after(np.where(np.array(belongs)[:, None, None], into, out).ravel())
        counts = tuple(count + bool(one) for count, one in zip(self.counts, belongs, strict=True))
        after = replace(self, wealth=wealth, counts=counts, n=self.n + 1)
        return replace(after, found=after._warning(at)) if wealth.log >= log_alarm else after

    def _warning(self, at: str | None) -> Drifted:
        won = np.logaddexp.reduce(np.reshape(self.wealth.log_stakes, (len(self.ranges), 2, -1)), axis=-1)
        index, side = (int(part) for part in np.unravel_index(np.argmax(won), won.shape))
        direction: Direction = "up" if side == 0 else "down"
        interval = index if self.watched == "score" else None
        return Drifted(watched=self.watched, direction=direction, expected=self.ranges[index], interval=interval, at=at)


@lru_cache(maxsize=64)
def _factors(ranges: tuple[Range, ...]) -> tuple[FloatArray, FloatArray]:
    """What an observation outside of a class and one in it does to its bets. Each (classes, up and down, bets)."""
    low, high = np.array(ranges).T
    # The lower bet is the upper one's mirror: "not in the class" happens at most 1 - low of the time
    out = np.stack([log_factors(0.0, high), log_factors(1.0, 1.0 - low)], axis=1)
    into = np.stack([log_factors(1.0, high), log_factors(0.0, 1.0 - low)], axis=1)
    return out, into
