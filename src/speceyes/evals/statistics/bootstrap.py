"""How far a figure might lie off by the luck of the draw: intervals from resampled queries.

Percentile intervals: Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979; Efron and Tibshirani, "An
Introduction to the Bootstrap", 1993, chapter 13. They are for reports. A guarantee needs exact binomial bounds, and
those are a calibration's business.

Whole queries are drawn, and all gates see the same draws. So the difference between two gates has an interval of its
own, usually far narrower than the intervals of the two would suggest (paired resampling). Queries about one image are
not independent of one another, so they are drawn together (cluster bootstrap: Davison and Hinkley, "Bootstrap Methods
and their Application", 1997, section 3.8).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from speceyes.gating.separability import FloatArray, IntArray

CHUNK_CELLS = 400_000
"""Weights that are held at a time: resamples times queries."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its percentile interval; NaN where it is not defined.

    Attributes:
        value: The figure.
        low: Lower end.
        high: Upper end.
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    @classmethod
    def of(cls, value: float, resampled: FloatArray, confidence: float) -> Estimate:
        """From resampled figures.

        Args:
            value: The figure itself.
            resampled: The same figure in each resample, NaN where it is not defined there. Shape (R,).
            confidence: Of the interval, for example 0.95.

        Returns:
            No interval where the figure is undefined, or in more than a tenth of the resamples: leaving those out
            would change what the interval is about.
        """
        defined = resampled[~np.isnan(resampled)]
        if math.isnan(value) or not defined.size or defined.size < 0.9 * resampled.size:
            return cls(value)
        # No interpolation between neighbours: some figures have no bound, and infinity less infinity is nothing.
        ordered, tail = np.sort(defined), (1.0 - confidence) / 2.0
        low, high = (max(math.ceil(share * defined.size - 1e-9) - 1, 0) for share in (tail, 1.0 - tail))
        return cls(value, float(ordered[low]), float(ordered[high]))

    def as_json(self) -> dict[str, float | None]:
        """`value`, `low`, `high`; null where undefined."""
        return {name: _finite(getattr(self, name)) for name in ("value", "low", "high")}


def resamples(groups: IntArray, replicates: int, seed: int) -> Iterator[FloatArray]:
    """How often each query is in each resample, some resamples at a time.

    Args:
        groups: The group of each query, numbered from 0: as many groups are drawn as there are, each with all its
            queries. One group alone has nothing to be resampled from: then there are no resamples. Shape (M,).
        replicates: Resamples in all.
        seed: The same seed gives the same resamples.

    Yields:
        Weights of shape (R, M); R differs.
    """
    rng = np.random.default_rng(seed)
    n = int(groups.max(initial=-1)) + 1
    at_a_time = max(1, CHUNK_CELLS // max(groups.size, 1))
    for start in range(0, replicates if n > 1 else 0, at_a_time):
        rows = min(at_a_time, replicates - start)
        drawn = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        yield counts[:, groups].astype(np.float64)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
