"""Operating points: one gate at one threshold under one plan, with its figures and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speceyes.evals.statistics.bootstrap import Estimate, resamples
from speceyes.evals.sweeps.curves import Curve, Ledger
from speceyes.evals.sweeps.grid import GateSetting
from speceyes.evals.sweeps.pareto import pareto_front, thinned
from speceyes.gating import SCORES
from speceyes.gating.separability import FloatArray, IntArray
from speceyes.scheduling import Plan

FIGURES = tuple(name for name in Curve.__slots__ if name != "thresholds")
MOST_POINTS = 16
"""Points of a front that are kept."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One gate at one threshold.

    Attributes:
        gate: Its index among the gates swept.
        threshold: Infinity accepts nothing.
    """

    gate: int
    threshold: float


@dataclass(frozen=True, slots=True)
class Point:
    """An operating point.

    Attributes:
        setting: The gate.
        plan: The plan.
        threshold: On the raw score; infinity accepts nothing.
        figures: Those of `Curve`, by name, with intervals.
    """

    setting: GateSetting
    plan: Plan
    threshold: float
    figures: dict[str, Estimate]

    @property
    def squashed(self) -> float | None:
        """The threshold between 0 and 1, as the score squashes it; None where it has no such scale."""
        if self.setting.score not in SCORES or not math.isfinite(self.threshold):
            return None
        return float(SCORES[self.setting.score].squash(self.threshold))

    def as_json(self) -> dict[str, Any]:
        return {
            "score": self.setting.score,
            "aggregate": self.setting.aggregate,
            "k": self.setting.k,
            "plan": self.plan.value,
            "threshold": self.threshold if math.isfinite(self.threshold) else None,
            "squashed_threshold": self.squashed,
            **{name: figure.as_json() for name, figure in self.figures.items()},
        }


def fastest_as_accurate(curves: Sequence[Curve]) -> Choice:
    """The fastest setting whose final accuracy is not below the agent's, as measured on the record.

    Every curve begins with accept-nothing, so there always is one.
    """
    # Among settings as fast as one another the more accurate one is better, and then the first.
    best, best_key = Choice(0, math.inf), (-math.inf, -math.inf)
    for gate, curve in enumerate(curves):
        speed = np.where(curve.accuracy_change >= 0, curve.speedup, -np.inf)
        for index in np.flatnonzero(speed == speed.max()):
            key = (float(speed[index]), float(curve.accuracy_change[index]))
            if key > best_key:
                best, best_key = Choice(gate, float(curve.thresholds[index])), key
    return best


def front(curves: Sequence[Curve], most: int = MOST_POINTS) -> list[Choice]:
    """The settings that none beats in both speed and final accuracy, fastest first; at most so many, evenly spread."""
    gates = np.repeat(np.arange(len(curves)), [curve.thresholds.size for curve in curves])
    thresholds = np.concatenate([curve.thresholds for curve in curves])
    speed = np.concatenate([curve.speedup for curve in curves])
    found = pareto_front(speed, np.concatenate([curve.final_accuracy for curve in curves]))
    return [Choice(int(gates[i]), float(thresholds[i])) for i in found[thinned(found.size, most)]]


def measure_points(
    choices: Sequence[Choice],
    settings: Sequence[GateSetting],
    values: Sequence[FloatArray],
    ledger: Ledger,
    groups: IntArray,
    *,
    replicates: int,
    confidence: float,
    seed: int,
) -> list[Point]:
    """The figures of chosen points, with percentile intervals: the threshold is held, the queries are resampled.

    Args:
        choices: The points.
        settings: All gates swept.
        values: Each gate's scores. Shape (M,) each.
        ledger: Of the plan.
        groups: Queries that are drawn together, see `resamples`. Shape (M,).
        replicates: Resamples; 0 for no intervals.
        confidence: Of the intervals.
        seed: Of the resamples.
    """
    passing = [values[choice.gate] >= choice.threshold for choice in choices]
    found = [ledger.at(passes) for passes in passing]
    drawn: list[list[FloatArray]] = [[] for _ in choices]
    for weights in resamples(groups, replicates, seed):
        for sink, passes in zip(drawn, passing, strict=True):
            curve = ledger.at(passes, weights)
            sink.append(np.stack([getattr(curve, name) for name in FIGURES]))

    def point(index: int) -> Point:
        spread = np.concatenate(drawn[index], axis=-1) if drawn[index] else np.empty((len(FIGURES), 0))
        figures = {
            name: Estimate.of(float(getattr(found[index], name)[0]), spread[row], confidence)
            for row, name in enumerate(FIGURES)
        }
        return Point(settings[choices[index].gate], ledger.plan, choices[index].threshold, figures)

    return [point(index) for index in range(len(choices))]
