"""The scores that the gate can read from an answer's log-probs. In all of them larger means surer.

A score gives every token a number; an aggregate makes one number of them. A threshold belongs to one score,
one K
and one aggregate: see `Calibration`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from speceyes.errors import ConfigError
from speceyes.gating.separability import FloatArray, separability_of_ranked, squash

TokenScore = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, slots=True)
class Score:
    """One way to tell how sure a model was of a token.

    Attributes:
        name: Its key in `SCORES`.
        meaning: What it measures, in one sentence.
        source: Where it comes from.
        of_tokens: (the k largest log-probs of each token, largest first, no NaN, shape (T, k); log-prob of
            each sampled token, shape (T,)) -> score of each token, NaN where undefined, shape (T,).
        squash: To 0..1, for people to read; keeps the order of scores, up to rounding.
        bounds: k -> the least and the greatest value.
        min_k: The least k that it is defined for.
        aggregates: The aggregates that make sense for it, the default first.
        reads_sampled: Whether it needs the sampled token's own log-prob.
    """

    name: str
    meaning: str
    source: str
    of_tokens: TokenScore
    squash: Callable[[ArrayLike], FloatArray]
    bounds: Callable[[int], tuple[float, float]]
    min_k: int
    aggregates: tuple[str, ...] = ("min", "mean", "bottom")
    reads_sampled: bool = False


def margin(rows: FloatArray) -> FloatArray:
    """Log-prob of the first minus that of the second. Ranked rows, shape (T, K >= 2) -> (T,)."""
    return rows[..., 0] - rows[..., 1]


def entropy(rows: FloatArray) -> FloatArray:
    """Minus the entropy, in nats, of the K values taken as a distribution of their own.

    Rows ranked, shape (T, K) -> (T,). 0 is full certainty, -log K none at all.
    """
    shifted = rows - rows[..., :1]
    weights = np.exp(shifted)
    total = weights.sum(axis=-1)
    # H = log(sum w) - sum(w log w) / sum(w), with log w = shifted.
    negative: FloatArray = np.einsum("...k,...k->...", weights, shifted) / total - np.log(total)
    return np.clip(negative, -math.log(rows.shape[-1]), 0.0)


def _sigmoid(x: ArrayLike) -> FloatArray:
    half: FloatArray = 0.5 * (1.0 + np.tanh(0.5 * np.asarray(x, dtype=np.float64)))
    return half


def _exp(x: ArrayLike) -> FloatArray:
    result: FloatArray = np.exp(np.asarray(x, dtype=np.float64))
    return result


def _identity(x: ArrayLike) -> FloatArray:
    return np.asarray(x, dtype=np.float64)


_SPECEYES = "the SpecEyes paper"

_ALL = (
    Score(
        name="separability",
        meaning="Distance of the first candidate from the mean of its rivals, in units of their spread.",
        source=f"{_SPECEYES}, as in its published code",
        of_tokens=lambda rows, sampled: separability_of_ranked(rows),
        squash=squash,
        bounds=lambda k: (0.0, math.inf),
        min_k=3,
    ),
    Score(
        name="separability_with_top",
        meaning="The same with mean and spread over all K candidates, the first one included.",
        source=f"{_SPECEYES}, as in its text",
        of_tokens=lambda rows, sampled: separability_of_ranked(rows, include_top=True),
        squash=squash,
        bounds=lambda k: (0.0, math.sqrt(k - 1)),
        min_k=3,
    ),
    Score(
        name="margin",
        meaning="Log-prob of the first candidate minus the second's; squashed, the first's share of both.",
        source="Scheffer et al., Active Hidden Markov Models for Information Extraction, 2001",
        of_tokens=lambda rows, sampled: margin(rows),
        squash=_sigmoid,
        bounds=lambda k: (0.0, math.inf),
        min_k=2,
    ),
    Score(
        name="entropy",
        meaning="Minus the entropy of the K candidates, renormalised; squashed, one over the perplexity.",
        source="Shannon, A Mathematical Theory of Communication, 1948",
        of_tokens=lambda rows, sampled: entropy(rows),
        squash=_exp,
        bounds=lambda k: (-math.log(k), 0.0),
        min_k=2,
    ),
    Score(
        name="logprob",
        meaning="Log-prob of the sampled token; squashed, that token's probability.",
        source="Gupta et al., Language Model Cascades: Token-Level Uncertainty and Beyond, arXiv 2404.10136",
        of_tokens=lambda rows, sampled: sampled,
        squash=_exp,
        bounds=lambda k: (-math.inf, 0.0),
        min_k=0,
        reads_sampled=True,
    ),
    Score(
        name="geometric_probability",
        meaning="Geometric mean, over the answer, of each first candidate's probability.",
        source=f"{_SPECEYES}, where it is the aggregate `log`",
        of_tokens=lambda rows, sampled: rows[..., 0],
        squash=_identity,
        bounds=lambda k: (0.0, 1.0),
        min_k=1,
        aggregates=("log",),
    ),
)

SCORES: Mapping[str, Score] = MappingProxyType({score.name: score for score in _ALL})
"""All scores by name."""


def find_score(name: str, aggregate: str) -> Score:
    """The score that a name and an aggregate mean together.

    The published code lists `log` beside `min`, `mean` and `bottom`, though it looks at probabilities and
    not at separability. So that its settings keep their names, either separability with `log` means
    `geometric_probability`.

    Raises:
        ConfigError: No score has this name, or the aggregate does not go with it.
    """
    if name not in SCORES:
        raise ConfigError(f"There is no score {name!r}. Choose one of: {', '.join(SCORES)}.")
    if aggregate == "log" and name.startswith("separability"):
        return SCORES["geometric_probability"]
    score = SCORES[name]
    if aggregate not in score.aggregates:
        raise ConfigError(
            f"The score {name!r} cannot be aggregated by {aggregate!r}. Choose one of: {', '.join(score.aggregates)}."
        )
    return score
