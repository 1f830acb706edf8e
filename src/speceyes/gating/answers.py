"""Many answers as arrays: score 10,000 of them in one pass, then do it again with other settings.

`confidence` scores one answer through the same table, so a sweep over recorded answers and the gate in
service cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike, NDArray

from speceyes.errors import InputError
from speceyes.gating.repetition import is_repetitive
from speceyes.gating.scores import Score, find_score
from speceyes.gating.separability import SENTINEL_CEILING, FloatArray, IntArray, aggregate_answers, ranked
from speceyes.types import Reason, Token

BoolArray = NDArray[np.bool_]

LOGPROB_CEILING = 1e-3
"""A log-prob is at most 0; rounding may lift it a little. Anything larger is no log-prob."""


@dataclass(frozen=True, slots=True, eq=False)
class AnswerScores:
    """The scores of A answers with T tokens in all.

    Attributes:
        values: NaN where there is no confidence. Shape (A,).
        reasons: Why there is none, or None where there is. Objects, shape (A,).
        token_values: NaN where a token has no score. Shape (T,).
    """

    values: FloatArray
    reasons: NDArray[np.object_]
    token_values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class AnswerTable:
    """A answers with T tokens in all, ready to be scored. Make it with `of` or `from_arrays`.

    Attributes:
        logprobs: Usable log-probs of each token, largest first, NaN behind them. Shape (T, W).
        sampled: Log-prob of each sampled token, NaN where the server gave none. Shape (T,).
        given: Entries that the server sent for each token, usable or not. Shape (T,).
        valid: False where a token's values cannot be log-probs. Shape (T,).
        lengths: Tokens in each answer. Shape (A,).
        blank: Answers without visible text. Shape (A,).
        repetitive: Answers that end in a loop. Shape (A,).
    """

    logprobs: FloatArray
    sampled: FloatArray
    given: IntArray
    valid: BoolArray
    lengths: IntArray
    blank: BoolArray
    repetitive: BoolArray
    _usable: IntArray
    _token_scores: dict[tuple[str, int], FloatArray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, answers: Sequence[Sequence[Token]]) -> AnswerTable:
        """The answers' tokens, as `Draft.tokens` holds them: no end-of-turn token, no reasoning."""
        tokens = list(chain.from_iterable(answers))
        given = np.array([len(token.top_logprobs) for token in tokens], dtype=np.int64)
        rows = np.full((len(tokens), int(given.max(initial=0))), np.nan)
        entries = list(chain.from_iterable(token.top_logprobs for token in tokens))
        rows[np.arange(rows.shape[1]) < given[:, None]] = np.array(entries, dtype=np.float64)
        texts = ["".join(token.text for token in answer) for answer in answers]
        return cls._make(
            rows,
            np.array([token.logprob for token in tokens], dtype=np.float64),
            given,
            np.array([len(answer) for answer in answers], dtype=np.int64),
            blank=np.array([not text.strip() for text in texts], dtype=np.bool_),
            repetitive=np.array([is_repetitive(text) for text in texts], dtype=np.bool_),
        )

    @classmethod
    def from_arrays(cls, logprobs: ArrayLike, lengths: ArrayLike, sampled: ArrayLike | None = None) -> AnswerTable:
        """The same from arrays; texts are unknown then, so no answer counts as blank or repetitive.

        Args:
            logprobs: A row a token, answer behind answer, in any order, padded with NaN. Shape (T, W).
            lengths: Tokens in each answer. Shape (A,).
            sampled: Log-prob of each sampled token. Shape (T,).

        Raises:
            InputError: The shapes do not fit together.
        """
        rows = np.asarray(logprobs, dtype=np.float64)
        counts = np.asarray(lengths, dtype=np.int64)
        drawn = np.full(rows.shape[:1], np.nan) if sampled is None else np.asarray(sampled, dtype=np.float64)
        if rows.ndim != 2 or counts.ndim != 1 or drawn.shape != rows.shape[:1]:
            raise InputError(
                "Log-probs must have the shape (T, W), lengths (A,) and sampled log-probs (T,); "
                f"these have {rows.shape}, {counts.shape} and {drawn.shape}."
            )
        if (counts < 0).any() or counts.sum() != len(rows):
            raise InputError(f"The answers' lengths must add up to the {len(rows)} rows of log-probs.")
        given = (~np.isnan(rows)).sum(axis=-1).astype(np.int64)
        unknown = np.zeros(counts.shape, dtype=np.bool_)
        return cls._make(rows, drawn, given, counts, blank=unknown, repetitive=unknown)

    @classmethod
    def _make(
        cls,
        rows: FloatArray,
        sampled: FloatArray,
        given: IntArray,
        lengths: IntArray,
        *,
        blank: BoolArray,
        repetitive: BoolArray,
    ) -> AnswerTable:
        # Values between 0 and the ceiling are rounding; clipped, every score keeps its bounds.
        best = np.minimum(ranked(rows), 0.0)
        valid: BoolArray = np.all(~(rows > LOGPROB_CEILING), axis=-1)
        return cls(
            logprobs=best,
            sampled=sampled,
            given=given,
            valid=valid,
            lengths=lengths,
            blank=blank,
            repetitive=repetitive,
            _usable=(~np.isnan(best)).sum(axis=-1),
        )

    def score(self, score: str, k: int, aggregate: str) -> AnswerScores:
        """Score every answer.

        Args:
            score: A key of `SCORES`.
            k: How many log-probs of each token to use. A token with fewer usable ones has no score, since a
                threshold holds for one K only.
            aggregate: One of the score's aggregates.

        Raises:
            ConfigError: The score, or the aggregate for it, does not exist.
        """
        chosen = find_score(score, aggregate)
        token_values = self.token_scores(chosen, k)
        how = aggregate if aggregate in chosen.aggregates else chosen.aggregates[0]
        values = aggregate_answers(token_values, self.lengths, how)
        reasons = self._reasons(chosen, k, values)
        values[reasons != np.array(None)] = np.nan
        return AnswerScores(values, reasons, token_values)

    def token_scores(self, score: Score, k: int) -> FloatArray:
        """The score of every token, NaN where it has none; kept for the next call. Shape (T,)."""
        key = (score.name, k)
        if key not in self._token_scores:
            values = np.full(self.sampled.shape, np.nan)
            fit = self.valid & ~self._too_few(score, k)
            if score.reads_sampled:
                fit &= (self.sampled > SENTINEL_CEILING) & (self.sampled <= LOGPROB_CEILING)
            if fit.any():
                values[fit] = score.of_tokens(self.logprobs[fit, :k], np.minimum(self.sampled[fit], 0.0))
            values.flags.writeable = False
            self._token_scores[key] = values
        return self._token_scores[key]

    def _too_few(self, score: Score, k: int) -> BoolArray:
        return self._usable < k if k >= score.min_k else np.ones(self.sampled.shape, dtype=np.bool_)

    def _reasons(self, score: Score, k: int, values: FloatArray) -> NDArray[np.object_]:
        missing = np.isnan(self.sampled) if score.reads_sampled else np.zeros(self.sampled.shape, np.bool_)
        if k > 0 or score.min_k > 0:
            missing |= self.given == 0
        reasons = np.full(self.lengths.shape, None, dtype=object)
        # From the least telling to the most telling: a later line overrules an earlier one.
        reasons[self.repetitive] = Reason.REPETITIVE_ANSWER
        reasons[np.isnan(values)] = Reason.SCORE_UNDEFINED
        reasons[self._any_token(self._too_few(score, k))] = Reason.LOGPROBS_TOO_FEW
        reasons[self._any_token(~self.valid)] = Reason.SCORE_UNDEFINED
        reasons[self._any_token(missing)] = Reason.LOGPROBS_MISSING
        reasons[self.blank | (self.lengths == 0)] = Reason.EMPTY_ANSWER
        return reasons

    def _any_token(self, flags: BoolArray) -> BoolArray:
        """For every answer: does the flag stand at any of its tokens? Shape (T,) -> (A,)."""
        running = np.concatenate([[0], np.cumsum(flags)])
        ends = np.cumsum(self.lengths)
        found: BoolArray = running[ends] > running[ends - self.lengths]
        return found
