"""A small gate that is trained on the record itself: what could be had beyond one number a token?

Features of a draft: quantiles of its tokens' separability, margin, entropy and log-prob, and its length. Quantiles
over tokens as features for deferral: Gupta et al., "Language Model Cascades: Token-Level Uncertainty and Beyond",
2024. The model is a logistic regression on standardised features (scikit-learn).

Cross-fitted: the record is cut into folds, and each fold is scored by a model that saw the other folds only. A draft
is never scored by a model that knew whether it is right. The folds' models differ a little, so their scores are not
quite on one scale; that costs the learned gate something, and never flatters it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from speceyes.gating import SCORES, AnswerTable
from speceyes.gating.answers import BoolArray
from speceyes.gating.separability import FloatArray, IntArray

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
FAMILIES = ("separability", "margin", "entropy", "logprob")
FOLDS = 5
LEAST = 10
"""Right and wrong drafts that there must be at least, each: two in every fold."""


def features(answers: AnswerTable, k: int) -> FloatArray:
    """Features of every draft at K = `k`.

    A family of scores that no token of the run has (sampled log-probs are not always sent) is left out.

    Returns:
        Shape (A, F). A row holds NaN where one of its tokens lacks a score.
    """
    columns = [np.log1p(answers.lengths.astype(np.float64))[:, None]]
    for name in FAMILIES:
        scores = answers.token_scores(SCORES[name], k)
        if np.isfinite(scores).any():
            # Separability has a long tail, which would outweigh all else in a linear model.
            values = np.log1p(scores) if name == "separability" else scores
            columns.append(token_quantiles(values, answers.lengths))
    return np.concatenate(columns, axis=1) if len(columns) > 1 else np.full((answers.lengths.size, 1), np.nan)


def token_quantiles(values: FloatArray, lengths: IntArray) -> FloatArray:
    """Quantiles over the tokens of each answer, interpolated linearly.

    Args:
        values: Of all tokens, answer behind answer. Shape (T,).
        lengths: Tokens in each answer. Shape (A,).

    Returns:
        Shape (A, len(QUANTILES)). NaN for answers without tokens, or with a token that is NaN.
    """
    answer = np.repeat(np.arange(lengths.size), lengths)
    ascending = np.append(values[np.lexsort((values, answer))], np.nan)
    starts, last = np.cumsum(lengths) - lengths, np.maximum(lengths - 1, 0)
    place = last[:, None] * np.array(QUANTILES)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, last[:, None])
    lower, upper = ascending[starts[:, None] + low], ascending[starts[:, None] + high]
    found: FloatArray = lower + (upper - lower) * (place - low)
    found[(lengths == 0) | np.isnan(ascending[starts + last])] = np.nan
    return found


def cross_fit(
    rows: FloatArray, right: BoolArray, *, groups: NDArray[Any] | None = None, folds: int = FOLDS, seed: int = 0
) -> FloatArray:
    """Log-odds that each draft is right, by a model that did not see it.

    Args:
        rows: Features, NaN where a draft has none. Shape (M, F).
        right: Which drafts are right. Shape (M,).
        groups: Drafts of one group (the same image, say) stay in one fold. Shape (M,). None: no groups.
        folds: How many. Each has about the same share of right drafts (stratified).
        seed: Of the cut.

    Returns:
        Shape (M,). NaN where a row has no features, and everywhere where there are too few right or wrong drafts
        (`LEAST`) to learn from.
    """
    found = np.full(right.shape, np.nan)
    fit = np.flatnonzero(np.isfinite(rows).all(axis=1))
    x, y = rows[fit], right[fit]
    if min(y.sum(), (~y).sum()) < LEAST:
        return found
    for seen, unseen in _cut(x, y, None if groups is None else np.asarray(groups)[fit], folds, seed):
        if y[seen].all() or not y[seen].any():
            return np.full(right.shape, np.nan)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(x[seen], y[seen])
        found[fit[unseen]] = model.decision_function(x[unseen])
    return found


def _cut(
    x: FloatArray, y: BoolArray, groups: NDArray[Any] | None, folds: int, seed: int
) -> Iterator[tuple[IntArray, IntArray]]:
    """(seen, unseen) of each fold; none where there are fewer groups than folds."""
    if groups is None or np.unique(groups).size == groups.size:
        yield from StratifiedKFold(folds, shuffle=True, random_state=seed).split(x, y)
    elif np.unique(groups).size >= folds:
        yield from StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(x, y, groups)
