"""Intervals for shares: how well n trials pin a proportion down."""

from __future__ import annotations

import math
from statistics import NormalDist

from speceyes.errors import InputError


def wilson(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval, two-sided: (low, high), both in 0..1; (0, 1) for no trials.

        centre = (p + z^2 / 2n) / (1 + z^2 / n)
        half   = z / (1 + z^2 / n) * sqrt(p (1 - p) / n + z^2 / 4n^2)

    Source: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927. Good for
    reports. It is an approximation, so no guarantee is built on it.

    Raises:
        InputError: Not 0 <= successes <= n, or confidence not between 0 and 1.
    """
    if not 0 <= successes <= n:
        raise InputError(f"{successes} successes in {n} trials: successes must lie between 0 and the trials.")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"A confidence of {confidence} is not between 0 and 1 (both excluded).")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    p = successes / n
    scale = 1.0 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1.0 - p) / n + z * z / (4 * n * n))
    # At the ends the bound is exactly 0 or 1; rounding must not say otherwise.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high
