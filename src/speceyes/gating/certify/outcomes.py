"""What is known of N queries: how sure the draft was, and whether accepting it loses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from speceyes.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """N queries and R risks. InputError where the shapes do not fit.

    Attributes:
        scores: Each draft's score; NaN where no threshold may accept it, since screening kept it back or it has no
            score. (N,).
        losses: Whether accepting it loses, by each risk; of no account where the score is NaN. (R, N).
    """

    scores: FloatArray
    losses: BoolArray

    def __post_init__(self) -> None:
        if self.scores.ndim != 1 or self.losses.ndim != 2 or self.losses.shape[1] != len(self.scores):
            raise InputError(
                "Scores must have the shape (N,) and losses (R, N); "
                f"these have {self.scores.shape} and {self.losses.shape}."
            )

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def candidates(self) -> FloatArray:
        """Scores of the drafts that some threshold accepts, largest first. (C,)."""
        known = self.scores[~np.isnan(self.scores)]
        return -np.sort(-known)

    def part(self, which: BoolArray) -> Outcomes:
        """Only these queries. `which` has the shape (N,)."""
        return Outcomes(self.scores[which], self.losses[:, which])

    def count(self, thresholds: ArrayLike) -> tuple[IntArray, IntArray]:
        """How many queries each threshold accepts (score >= threshold), and how many of these lose.

        Args:
            thresholds: In any order. (M,).

        Returns:
            Accepted (M,), and lost by each risk (R, M).
        """
        # stable, so that ties keep their order; NaN goes last and is cut off
        order = np.argsort(self.scores, kind="stable")[: len(self.candidates)]
        below = np.searchsorted(self.scores[order], np.asarray(thresholds, dtype=np.float64), side="left")
        lost = np.cumsum(np.pad(self.losses[:, order], ((0, 0), (1, 0))), axis=1, dtype=np.int64)
        accepted: IntArray = (len(order) - below).astype(np.int64)
        return accepted, lost[:, -1:] - lost[:, below]
