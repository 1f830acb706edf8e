"""How sure the draft model was of one answer, or the reason why nobody can tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from speceyes.gating.answers import AnswerTable
from speceyes.gating.scores import find_score
from speceyes.types import Reason, Token


@dataclass(frozen=True, slots=True)
class Confidence:
    """One answer's score. Either `score` or `reason` is None, never both and never neither.

    Attributes:
        score: The aggregated score, a finite number, or None where there is no confidence.
        squashed: The same between 0 and 1 (for separability: sigmoid(0.6 score)), or None.
        reason: Why there is no confidence, or None where there is.
        token_scores: Each token's score, None where it has none. Shape (T,).
    """

    score: float | None
    squashed: float | None
    reason: Reason | None
    token_scores: tuple[float | None, ...] = ()


def confidence(
    tokens: Sequence[Token], *, score: str = "separability", k: int = 64, aggregate: str = "min"
) -> Confidence:
    """Score one answer. Whatever the tokens hold, this neither raises nor returns NaN.

    There is no confidence where
    - there is no token, or none with visible text (`EMPTY_ANSWER`);
    - a token has no log-probs at all (`LOGPROBS_MISSING`);
    - a token has fewer than `k` usable ones, whether the server sent fewer or filled the list with -inf, NaN
      or -9999 (`LOGPROBS_TOO_FEW`): the score depends on k, so a threshold for k = 64 says nothing about 20.
      A `k` below what the score needs (3 for separability) ends here too;
    - a token's values cannot be log-probs, or its rivals are all equal (`SCORE_UNDEFINED`);
    - the text ends in a loop (`REPETITIVE_ANSWER`).

    Args:
        tokens: The answer's tokens: no end-of-turn token, no reasoning.
        score: A key of `SCORES`.
        k: How many log-probs of each token to use: the k largest usable ones of what the server sent.
        aggregate: One of the score's aggregates.

    Raises:
        ConfigError: The score, or the aggregate for it, does not exist.
    """
    chosen = find_score(score, aggregate)
    scored = AnswerTable.of([tokens]).score(score, k, aggregate)
    token_scores = tuple(None if math.isnan(value) else value for value in scored.token_values.tolist())
    reason: Reason | None = scored.reasons[0]
    if reason is not None:
        return Confidence(None, None, reason, token_scores)
    value = float(scored.values[0])
    return Confidence(value, float(chosen.squash(value)), None, token_scores)
