"""Where a rate lies, at every moment at once: an interval that one may look at as often as one likes."""

from __future__ import annotations

import math
from collections.abc import Callable

from speceyes.errors import InputError


def confidence_sequence(losses: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval for a constant rate, two-sided: (low, high), both in 0..1; (0, 1) for no trials.

    All rates p at which the evidence stays under 1 / (1 - confidence), that is, for which

        B(losses + 1/2, n - losses + 1/2) / B(1/2, 1/2) / (p^losses * (1 - p)^(n - losses)) < 1 / (1 - confidence)

    With at least this confidence the true rate lies in the intervals of *all* n, not only of one that was chosen in
    advance. An interval for one n (`speceyes.gating.wilson`) is narrower, and wrong sooner or later if looked at
    every day. Where the rate changes on the way, the interval means nothing exact: that is what the monitors are for.

    Source: Robbins, "Statistical methods related to the law of the iterated logarithm", 1970 (the method of
    mixtures), with Jeffreys' prior as the mixture.

    Raises:
        InputError: Not 0 <= losses <= n, or confidence not between 0 and 1.
    """
    if not 0 <= losses <= n:
        raise InputError(f"{losses} losses in {n} trials: losses must lie between 0 and the trials.")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"A confidence of {confidence} is not between 0 and 1 (both excluded).")
    mixture = _log_beta(losses + 0.5, n - losses + 0.5) - _log_beta(0.5, 0.5) + math.log1p(-confidence)

    def inside(p: float) -> bool:
        return mixture < _times_log(losses, p) + _times_log(n - losses, 1.0 - p)

    rate = losses / n if n else 0.5
    low = 0.0 if inside(0.0) else _edge(inside, rate, 0.0)
    high = 1.0 if inside(1.0) else _edge(inside, rate, 1.0)
    return low, high


def _edge(inside: Callable[[float], bool], within: float, beyond: float) -> float:
    """Where the interval ends between a rate in it and one out of it, on the outer side of the last digit."""
    while True:
        middle = (within + beyond) / 2
        if middle in (within, beyond):
            return beyond
        if inside(middle):
            within = middle
        else:
            beyond = middle


def _times_log(count: int, p: float) -> float:
    if count == 0:
        return 0.0
    return count * math.log(p) if p > 0.0 else -math.inf


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
