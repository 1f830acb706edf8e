"""Worlds whose true risk is known at every threshold, to see how often a calibration promises too much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from speceyes.gating.certify import Outcomes, Risk, losses_of

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class World:
    """Scores lie in cells. Cell i holds scores from i to i + 1, or only the score i where they are tied.

    Attributes:
        name: For test ids.
        n: Queries of one calibration.
        masses: Chance of each cell; what is missing to 1 has no score. (C,).
        excess: In each cell, the chance that the draft is wrong and the agent right. (C,).
        both_wrong: That both are wrong, and differ in half of these cases. (C,).
        tied: Whether all scores of a cell are the same.
    """

    name: str
    n: int
    masses: FloatArray
    excess: FloatArray
    both_wrong: FloatArray
    tied: bool = False

    def draw(self, rng: np.random.Generator, risks: tuple[Risk, ...], n: int | None = None) -> Outcomes:
        """A fresh sample, with a row of losses for each risk."""
        size = n or self.n
        chances = np.append(self.masses, max(0.0, 1.0 - self.masses.sum()))
        cells = rng.choice(len(chances), size, p=chances / chances.sum())
        known = cells < len(self.masses)
        at = np.where(known, cells, 0)
        luck, half = rng.random(size), rng.random(size) < 0.5
        excess = luck < self.excess[at]
        both_wrong = ~excess & (luck < self.excess[at] + self.both_wrong[at])
        right = {"draft_right": ~excess & ~both_wrong, "agent_right": ~both_wrong}
        agrees = ~excess & ~(both_wrong & half)
        within = 0.0 if self.tied else rng.random(size)
        scores = np.where(known, cells + within, np.nan)
        return Outcomes(scores, np.array([losses_of(risk, agrees=agrees, **right) for risk in risks]))

    def true_risk(self, thresholds: ArrayLike, risk: Risk) -> FloatArray:
        """Among all queries that a threshold accepts, the share that loses; 0 where it accepts none. (M,) -> (M,)."""
        cells, at = np.arange(len(self.masses)), np.asarray(thresholds, dtype=np.float64)[:, None]
        share = (cells >= at).astype(float) if self.tied else np.clip(cells + 1 - at, 0.0, 1.0)
        loss = {
            Risk.EXCESS: self.excess,
            Risk.DISAGREEMENT: self.excess + self.both_wrong / 2,
            Risk.ERROR: self.excess + self.both_wrong,
        }[risk]
        accepted = share @ self.masses
        risks: FloatArray = (share @ (self.masses * loss)) / np.where(accepted > 0.0, accepted, 1.0)
        return risks


def world(
    name: str, n: int, masses: ArrayLike, excess: ArrayLike, both_wrong: ArrayLike = 0.0, tied: bool = False
) -> World:
    """A world; single numbers hold for all cells, and masses are scaled to 0.8."""
    weights = np.asarray(masses, dtype=np.float64)
    return World(
        name,
        n,
        0.8 * weights / weights.sum(),
        np.broadcast_to(np.asarray(excess, dtype=np.float64), weights.shape).copy(),
        np.broadcast_to(np.asarray(both_wrong, dtype=np.float64), weights.shape).copy(),
        tied,
    )
