"""What is known of N queries: how sure the draft was, and whether accepting it loses; so for each closer look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from speceyes.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """C queries that the drafts of one depth answer at some thresholds.

    Each answers its query at the thresholds t with `beaten` < t <= `scores`: at one that is greater it is refused, at
    one that is not, an earlier draft answers.

    Attributes:
        scores: Of the drafts of this depth. (C,).
        beaten: The best score of the query's earlier drafts; NaN where none has a score. (C,).
        losses: Whether accepting the draft loses, by each risk. (R, C).
    """

    scores: FloatArray
    beaten: FloatArray
    losses: BoolArray

    def count(self, thresholds: FloatArray) -> tuple[IntArray, IntArray]:
        """How many answer at each threshold, and how many of these lose. (M,) -> (M,), (R, M)."""
        reached, lost = _reaching(self.scores, self.losses, thresholds)
        if np.isnan(self.beaten).all():  # first drafts, and there are many calls for these
            return reached, lost
        earlier, lost_earlier = _reaching(self.beaten, self.losses, thresholds)
        return reached - earlier, lost - lost_earlier


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """N queries and R risks. InputError where the shapes do not fit.

    A draft may be followed by others, each after one more closer look. All are held against the same threshold, and a
    query is answered by the first that reaches it. So as the threshold falls, a query once accepted stays accepted, but
    an earlier draft may come to answer it, which may lose where the later one does not.

    Attributes:
        scores: Each first draft's score; NaN where no threshold may accept it, since screening kept it back or it has
            no score. (N,).
        losses: Whether accepting it loses, by each risk; of no account where the score is NaN. (R, N).
        closer: The same of the drafts after one closer look, two, ...; these have no closer ones of their own.
    """

    scores: FloatArray
    losses: BoolArray
    closer: tuple[Outcomes, ...] = ()

    def __post_init__(self) -> None:
        if self.scores.ndim != 1 or self.losses.ndim != 2 or self.losses.shape[1] != len(self.scores):
            raise InputError(
                "Scores must have the shape (N,) and losses (R, N); "
                f"these have {self.scores.shape} and {self.losses.shape}."
            )
        if any(deeper.losses.shape != self.losses.shape or deeper.closer for deeper in self.closer):
            raise InputError("After each closer look the same queries and risks are needed, and no looks within looks.")

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def candidates(self) -> FloatArray:
        """Best scores of the queries of which some threshold accepts a draft, largest first. (C,)."""
        best = self.scores
        for deeper in self.closer:
            best = np.fmax(best, deeper.scores)  # the one that is no NaN
        return -np.sort(-best[~np.isnan(best)])

    @property
    def by_depth(self) -> Iterator[Candidates]:
        """Which queries the drafts of each depth answer at some threshold, first drafts first."""
        best: FloatArray = np.full(len(self), np.nan)
        for depth in (self, *self.closer):
            # NaN compares false, to either side
            known = ~np.isnan(depth.scores) & ~(depth.scores <= best)
            yield Candidates(depth.scores[known], best[known], depth.losses[:, known])
            best = np.fmax(best, depth.scores)

    def part(self, which: BoolArray) -> Outcomes:
        """Only these queries. `which` has the shape (N,)."""
        return Outcomes(self.scores[which], self.losses[:, which], tuple(deeper.part(which) for deeper in self.closer))

    def count(self, thresholds: ArrayLike) -> tuple[IntArray, IntArray]:
        """How many queries each threshold accepts (some draft's score >= threshold), and how many of these lose.

        Args:
            thresholds: In any order, finite. (M,).

        Returns:
            Accepted (M,), and lost by each risk (R, M).
        """
        at = np.asarray(thresholds, dtype=np.float64)
        first, *deeper = (depth.count(at) for depth in self.by_depth)
        accepted, lost = first
        for more, more_lost in deeper:
            accepted, lost = accepted + more, lost + more_lost
        return accepted, lost

    def answered_at(self, threshold: float) -> tuple[IntArray, BoolArray]:
        """What becomes of each query at one threshold.

        Returns:
            Of which depth the draft is that answers it, -1 where none does (N,), and whether that loses (R, N).
        """
        depth: IntArray = np.full(len(self), -1)
        lost = np.zeros_like(self.losses)
        for number, drafts in enumerate((self, *self.closer)):
            now = (depth < 0) & (drafts.scores >= threshold)
            depth[now], lost[:, now] = number, drafts.losses[:, now]
        return depth, lost


def _reaching(scores: FloatArray, losses: BoolArray, thresholds: FloatArray) -> tuple[IntArray, IntArray]:
    """How many scores are at least each threshold, and how many of these lose. (C,), (R, C), (M,) -> (M,), (R, M)."""
    # stable, so that ties keep their order; NaN goes last and is cut off
    order = np.argsort(scores, kind="stable")[: int((~np.isnan(scores)).sum())]
    below = np.searchsorted(scores[order], thresholds, side="left")
    lost = np.cumsum(np.pad(losses[:, order], ((0, 0), (1, 0))), axis=1, dtype=np.int64)
    reached: IntArray = (len(order) - below).astype(np.int64)
    return reached, lost[:, -1:] - lost[:, below]
