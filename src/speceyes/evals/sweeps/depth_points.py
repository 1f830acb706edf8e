"""One threshold with so many closer looks allowed: its figures, and how sure they are.

Each figure is the ratio of two sums over the queries, so its intervals come from the same sums over resampled queries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from speceyes.evals.statistics.bootstrap import Estimate, resamples
from speceyes.evals.sweeps.depth_curves import Drafts
from speceyes.gating.answers import BoolArray
from speceyes.gating.separability import FloatArray, IntArray

Ratio = tuple[FloatArray, FloatArray]
"""What each query adds to the numerator and to the denominator of a figure. Shapes (M,)."""


@dataclass(frozen=True, slots=True)
class Sureness:
    """How intervals are made.

    Attributes:
        groups: Queries that are drawn together, see `resamples`. Shape (M,).
        replicates: Resamples; 0 for no intervals.
        confidence: Of the intervals.
        seed: Of the resamples.
    """

    groups: IntArray
    replicates: int
    confidence: float
    seed: int

    def of(self, ratios: Mapping[str, Ratio]) -> dict[str, Estimate]:
        """Each figure with its interval; undefined where its denominator is 0."""
        above = np.stack([ratio[0] for ratio in ratios.values()])
        below = np.stack([ratio[1] for ratio in ratios.values()])
        found = _quotient(above.sum(axis=-1), below.sum(axis=-1))
        drawn = [_quotient(above @ w.T, below @ w.T) for w in resamples(self.groups, self.replicates, self.seed)]
        spread = np.concatenate(drawn, axis=-1) if drawn else np.empty((len(found), 0))
        return {
            name: Estimate.of(float(value), more, self.confidence)
            for name, value, more in zip(ratios, found, spread, strict=True)
        }


@dataclass(frozen=True, slots=True)
class DepthPoint:
    """One threshold with so many looks allowed.

    Attributes:
        max_depth: Looks that are allowed.
        threshold: On the raw score; infinity accepts nothing.
        accepted: Share of all queries that is answered at depth 0, 1, ...
        figures: `acceptance`, `final_accuracy`, `accuracy_change`, `excess_loss`, `seconds` and `speedup`, as `Curve`
            has them.
        won: What all looks together have won: its `share` of the queries that the first look left over, the `accuracy`
            on it, the `agent_accuracy` on the same, the mean `seconds` of the looks that won it, and the
            `agent_seconds` that they took the place of.
        won_at: The same for each depth from 1.
    """

    max_depth: int
    threshold: float
    accepted: Sequence[Estimate]
    figures: Mapping[str, Estimate]
    won: Mapping[str, Estimate]
    won_at: Sequence[Mapping[str, Estimate]]

    @classmethod
    def of(cls, drafts: Drafts, depth: int, threshold: float, sureness: Sureness) -> DepthPoint:
        """Measure it: the threshold is held, the queries are resampled."""
        answered = drafts.answered_at(threshold, depth)
        drafted, place = answered >= 0, (np.maximum(answered, 0), np.arange(answered.size))
        right = np.where(drafted, drafts.right[place], drafts.agent_right)
        seconds = np.where(drafted, drafts.spent[place], drafts.refused(depth))
        one = np.ones(answered.size)
        figures: dict[str, Ratio] = {
            "acceptance": (drafted.astype(float), one),
            "final_accuracy": (right.astype(float), one),
            "accuracy_change": (right.astype(float) - drafts.agent_right, one),
            "excess_loss": ((drafted & ~right & drafts.agent_right).astype(float), drafted.astype(float)),
            "seconds": (seconds, one),
            "speedup": (drafts.agent_seconds, seconds),
        }
        accepted = {str(j): ((answered == j).astype(float), one) for j in range(depth + 1)}

        def won(which: BoolArray) -> dict[str, Estimate]:
            count = which.astype(float)
            return sureness.of(
                {
                    "share": (count, (answered != 0).astype(float)),
                    "accuracy": (count * right, count),
                    "agent_accuracy": (count * drafts.agent_right, count),
                    "seconds": (count * (seconds - drafts.spent[0]), count),
                    "agent_seconds": (count * drafts.agent_seconds, count),
                }
            )

        return cls(
            max_depth=depth,
            threshold=threshold,
            accepted=tuple(sureness.of(accepted).values()),
            figures=sureness.of(figures),
            won=won(answered > 0),
            won_at=[won(answered == j) for j in range(1, depth + 1)],
        )

    def as_json(self) -> dict[str, object]:
        """The same as plain dictionaries; null for what is undefined."""

        def plain(figures: Mapping[str, Estimate]) -> dict[str, object]:
            return {name: figure.as_json() for name, figure in figures.items()}

        return {
            "max_depth": self.max_depth,
            "threshold": self.threshold if math.isfinite(self.threshold) else None,
            "accepted_at": [share.as_json() for share in self.accepted],
            **plain(self.figures),
            "won": plain(self.won),
            "won_at": [plain(part) for part in self.won_at],
        }


def _quotient(above: FloatArray, below: FloatArray) -> FloatArray:
    found: FloatArray = np.divide(above, below, out=np.full(above.shape, np.nan), where=below != 0)
    return found
