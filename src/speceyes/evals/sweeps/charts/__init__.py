"""The sweep in pictures. Needs matplotlib and SciPy, so it is imported only where pictures are wanted."""

from __future__ import annotations

from collections.abc import Iterator

from speceyes.evals.sweeps.charts.depth import closer_looks
from speceyes.evals.sweeps.charts.gates import k_ablation, risk_coverage, roc
from speceyes.evals.sweeps.charts.scores import over_threshold, rolling_accuracy, score_density
from speceyes.evals.sweeps.charts.speed import plans, speed_accuracy
from speceyes.evals.sweeps.charts.style import Chart
from speceyes.evals.sweeps.sweep import Sweep

CHARTS = (speed_accuracy, risk_coverage, score_density, over_threshold, rolling_accuracy, roc, k_ablation, plans)
"""Those of every sweep, in the order of the page."""

__all__ = ["CHARTS", "Chart", "count", "draw"]


def count(swept: Sweep) -> int:
    """How many pictures there are of it."""
    return len(CHARTS) + (swept.depth is not None)


def draw(swept: Sweep) -> Iterator[Chart]:
    """All pictures, one after another; the one of closer looks only where some were recorded."""
    for chart in CHARTS:
        yield chart(swept)
    if swept.depth is not None:
        yield closer_looks(swept, swept.depth)
