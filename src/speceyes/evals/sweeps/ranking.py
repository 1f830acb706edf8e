"""Drafts from the surest to the least sure: sort once, then every threshold is a running total."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from speceyes.gating.answers import BoolArray
from speceyes.gating.separability import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Records with a score, surest first, and the thresholds that tell them apart.

    A threshold accepts all records with the same score together, so there are as many thresholds as distinct scores
    (g), and one more that accepts nothing.

    Attributes:
        order: Index of each record. Records without a score are not in it. Shape (n,).
        ends: How many records each distinct score accepts. Shape (g,).
        scores: The distinct scores, largest first. Shape (g,).
    """

    order: IntArray
    ends: IntArray
    scores: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Ranking:
        """Rank by score. `values`: NaN where a record has none. Shape (M,)."""
        scored = np.flatnonzero(~np.isnan(values))
        order = scored[np.argsort(-values[scored], kind="stable")]
        ranked = values[order]
        last_of_its_score = np.append(ranked[1:] != ranked[:-1], True)[: ranked.size]
        ends = np.flatnonzero(last_of_its_score) + 1
        return cls(order, ends, ranked[ends - 1])

    @property
    def thresholds(self) -> FloatArray:
        """Infinity, which accepts nothing, then the distinct scores. Shape (g + 1,)."""
        return np.concatenate([[np.inf], self.scores])

    def totals(self, columns: FloatArray) -> FloatArray:
        """For each threshold, the columns' sums over the records that it accepts.

        Args:
            columns: One value a record. Shape (..., M).

        Returns:
            Shape (..., g + 1), in the order of `thresholds`; the first is 0.
        """
        running = np.cumsum(columns[..., self.order], axis=-1, dtype=np.float64)
        totals = np.zeros((*columns.shape[:-1], self.ends.size + 1))
        totals[..., 1:] = running[..., self.ends - 1]
        return totals


@dataclass(frozen=True, slots=True, eq=False)
class RightAndWrong:
    """Running totals of right and of wrong drafts over the thresholds of a ranking, in R resamples.

    Attributes:
        right: Right drafts accepted at each threshold. Shape (R, g + 1).
        wrong: Wrong ones. Shape (R, g + 1).
    """

    right: FloatArray
    wrong: FloatArray

    @classmethod
    def of(cls, ranking: Ranking, right: BoolArray, weights: FloatArray | None = None) -> RightAndWrong:
        """Count.

        Args:
            ranking: Of the M records.
            right: Which drafts are right. Shape (M,).
            weights: How often each record is in each resample. Shape (R, M). None: once, in one "resample".
        """
        counts = np.ones((1, right.size)) if weights is None else weights
        hits = ranking.totals(counts * right)
        return cls(hits, ranking.totals(counts) - hits)
