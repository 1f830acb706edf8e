"""Every gate's AUROC and AURC, with intervals from the same resamples of the queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from speceyes.evals.statistics.bootstrap import Estimate, resamples
from speceyes.evals.sweeps.measures import aurc, auroc, best_aurc
from speceyes.evals.sweeps.ranking import Ranking, RightAndWrong
from speceyes.gating.answers import BoolArray
from speceyes.gating.separability import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Separation:
    """How well one gate's score tells right drafts from wrong ones, among the drafts that have a score.

    Attributes:
        auroc: Chance that a right draft outscores a wrong one; undefined where all are right or all wrong.
        aurc: Average share of wrong drafts among the surest.
        excess_aurc: The same above the best possible ranking.
        auroc_lead: AUROC minus that of the reference gate, from the same resamples.
    """

    auroc: Estimate
    aurc: Estimate
    excess_aurc: Estimate
    auroc_lead: Estimate


def separations(
    rankings: Sequence[Ranking],
    right: BoolArray,
    groups: IntArray,
    *,
    reference: int = 0,
    replicates: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> list[Separation]:
    """Measure all gates.

    Args:
        rankings: One for each gate, over the same M queries.
        right: Which drafts are right. Shape (M,).
        groups: Queries that are drawn together, see `resamples`. Shape (M,).
        reference: Index of the gate that the others are compared with.
        replicates: Resamples of the queries; 0 for no intervals.
        confidence: Of the intervals.
        seed: Of the resamples.
        progress: Is told how much is done, from 0 to 1.
    """
    found = np.stack([_measured(ranking, right) for ranking in rankings])[:, :, 0]
    drawn: list[FloatArray] = []
    done = 0
    for weights in resamples(groups, replicates, seed):
        drawn.append(np.stack([_measured(ranking, right, weights) for ranking in rankings]))
        done += len(weights)
        progress(done / replicates)
    spread = np.concatenate(drawn, axis=-1) if drawn else np.empty((*found.shape, 0))
    leads, lead_spread = found[:, 0] - found[reference, 0], spread[:, 0] - spread[reference, 0]

    def estimates(gate: int) -> Separation:
        area, risk, excess = (Estimate.of(float(found[gate, i]), spread[gate, i], confidence) for i in range(3))
        return Separation(area, risk, excess, Estimate.of(float(leads[gate]), lead_spread[gate], confidence))

    return [estimates(gate) for gate in range(len(rankings))]


def _measured(ranking: Ranking, right: BoolArray, weights: FloatArray | None = None) -> FloatArray:
    """AUROC, AURC and its excess. Shape (3, R)."""
    counts = RightAndWrong.of(ranking, right, weights)
    area = aurc(counts)
    return np.stack([auroc(counts), area, np.maximum(area - best_aurc(counts), 0.0)])
