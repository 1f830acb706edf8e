"""Answer separability: how far the first candidate for a token stands apart from its rivals.

For one answer token with the K largest logits l[1] >= l[2] >= ... >= l[K]:

    S = (l[1] - mean(l[2..K])) / (std(l[2..K]) + 1e-6)        std over the population, not a sample

Source: the SpecEyes paper. Its text takes the mean and the spread over all K; its published code leaves the
first one out. So do we, and `include_top=True` is the paper's text: there S never exceeds
sqrt(K - 1).

S does not change when all logits move by a constant, so log-probs serve as well as logits. It does change
with K.

Where we depart from the published code:
- Values that stand for "no number here" are removed first (see `ranked`).
- Fewer than three usable values, or rivals that are all equal, give NaN. There the 1e-6 alone would make the
  score, and it would be a huge one: false certainty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from speceyes.errors import ConfigError

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

EPSILON = 1e-6
"""Added to the spread. Rivals that all lie within this distance of each other count as equal."""
MIN_ENTRIES = 3
"""Two rivals are the least that have a spread."""
SENTINEL_CEILING = -9998.0
"""Servers write -9999, or lower still, for a masked or unknown value. Nothing down here is measured."""
SQUASH_RATE = 0.6


def ranked(logits: ArrayLike, k: int | None = None) -> FloatArray:
    """Usable values first, largest to smallest; NaN behind them.

    Removed are NaN (and None), -inf and sentinels. A row that holds +inf is removed as a whole: the value
    that would be its first has no size, and the next one must not take its place.

    Args:
        logits: Logits or log-probs in any order. Shape (..., W).
        k: Width of the result: the k largest, padded with NaN where W < k. None keeps W.

    Returns:
        A new array. Shape (..., k) or (..., W).
    """
    values = np.atleast_1d(np.array(logits, dtype=np.float64))
    poisoned = np.isposinf(values).any(axis=-1, keepdims=True)
    values[poisoned | ~(values > SENTINEL_CEILING)] = np.nan
    # np.sort puts NaN last; sorting the negated values puts the largest first.
    values = -np.sort(-values, axis=-1)
    if k is None:
        return values
    missing = k - values.shape[-1]
    if missing > 0:
        padding = np.full((*values.shape[:-1], missing), np.nan)
        return np.concatenate([values, padding], axis=-1)
    return values[..., :k]


def separability(logprobs: ArrayLike, *, include_top: bool = False) -> FloatArray:
    """S of every row; NaN where a row has no score.

    Args:
        logprobs: Logits or log-probs, a row a token, in any order. Shape (..., K).
        include_top: Take mean and spread over all K, as the paper's text does, not over the rivals only.

    Returns:
        S >= 0. NaN for fewer than three usable values and for rivals without spread. Shape (...).
    """
    return separability_of_ranked(ranked(logprobs), include_top=include_top)


def separability_of_ranked(rows: FloatArray, *, include_top: bool = False) -> FloatArray:
    """`separability` of rows that `ranked` made. Shape (..., K) -> (...)."""
    if rows.shape[-1] < MIN_ENTRIES:
        return np.full(rows.shape[:-1], np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        # Distances from the first: a constant added to the whole row cancels here.
        gaps = rows[..., :1] - rows
        usable = ~np.isnan(gaps)
        gaps[~usable] = 0.0
        count = usable.sum(axis=-1)
        members = np.maximum(count if include_top else count - 1, 1)
        mean_gap = gaps.sum(axis=-1) / members
        deviations = gaps - mean_gap[..., None]
        deviations[~usable] = 0.0
        if not include_top:
            deviations[..., 0] = 0.0
        spread = np.sqrt(np.einsum("...k,...k->...", deviations, deviations) / members)
        scores = mean_gap / (spread + EPSILON)
        defined = (count >= MIN_ENTRIES) & (gaps.max(axis=-1) - gaps[..., 1] > EPSILON)
        defined &= np.isfinite(scores) & np.isfinite(spread)
    result: FloatArray = np.where(defined, scores, np.nan)
    return result


def squash(s: ArrayLike) -> FloatArray:
    """sigmoid(0.6 s): the scale of the published thresholds (0.94 ... 0.995). Shape kept, NaN kept."""
    # The same function through tanh, which does not overflow.
    squashed: FloatArray = 0.5 * (1.0 + np.tanh(0.5 * SQUASH_RATE * np.asarray(s, dtype=np.float64)))
    return squashed


def unsquash(p: float) -> float:
    """The S whose `squash` is p: turns a published threshold into one on S. ConfigError unless 0 < p < 1."""
    if not 0.0 < p < 1.0:
        raise ConfigError(f"A squashed threshold lies between 0 and 1, both excluded; this one is {p}.")
    return float(np.log(p / (1.0 - p)) / SQUASH_RATE)


def _starts(lengths: IntArray) -> IntArray:
    return np.cumsum(lengths) - lengths


def _mean(values: FloatArray, lengths: IntArray) -> FloatArray:
    total: FloatArray = np.add.reduceat(values, _starts(lengths))
    return total / lengths


def _min(values: FloatArray, lengths: IntArray) -> FloatArray:
    lowest: FloatArray = np.minimum.reduceat(values, _starts(lengths))
    return lowest


def _bottom(values: FloatArray, lengths: IntArray) -> FloatArray:
    answer = np.repeat(np.arange(lengths.size), lengths)
    ascending = values[np.lexsort((values, answer))]
    rank = np.arange(values.size) - np.repeat(_starts(lengths), lengths)
    kept = np.maximum(lengths // 5, 1)
    lowest = rank < np.repeat(kept, lengths)
    return _mean(ascending[lowest], kept)


def _log(values: FloatArray, lengths: IntArray) -> FloatArray:
    geometric: FloatArray = np.exp(_mean(values, lengths))
    return geometric


AGGREGATES: Mapping[str, Callable[[FloatArray, IntArray], FloatArray]] = MappingProxyType(
    {"min": _min, "mean": _mean, "bottom": _bottom, "log": _log}
)
"""From token scores to one score an answer, by name.

