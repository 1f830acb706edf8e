"""Latency as a function of agentic depth: each tool call needs the turn before it, so time grows with their number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from speceyes.errors import InputError
from speceyes.evals.statistics.bootstrap import Estimate, resamples
from speceyes.evals.statistics.paired import CONFIDENCE, REPLICATES
from speceyes.gating.separability import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class DepthFit:
    """seconds = base + per_call * D, by least squares.

    Attributes:
        base: Seconds of a run without a tool call, a.
        per_call: Seconds that each further tool call costs, b.
        r_squared: Share of the times' variance that the line explains; NaN where the times do not differ.
        n: Runs.
        means: Under each depth that occurs: runs, and their mean seconds.
    """

    base: Estimate
    per_call: Estimate
    r_squared: float
    n: int
    means: dict[int, tuple[int, float]]

    def as_json(self) -> dict[str, Any]:
        """Plain values; null where undefined."""
        return {
            "base": self.base.as_json(),
            "per_call": self.per_call.as_json(),
            "r_squared": self.r_squared if math.isfinite(self.r_squared) else None,
            "n": self.n,
            "depths": [{"depth": d, "n": n, "seconds": s} for d, (n, s) in sorted(self.means.items())],
        }


def fit_depth(depths: IntArray, seconds: FloatArray, groups: IntArray, *, seed: int = 0) -> DepthFit:
    """Fit the line.

    The intervals are from resampled runs, so they hold also where deep runs scatter more than shallow ones, as they do.

    Args:
        depths: Tool calls of each run, D. Shape (N,).
        seconds: Its wall time. Shape (N,).
        groups: Which runs are drawn together, numbered from 0: those about one picture. Shape (N,).
        seed: The same seed gives the same intervals.

    Returns:
        Base and slope are NaN where all runs have the same depth: no line can be laid through one point.

    Raises:
        InputError: Lengths differ.
    """
    if not depths.shape == seconds.shape == groups.shape:
        raise InputError(f"{depths.size} depths, {seconds.size} times and {groups.size} groups do not fit together.")
    x = depths.astype(np.float64)
    base, slope = _line(x, seconds, np.ones((1, x.size)))
    drawn = [_line(x, seconds, weights) for weights in resamples(groups, REPLICATES, seed)]
    bases, slopes = (np.concatenate(parts) for parts in zip(*drawn, strict=True)) if drawn else (np.array([]),) * 2
    left, spread = seconds - base[0] - slope[0] * x, seconds - seconds.mean() if seconds.size else seconds
    total = float(spread @ spread)
    return DepthFit(
        Estimate.of(float(base[0]), bases, CONFIDENCE),
        Estimate.of(float(slope[0]), slopes, CONFIDENCE),
        1.0 - float(left @ left) / total if total > 0 else math.nan,
        int(x.size),
        {int(d): (int((depths == d).sum()), float(seconds[depths == d].mean())) for d in np.unique(depths)},
    )


def _line(x: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Intercept and slope of weighted least squares, one of each for every row of weights. Shapes (R,)."""
    n = weights.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_x, mean_y = weights @ x / n, weights @ y / n
        around = x[None, :] - mean_x[:, None]
        across = (weights * around * (y[None, :] - mean_y[:, None])).sum(axis=-1)
        width = (weights * around * around).sum(axis=-1)
        slope = np.where(width > 1e-9 * n, across / width, np.nan)
    return mean_y - slope * mean_x, slope
