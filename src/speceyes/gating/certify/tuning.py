"""Thresholds chosen on records that will not certify them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from speceyes.errors import InputError
from speceyes.gating.certify.binomial import most_allowed, tail
from speceyes.gating.certify.curve import loss_curve
from speceyes.gating.certify.outcomes import Outcomes
from speceyes.gating.certify.risks import Limit
from speceyes.gating.certify.sequence import ThresholdSequence

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SHARES = np.arange(0.05, 1.0001, 0.025)
"""Shares of the tuning candidates that the thresholds of `tuned` accept, from the strictest to all."""
GOOD_ENOUGH = 0.97
"""`tuned` starts at the strictest threshold whose chance to pass is at least this share of the best one's."""
CURVE_COUNTS = 50
"""How many records the fitted curve of losses counts for, against those seen at a threshold."""
_NORMAL = np.array([NormalDist().inv_cdf((i + 0.5) / 5) for i in range(5)])
"""A normal distribution in five numbers."""


def thresholds_at(candidates: FloatArray, shares: ArrayLike) -> FloatArray:
    """Thresholds that accept these shares of the candidates, or a little more where scores tie.

    Args:
        candidates: Scores, largest first. (C,).
        shares: Between 0 (excluded) and 1. (M,).

    Returns:
        Scores among the candidates, falling, doubles left out. Empty for no candidates.
    """
    if not len(candidates):
        return np.empty(0)
    # the rounding keeps 0.3 * 10 from becoming 4
    ranks = np.ceil(np.round(np.asarray(shares, dtype=np.float64) * len(candidates), 9)).astype(np.int64)
    found: FloatArray = -np.unique(-candidates[np.clip(ranks, 1, len(candidates)) - 1])
    return found


def tuned(tuning: Outcomes, limits: Sequence[Limit], delta: float, ratio: float) -> ThresholdSequence:
    """The sequence that promises most, by these records: where to start, and from there looser step by step.

    Each threshold's chance to pass is estimated. It will accept about `ratio` times as many certifying records as it
    does tuning ones, give or take what the draw of both parts does to such a count. The risk at it is what was seen,
    drawn towards a smooth curve as if that were known from `CURVE_COUNTS` further records: among so few, no loss and
    one loss are a matter of luck. The sequence starts at the strictest threshold whose chance is nearly as good as the
    best one's, since a failure at the start ends everything. Any rule would be allowed here: the certifying records
    have not been looked at.

    Args:
        tuning: Records that will not certify.
        limits: One for each row of `tuning.losses`.
        delta: The budget of the test.
        ratio: Certifying records for each tuning one.
    """
    thresholds = thresholds_at(tuning.candidates, SHARES)
    if not len(thresholds):
        return ThresholdSequence.from_start(thresholds)
    accepted, lost = tuning.count(thresholds)
    # both counts are binomial: their variances add up
    spread = np.sqrt(accepted * (1.0 - accepted / len(tuning)) * ratio * (1.0 + ratio))
    trials = np.maximum(0, np.round(accepted * ratio + _NORMAL[:, None] * spread)).astype(np.int64)
    # the least of the risks' chances; they may hang together, so their product would be too low
    chances = [
        _chance(trials, rate, limit.alpha, delta)
        for rate, limit in zip(_risks(tuning, thresholds, accepted, lost), limits, strict=True)
    ]
    chance = np.min(chances, axis=0)
    start = int(np.argmax(chance >= GOOD_ENOUGH * chance.max()))
    return ThresholdSequence.from_start(thresholds[start:])


def _risks(tuning: Outcomes, thresholds: FloatArray, accepted: IntArray, lost: IntArray) -> FloatArray:
    """Estimated risks at each threshold, with a curve for each depth. (M,), (M,), (R, M) -> (R, M)."""
    expected: FloatArray = np.zeros(lost.shape)
    for drafts in tuning.by_depth:
        if len(drafts.scores):
            answering = (drafts.scores >= thresholds[:, None]) & ~(drafts.beaten >= thresholds[:, None])
            curves = np.stack([loss_curve(drafts.scores, losses) for losses in drafts.losses])
            expected += (answering @ curves.T).T
    risks: FloatArray = (lost + CURVE_COUNTS * (expected / accepted)) / (accepted + CURVE_COUNTS)
    return risks


def _chance(trials: IntArray, rate: FloatArray, alpha: float, delta: float) -> FloatArray:
    """Chance that a threshold passes that accepts one of these counts, at this true risk. (Z, M), (M,) -> (M,)."""
    different, which = np.unique(trials, return_inverse=True)  # many are the same, and the search takes its time
    most = most_allowed(different, alpha, delta)[which].reshape(trials.shape)
    passes: FloatArray = np.where(most >= 0, tail(np.maximum(most, 0), trials, rate), 0.0).mean(axis=0)
    return passes


def split_at_random(n: int, share: float, seed: str) -> BoolArray:
    """Cut n records in two at random: True for those that choose the thresholds, False for those that certify. (n,).

    Args:
        n: Records.
        share: The part that chooses, 0 to 1 (both excluded).
        seed: Any text. The hash of the records is a good one: then nobody can shop for a split that looks well.

    Raises:
        InputError: One part would be empty.
    """
    first = round(n * share)
    if not 0 < first < n:
        raise InputError(
            f"{n} records cannot be cut in two with a share of {share:g}: one part would be empty. "
            "Record more, or use one sequence fixed in advance."
        )
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big"))
    chosen = np.zeros(n, dtype=np.bool_)
    chosen[rng.permutation(n)[:first]] = True
    return chosen
