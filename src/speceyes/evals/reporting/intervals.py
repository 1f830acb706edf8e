"""Intervals that the report needs beside those of a run's summary: of a difference, and of a mean over columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from speceyes.evals.reporting.words import Ranged
from speceyes.evals.statistics.paired import CONFIDENCE


def adjusted_difference(only_first: int, only_second: int, n: int) -> tuple[float, float]:
    """Interval for the first's accuracy less the second's, from n questions that both were asked; (-1, 1) for none.

        p = (b + 1) / (n + 2)       b questions that only the first answers right
        q = (c + 1) / (n + 2)       c questions that only the second answers right
        p - q +- z * sqrt((p + q - (p - q)^2) / (n + 2))

    Resampled questions show no uncertainty at all where the two never differ; this does. It takes the questions for
    independent.

    Source: Bonett and Price, "Adjusted Wald confidence interval for a difference of binomial proportions based on
    paired data", 2012.
    """
    if n == 0:
        return -1.0, 1.0
    p, q = (only_first + 1) / (n + 2), (only_second + 1) / (n + 2)
    half = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * math.sqrt(max(0.0, p + q - (p - q) ** 2) / (n + 2))
    return max(-1.0, p - q - half), min(1.0, p - q + half)


def widened(found: Ranged, only_first: int, only_second: int, n: int) -> Ranged:
    """A difference with the wider, at either end, of its resampled and its adjusted interval.

    Resampling knows that questions about one picture hang together, the adjusted interval knows that few questions
    prove little: a verdict needs both.
    """
    if found.value is None:
        return found
    low, high = adjusted_difference(only_first, only_second, n)
    lows = [low, found.value, *([] if found.low is None else [found.low])]
    highs = [high, found.value, *([] if found.high is None else [found.high])]
    return Ranged(found.value, min(lows), max(highs))


def mean_of(parts: Sequence[Ranged]) -> Ranged:
    """The unweighted mean of figures from different questions, with an interval from theirs.

        low = mean - sqrt(sum (value_i - low_i)^2) / k,  high likewise

    Source: Zou and Donner, "Construction of confidence limits about effect measures: a general approach", 2008. It
    takes the skew of each interval over into the mean's. No mean where a figure is missing, and no interval where one
    of the intervals is.
    """
    if not parts:
        return Ranged(None)
    down, up, total = 0.0, 0.0, 0.0
    bounded = True
    for part in parts:
        if part.value is None:
            return Ranged(None)
        total += part.value
        if part.low is None or part.high is None:
            bounded = False
            continue
        down += (part.value - part.low) ** 2
        up += (part.high - part.value) ** 2
    mean = total / len(parts)
    if not bounded:
        return Ranged(mean)
    return Ranged(mean, mean - math.sqrt(down) / len(parts), mean + math.sqrt(up) / len(parts))
