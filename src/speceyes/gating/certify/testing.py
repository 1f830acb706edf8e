"""Several thresholds tested, one budget of error for all of them.

Each threshold has a null hypothesis, "its risk is above the limit", and an exact p-value. Rejecting a true one would be
the false promise. The thresholds are tested in their order, the strictest first.

*One start.* All of the budget delta goes to the first threshold. Where it passes, the next is tested with the whole
delta again, and so on; the first failure ends it. Nothing is divided by the number of thresholds: let j be the first in
the order whose null hypothesis is true. Whatever false promise there is, j was rejected before or with it, and that
happens with chance delta at most. What matters is only that the order was fixed before the records were seen.
Source: Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then Test: Calibrating Predictive Algorithms to Achieve Risk
Control", 2021 (fixed sequence testing).

*Several starts.* A sequence that knows nothing of the data may begin where hardly any query is accepted, fail there,
and end. So the budget may be spread: threshold i brings weights[i] * delta of its own, and inherits what its forerunner
was tested with if that one passed. Why delta still holds: look at the first false rejection, j. A true null hypothesis
before it was not rejected, so what had been brought up to there is lost, and j spends only what was brought since. For
different j these stretches do not overlap. Their budgets add up to delta at most, and so do the chances.
Source: Wiens, "A Fixed Sequence Bonferroni Procedure for Testing Multiple Endpoints", 2003. The multiple starts of
Learn then Test are the case in which nothing is inherited across a start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def run_sequence(p_values: FloatArray, weights: FloatArray, delta: float) -> tuple[FloatArray, BoolArray]:
    """Walk the sequence.

    Args:
        p_values: Of each threshold, in the order of testing. (M,).
        weights: Each one's own share of the budget, not negative, 1 at most in all. (M,).
        delta: The budget: the chance of any false promise.

    Returns:
        The level that each was tested at, 0 where it was not tested (M,), and whether it passed (M,).
    """
    levels = np.zeros(len(p_values))
    passed = np.zeros(len(p_values), dtype=np.bool_)
    inherited = 0.0
    for i, (p, weight) in enumerate(zip(p_values.tolist(), weights.tolist(), strict=True)):
        # rounding must not lift the sum of the weights above the budget
        level = min(inherited + weight * delta, delta)
        levels[i], passed[i] = level, level > 0.0 and p <= level
        inherited = level if passed[i] else 0.0
    return levels, passed
