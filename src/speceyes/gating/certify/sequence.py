"""Which thresholds are tested, and in which order. The certifying records must have no say in it.

Two ways to keep that:

- `absolute_grid`: the same thresholds for everybody, on the score's own scale.
- `tuned`: other records of the same kind choose, by whatever looks best on them. Where the records come from one run,
  `split_at_random` cuts it in two.

What is *not* done is to take quantiles of the certifying records' own scores. Looking at no label, it looks harmless,
but the guarantee's proof needs thresholds that are fixed. With quantiles, "the risk at the first threshold that is too
loose" is a random quantity that hangs together with which records lie above it. A single threshold at the k-th largest
score would do: the k - 1 records above it lose independently, with the risk above it. A whole sequence of such would do
if the risk, once too large, stayed too large for all looser thresholds. Nobody knows that beforehand, so nothing here
rests on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from speceyes.errors import ConfigError
from speceyes.gating.scores import Score

FloatArray = NDArray[np.float64]

STARTS = 5
"""Starts of the absolute grid."""


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdSequence:
    """Thresholds in the order of testing, and the budget of each. ConfigError where they are not such.

    Attributes:
        thresholds: Falling, all different. (M,).
        weights: Each one's own share of delta: not negative, 1 at most in all. (M,).
    """

    thresholds: FloatArray
    weights: FloatArray

    def __post_init__(self) -> None:
        if self.thresholds.shape != self.weights.shape or self.thresholds.ndim != 1:
            raise ConfigError("A sequence of thresholds needs a weight for each of them.")
        if not np.isfinite(self.thresholds).all() or (np.diff(self.thresholds) >= 0).any():
            raise ConfigError("The thresholds of a sequence must be finite numbers, each smaller than the one before.")
        if (self.weights < 0).any() or self.weights.sum() > 1.0 + 1e-9:
            raise ConfigError("The weights of a sequence must not be negative, and not add up to more than 1.")

    @classmethod
    def from_start(cls, thresholds: ArrayLike) -> ThresholdSequence:
        """The whole budget at the first threshold: plain fixed-sequence testing. Doubles are left out."""
        falling = -np.unique(-np.asarray(thresholds, dtype=np.float64))
        weights = np.zeros(len(falling))
        weights[:1] = 1.0
        return cls(falling, weights)


def absolute_grid(score: Score, starts: int = STARTS) -> ThresholdSequence:
    """Thresholds that are the same for every run: 64 degrees of doubt, each the fourth root of 2 times the last.

    Doubt is 1 minus the squashed score, from 2^-16 (all but sure) to 2^-1/4. In separability that is S from 18 down to
    below 0, in steps of 0.29 at first. As nobody knows where on this scale a model's answers lie, the budget is spread
    evenly over several starts: with 5 of them, 90 / 228 / 459 clean accepted records are the least for 5 / 2 / 1 % at
    delta 5 %, not 59 / 149 / 299.
    """
    doubt = 2.0 ** -(np.arange(64, 0, -1) / 4.0)
    thresholds = np.round(_unsquash(score, 1.0 - doubt), 9)
    weights = np.zeros(len(thresholds))
    weights[len(weights) // (2 * starts) :: len(weights) // starts][:starts] = 1.0 / starts
    return ThresholdSequence(thresholds, weights)


def _unsquash(score: Score, squashed: FloatArray) -> FloatArray:
    """The raw score of each squashed one, by bisection: every squash is increasing. (M,) -> (M,)."""
    low, high = np.full(squashed.shape, -64.0), np.full(squashed.shape, 64.0)
    for _ in range(64):
        middle = (low + high) / 2.0
        less = score.squash(middle) < squashed
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return high
