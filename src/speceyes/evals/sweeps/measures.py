"""How well a score tells right drafts from wrong ones: AUROC, AURC and its excess over the best possible.

All are exact under ties, and all take running totals (`RightAndWrong`), so that the figure itself and its resamples
come from the same lines. They look at drafts with a score only: one without is never accepted, at no threshold.
"""

from __future__ import annotations

import numpy as np

from speceyes.evals.sweeps.ranking import RightAndWrong
from speceyes.gating.separability import FloatArray


def auroc(counts: RightAndWrong) -> FloatArray:
    """Area under the ROC curve: the chance that a right draft outscores a wrong one, equal scores counting half.

    0.5 is a coin, 1 tells them apart without a mistake. Not changed by any strictly increasing map of the scores.

    Source: Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic (ROC)
    curve", 1982; it is the Mann-Whitney statistic over the number of pairs.

    Returns:
        Shape (R,). NaN where all drafts are right or all are wrong: there are no pairs.
    """
    gained = np.diff(counts.right, axis=-1)
    below = counts.wrong[:, -1:] - (counts.wrong[:, 1:] + counts.wrong[:, :-1]) / 2.0
    pairs = counts.right[:, -1] * counts.wrong[:, -1]
    return _ratio((gained * below).sum(axis=-1), pairs)


def aurc(counts: RightAndWrong) -> FloatArray:
    """Area under the risk-coverage curve: the share of wrong drafts among the i surest, averaged over i = 1..n.

    Smaller is better; an uninformative score has the overall share of wrong drafts.

    Source: Geifman, Uziel and El-Yaniv, "Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers", 2019.
    Equal scores: the average over all orders among them. After A records with E wrong ones, a group of w records
    with the share r of wrong ones adds

        sum over j = 1..w of (E + j r) / (A + j)  =  w r + (E - r A) (H(A + w) - H(A)),   H(i) = 1 + 1/2 + ... + 1/i

    Returns:
        Shape (R,). NaN where there are no drafts.
    """
    total = counts.right + counts.wrong
    size = np.diff(total, axis=-1)
    errors = np.diff(counts.wrong, axis=-1)
    rate = np.divide(errors, size, out=np.zeros_like(errors), where=size > 0)
    steps = np.diff(_harmonic(total), axis=-1)
    area = errors + (counts.wrong[:, :-1] - rate * total[:, :-1]) * steps
    return _ratio(area.sum(axis=-1), total[:, -1])


def best_aurc(counts: RightAndWrong) -> FloatArray:
    """The least AURC that any ranking of these drafts can have: all m wrong ones behind the n - m right ones.

        (1/n) sum over i = n-m+1..n of (i - (n - m)) / i  =  (m - (n - m) (H(n) - H(n - m))) / n

    Source: as `aurc`, there in its limit for large n.

    Returns:
        Shape (R,). NaN where there are no drafts.
    """
    right, wrong = counts.right[:, -1], counts.wrong[:, -1]
    total = right + wrong
    return _ratio(wrong - right * (_harmonic(total) - _harmonic(right)), total)


def excess_aurc(counts: RightAndWrong) -> FloatArray:
    """AURC above the best possible: what the ranking costs, whatever the draft's accuracy. 0 is perfect. Shape (R,).

    Source: as `aurc`.
    """
    found: FloatArray = np.maximum(aurc(counts) - best_aurc(counts), 0.0)
    return found


def risk_at(counts: RightAndWrong, coverage: FloatArray) -> FloatArray:
    """Share of wrong drafts among the surest ones, at given coverages.

    Args:
        counts: Running totals of R resamples.
        coverage: Shares of the drafts with a score, above 0 and at most 1. Shape (C,).

    Returns:
        Shape (R, C). Inside a group of equal scores: the expectation over the orders among them.
    """
    total = counts.right + counts.wrong
    risks = np.full((len(total), coverage.size), np.nan)
    for row, (accepted, wrong) in enumerate(zip(total, counts.wrong, strict=True)):
        if accepted[-1] > 0:
            wanted = coverage * accepted[-1]
            risks[row] = np.interp(wanted, accepted, wrong) / wanted
    return risks


def _harmonic(counts: FloatArray) -> FloatArray:
    table = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, int(counts.max(initial=0)) + 1))])
    found: FloatArray = table[counts.astype(np.int64)]
    return found


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    found: FloatArray = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)
    return found
