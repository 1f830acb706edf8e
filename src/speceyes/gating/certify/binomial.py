"""What a count says about a share, exactly: no normal approximation anywhere.

Of n accepted queries, x lost. If the queries are independent draws from the same traffic, each loses with the same
chance r, the risk at this threshold, and x is binomial (n, r). That n itself is random does no harm. *Given* that a
query is accepted, it loses with chance r, whatever became of the others; so given n, x is binomial (n, r). A
statement that is wrong with chance at most delta for every n is so without knowing n, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, bdtrik, betaincinv

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def tail(losses: ArrayLike, n: ArrayLike, share: ArrayLike) -> FloatArray:
    """P(X <= losses) for X binomial (n, share): the p-value of "at least this share is lost".

    So few losses or fewer would be seen with this probability, were the true share as large as `share`; and with a
    smaller one, were it larger still. For n = 0 it is 1: nothing was seen. The arguments are broadcast.
    """
    counts, trials = np.asarray(losses, dtype=np.float64), np.asarray(n, dtype=np.int64)
    chance: FloatArray = np.asarray(bdtr(counts, trials, share), dtype=np.float64)
    return chance


def upper_bound(losses: ArrayLike, n: ArrayLike, delta: ArrayLike) -> FloatArray:
    """The largest share under which so few losses still have the chance `delta`: exceeded with chance delta at most.

    One-sided. It is the share r that solves tail(losses, n, r) = delta, and 1 where everything was lost or n = 0.

    Source: Clopper and Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial",
    1934. In terms of the beta distribution: the (1 - delta) quantile of Beta(losses + 1, n - losses).
    """
    x, trials = _pair(losses, n)
    open_above = x < trials
    found = betaincinv(x + 1.0, np.where(open_above, trials - x, 1.0), 1.0 - np.asarray(delta, dtype=np.float64))
    bound: FloatArray = np.where(open_above, found, 1.0)
    return bound


def interval(losses: ArrayLike, n: ArrayLike, confidence: float) -> tuple[FloatArray, FloatArray]:
    """The two-sided Clopper-Pearson interval (low, high); (0, 1) for n = 0."""
    x, trials = _pair(losses, n)
    half = (1.0 - confidence) / 2.0
    found = betaincinv(np.maximum(x, 1.0), trials - x + 1.0, half)
    low: FloatArray = np.where(x > 0.0, found, 0.0)
    return low, upper_bound(losses, n, half)


def least_clean(alpha: float, delta: float) -> int:
    """The least number of accepted queries, none of them lost, that proves a risk of at most alpha.

    The smallest n with (1 - alpha)^n <= delta: 59, 149 and 299 for 5, 2 and 1 % at delta = 5 %.
    """
    n = max(1, math.ceil(math.log(delta) / math.log1p(-alpha)))
    # the logarithms may be off by a rounding: the test itself has the last word
    while n > 1 and tail(0, n - 1, alpha) <= delta:
        n -= 1
    while tail(0, n, alpha) > delta:
        n += 1
    return n


def most_allowed(n: ArrayLike, alpha: float, delta: float) -> IntArray:
    """The most losses among n accepted queries that still prove a risk of at most alpha; -1 where none do.

    The largest x with tail(x, n, alpha) <= delta. Any shape.
    """
    trials = np.asarray(n, dtype=np.int64)
    clean = tail(0, trials, alpha) <= delta
    x = np.floor(bdtrik(delta, np.where(clean, trials, 1).astype(np.float64), alpha))
    # the inverse may be off by a rounding: the test itself has the last word
    x = np.where(tail(x, trials, alpha) > delta, x - 1.0, x)
    x = np.where(tail(x + 1.0, np.maximum(trials, 1), alpha) <= delta, x + 1.0, x)
    most: IntArray = np.where(clean, x, -1.0).astype(np.int64)
    return most


def _pair(losses: ArrayLike, n: ArrayLike) -> tuple[Any, Any]:
    return np.asarray(losses, dtype=np.float64), np.asarray(n, dtype=np.float64)
