"""Bets against the claim that a rate is at most a bound: what they win is evidence that it is not.

Each observation x in [0, 1] multiplies the capital that was put on a bet by

    1 + lambda * (x - bound),    0 <= lambda <= 1 / bound

While the mean of x given the past is at most the bound, no bet gains on average, and the capital is never negative.
So a gambler who owns 1 in the beginning comes to own 1 / delta, at any time, with a probability of delta at most
(Ville's inequality). One may look after every observation and stop whenever one likes.

Sources: Ville, "Etude critique de la notion de collectif", 1939; Shafer, "Testing by betting", 2021; Waudby-Smith and
Ramdas, "Estimating means of bounded random variables by betting", 2024. Detector: Shiryaev, "On optimum methods in
quickest detection problems", 1963; Roberts, "A comparison of some control chart procedures", 1966; Shin, Ramdas and
Rinaldo, "E-detectors: a nonparametric framework for sequential change detection", 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

ODDS_RATIOS: Final = (1.2, 1.5, 2.5, 5.0, 10.0, 30.0)
"""One bet for each: how many times the odds of the bound the rate has, were the bet the best one. Capital is spread
evenly over them, so no rate needs to be guessed; against the best single bet this costs a factor of 6 at most. The
mildest bet sets the least fault that can be noticed: one with 1.1 times the odds of the bound."""


def stakes(bounds: ArrayLike) -> FloatArray:
    """The bets' lambdas, between 0 and 1 / bound. For x in {0, 1} a bet is the likelihood ratio of

        q = r * bound / (1 - bound + r * bound)    against the bound,

    with r the odds ratio; lambda = (q - bound) / (bound * (1 - bound)) = (r - 1) / (1 + (r - 1) * bound).

    Args:
        bounds: Claimed upper bounds of rates, each in [0, 1]. Shape (...,).

    Returns:
        Shape (..., 6): one for each of `ODDS_RATIOS`.
    """
    above = np.array(ODDS_RATIOS) - 1.0
    found: FloatArray = above / (1.0 + above * np.asarray(bounds, dtype=np.float64)[..., None])
    return found


def log_factors(x: ArrayLike, bounds: ArrayLike, weights: ArrayLike = 1.0) -> FloatArray:
    """Logarithm of what each bet's capital is multiplied by.

    Args:
        x: Observations in [0, 1]. Shape (...,).
        bounds: The claimed bounds. Shape (...,).
        weights: In (0, 1]; a smaller weight bets less. Weights that are inverse to the probability with which an
            observation was taken undo an uneven choice. Shape (...,).

    Returns:
        Shape (..., 6).
    """
    m = np.asarray(bounds, dtype=np.float64)[..., None]
    gain = np.asarray(x, dtype=np.float64)[..., None] - m
    factors: FloatArray = np.log1p(np.asarray(weights, dtype=np.float64)[..., None] * stakes(bounds) * gain)
    return factors


def held_back(step: int) -> float:
    """What of the initial capital of 1 is not yet on any bet after a step: 1 / (1 + ln(1 + step)).

    It falls to 0 so slowly that a fault which begins after n observations still finds about 1 / (n ln(n)^2) of fresh
    capital at each of its own: the evidence must be larger by that factor only.
    """
    return 1.0 / (1.0 + math.log1p(step))


@dataclass(frozen=True, slots=True)
class Wealth:
    """A test: capital of 1, part of it kept back and brought in step by step, so that old losses do not bury it.

    While the claim holds, the probability that the wealth ever reaches 1 / delta is at most delta.

    Attributes:
        steps: Observations so far.
        log_stakes: Logarithm of what lies on each bet for the next observation. Any number of bets.
    """

    steps: int
    log_stakes: tuple[float, ...]

    @classmethod
    def start(cls, bets: int = len(ODDS_RATIOS)) -> Wealth:
        """Before the first observation."""
        return cls(0, (math.log((1.0 - held_back(1)) / bets),) * bets)

    @property
    def log(self) -> float:
        """Natural logarithm of the wealth: what lies on the bets and what is still kept back. Always finite."""
        return float(np.logaddexp.reduce([*self.log_stakes, math.log(held_back(self.steps + 1))]))

    def after(self, factors: FloatArray) -> Wealth:
        """The wealth after an observation with these `log_factors`, one for each bet."""
        step = self.steps + 1
        fresh = (held_back(step) - held_back(step + 1)) / len(self.log_stakes)
        return Wealth(step, _added(self.log_stakes, factors, fresh))


@dataclass(frozen=True, slots=True)
class Detector:
    """A change detector (Shiryaev-Roberts): fresh capital of 1 at every step, as if a fault began there.

    It owns what it was given without having won it, so it does raise false alarms in the long run. While the claim
    holds, it has on average seen at least L observations when its capital reaches L. In return, a fault is found as
    fast after a year as on the first day.

    Attributes:
        log_stakes: Logarithm of what lies on each bet for the next observation.
    """

    log_stakes: tuple[float, ...]

    @classmethod
    def start(cls, bets: int = len(ODDS_RATIOS)) -> Detector:
        """Before the first observation."""
        return cls((-math.log(bets),) * bets)

    @property
    def log(self) -> float:
        """Logarithm of the capital, the 1 for the next observation included; to be compared with ln(L + 1)."""
        return float(np.logaddexp.reduce(self.log_stakes))

    def after(self, factors: FloatArray) -> Detector:
        """The detector after an observation with these `log_factors`, one for each bet."""
        return Detector(_added(self.log_stakes, factors, 1.0 / len(self.log_stakes)))


def _added(log_stakes: tuple[float, ...], factors: FloatArray, fresh: float) -> tuple[float, ...]:
    # Logarithms throughout: a million observations neither overflow nor vanish.
    stake: list[float] = np.logaddexp(np.array(log_stakes) + factors, math.log(fresh)).tolist()
    return tuple(stake)
