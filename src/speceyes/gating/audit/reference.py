"""What the calibration saw, as counts: the picture that the traffic in service is compared with."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from speceyes.errors import ConfigError, InputError

BINS = 10
"""Intervals of the score that are compared, at most: each holds a tenth of the calibration's scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Counts from the calibration's records.

    Attributes:
        n: Queries.
        screened: Of these, let through by phase I.
        accepted: Of all n, accepted at each of the plan's thresholds.
        score_edges: Inner edges of the score's intervals, strictly ascending; a score on an edge belongs above it.
        score_counts: Drafts of queries that phase I let through, by interval from low to high; last, those without
            a score. Two more than there are edges.
    """

    n: int
    screened: int
    accepted: tuple[int, ...]
    score_edges: tuple[float, ...]
    score_counts: tuple[int, ...]

    def __post_init__(self) -> None:
        counts = (self.screened, *self.accepted, sum(self.score_counts), *self.score_counts)
        if self.n < 1 or not all(0 <= count <= self.n for count in counts):
            raise ConfigError(f"A reference over {self.n} queries needs at least one, and counts between 0 and them.")
        if len(self.score_counts) != len(self.score_edges) + 2:
            raise ConfigError("A reference needs two more counts of scores than edges.")
        if list(self.score_edges) != sorted(set(self.score_edges)):
            raise ConfigError(f"The edges of a reference's scores must be strictly ascending: {self.score_edges}.")

    @classmethod
    def of(cls, scores: ArrayLike, screened: ArrayLike, thresholds: Sequence[float], bins: int = BINS) -> Reference:
        """Count what the calibration's records hold.

        Args:
            scores: Score of each draft, NaN where it has none. Shape (N,).
            screened: Whether phase I let the query through. Shape (N,).
            thresholds: Those of the plan.
            bins: Intervals of the score, at most; ties make it fewer.

        Raises:
            InputError: The shapes differ, or there is no query.
        """
        values, through = np.asarray(scores, dtype=np.float64), np.asarray(screened, dtype=np.bool_)
        if values.shape != through.shape or values.ndim != 1 or not len(values):
            raise InputError(f"Scores and screenings must be of one length: {values.shape} and {through.shape}.")
        known = values[through & np.isfinite(values)]
        inner = np.linspace(0.0, 1.0, bins + 1)[1:-1]
        # An edge at the least score would leave nothing below it
        edges = np.unique(np.quantile(known, inner, method="higher")) if len(known) else np.empty(0)
        edges = edges[edges > known.min()] if len(known) else edges
        counts = np.bincount(np.searchsorted(edges, known, side="right"), minlength=len(edges) + 1)
        return cls(
            n=len(values),
            screened=int(through.sum()),
            accepted=tuple(int((through & (values >= threshold)).sum()) for threshold in thresholds),
            score_edges=tuple(float(edge) for edge in edges),
            score_counts=(*(int(count) for count in counts), int(through.sum()) - len(known)),
        )

    def interval(self, score: float | None) -> int:
        """Index into `score_counts`."""
        return len(self.score_edges) + 1 if score is None else bisect_right(self.score_edges, score)
