"""How many records it would have taken, where the data cannot carry a guarantee, and what they could have carried."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speceyes.gating.certify.binomial import tail, upper_bound
from speceyes.gating.certify.certificate import Certificate, Step

IntArray = NDArray[np.int64]

POWER = 0.8
"""Chance to be certified that a sample size is for."""
MOST_LOSSES = 10_000
"""Where more losses than this would have to be seen first, no sample size is named."""


@dataclass(frozen=True, slots=True)
class Need:
    """What it would take to certify a threshold, if its true rates are those seen.

    Attributes:
        threshold: The one that needs the fewest records.
        accepted: Accepted records that it takes.
        records: Certifying records, at the acceptance rate seen. None: no number would do, or none that is practical.
        more: `records` less those that there were; at least 1.
        carried: For each risk, the limit that these data could have carried at the threshold where that is least
            (by the most demanding risk): what to ask of *fresh* records. It is no certificate.
        carried_at: That threshold, None where not one record was accepted.
    """

    threshold: float | None
    accepted: int | None
    records: int | None
    more: int | None
    carried: tuple[float, ...]
    carried_at: float | None


def accepted_needed(rate: float, alpha: float, level: float, power: float = POWER) -> int | None:
    """The least number of accepted queries with which a risk of `rate` passes the test with chance `power`.

    For each number of losses x there is a least n that proves the limit: the smallest with P(X <= x) <= level for X
    binomial (n, alpha). Found is the first x that a true risk of `rate` does not exceed, in n queries, with chance
    `power`. For a rate of 0 this is `least_clean`.

    Returns:
        None where the rate is not below the limit, or so close that over 10,000 losses would have to be seen.
    """
    if rate >= alpha:
        return None
    begin, size = 0, 64
    while begin <= MOST_LOSSES:
        losses = np.arange(begin, begin + size)
        n = _least_n(losses, alpha, level)
        enough = np.flatnonzero(tail(losses, n, rate) >= power)
        if len(enough):
            return int(n[enough[0]])
        begin, size = begin + size, 4 * size
    return None


def need_for(certificate: Certificate, level: float) -> Need:
    """What an infeasible test would have taken, at the best of its thresholds.

    Args:
        certificate: What was found.
        level: What a threshold's p-value must stay under: delta for one start, its share of delta for several.
    """
    options = [
        (records, step, accepted) for step in certificate.steps for records, accepted in _need(step, certificate, level)
    ]
    carried = [
        (max(b / limit.alpha for b, limit in zip(bounds, certificate.limits, strict=True)), step, bounds)
        for step in certificate.steps
        if step.accepted
        for bounds in [tuple(float(upper_bound(x, step.accepted, level)) for x in step.losses)]
    ]
    _, best, bounds = min(carried, key=lambda found: found[0], default=(0.0, None, ()))
    carried_at = None if best is None else best.threshold
    if not options:
        return Need(None, None, None, None, bounds, carried_at)
    records, step, accepted = min(options, key=lambda option: option[0])
    return Need(step.threshold, accepted, records, max(1, records - certificate.n), bounds, carried_at)


def _need(step: Step, certificate: Certificate, level: float) -> list[tuple[int, int]]:
    """[(records, accepted)] that this threshold takes, or [] where no number would do."""
    if not step.accepted:
        return []
    needed = [
        accepted_needed(lost / step.accepted, limit.alpha, level)
        for lost, limit in zip(step.losses, certificate.limits, strict=True)
    ]
    if None in needed:
        return []
    accepted = max(n for n in needed if n is not None)
    return [(math.ceil(accepted * certificate.n / step.accepted), accepted)]


def _least_n(losses: IntArray, alpha: float, level: float) -> IntArray:
    """For each number of losses the least n with P(X <= losses) <= level, X binomial (n, alpha). (M,) -> (M,)."""
    low = losses.astype(np.int64)  # too few: with n = losses the chance is 1
    high = 2 * low + 1
    while (still := tail(losses, high, alpha) > level).any():
        high = np.where(still, 2 * high, high)
    while (high - low > 1).any():
        middle = (low + high) // 2
        proves = tail(losses, middle, alpha) <= level
        low, high = np.where(proves, low, middle), np.where(proves, middle, high)
    return high