`min` is the worst token (the default), `mean` the average, `bottom` the mean of the lowest 20 % (rounded
down, at least one token). `log` is exp(mean): for token scores that are log-probs it gives their geometric
mean probability. Each takes the scores of all answers behind one another, shape (T,), and the answers'
lengths, shape (A,), none zero.
"""


def aggregate_answers(token_scores: FloatArray, lengths: IntArray, how: str) -> FloatArray:
    """One score an answer, for many answers of different lengths at once.

    Args:
        token_scores: Scores of all tokens, answer behind answer. Shape (T,).
        lengths: Tokens in each answer, possibly 0; they add up to T. Shape (A,).
        how: A key of `AGGREGATES`; ConfigError otherwise.

    Returns:
        Shape (A,). NaN for an answer without tokens and for one that holds a token without a finite score.
    """
    if how not in AGGREGATES:
        raise ConfigError(f"There is no aggregate {how!r}. Choose one of: {', '.join(AGGREGATES)}.")
    result = np.full(lengths.shape, np.nan)
    full = lengths > 0
    if not full.any():
        return result
    # Non-finite scores leave the sums, or inf - inf would warn; their answers get NaN afterwards.
    finite = np.isfinite(token_scores)
    with np.errstate(over="ignore"):
        scores = AGGREGATES[how](np.where(finite, token_scores, 0.0), lengths[full])
    whole = np.logical_and.reduceat(finite, _starts(lengths[full])) & np.isfinite(scores)
    result[full] = np.where(whole, scores, np.nan)
    return result


def aggregate(token_scores: ArrayLike, how: str) -> float:
    """One answer's score from its tokens' scores; NaN without tokens or with a token without a finite score.

    Args:
        token_scores: Shape (T,).
        how: A key of `AGGREGATES`; ConfigError otherwise.
    """
    scores = np.asarray(token_scores, dtype=np.float64).ravel()
    return float(aggregate_answers(scores, np.array([scores.size], dtype=np.int64), how)[0])
