"""A picture of what closer looks add: who answers at each threshold, and how well."""

from __future__ import annotations

import math

import numpy as np

from speceyes.evals.sweeps.charts.scores import MOST_STEPS, NO_SCORES, score_label
from speceyes.evals.sweeps.charts.style import (
    BLUE,
    GREEN,
    INK,
    PURPLE,
    VERMILION,
    Chart,
    axes,
    in_percent,
    legend,
    nothing,
)
from speceyes.evals.sweeps.depth import DepthSweep
from speceyes.evals.sweeps.sweep import Sweep
from speceyes.evals.sweeps.wording import wording

_AREAS = (("#cfe3f1", ""), ("#f7d9c4", "///"), ("#cdeadf", "..."), ("#e8d3e6", "xxx"))
"""Fill and hatching of each depth; the deepest share the last."""


def closer_looks(swept: Sweep, found: DepthSweep) -> Chart:
    """Acceptance by depth and final accuracy over the threshold."""
    word, most = wording(swept.outcomes.against), len(found.curves) - 1
    title = f"What closer looks of the draft model add (up to {most})"
    figure, ax = axes(
        f"threshold on the {score_label(swept.gates[swept.reference])}", "share of all queries (%)", title
    )
    deepest, first = found.curves[-1], found.curves[0]
    if deepest.thresholds.size < 2:
        nothing(ax, NO_SCORES)
    else:
        steps = np.unique(np.linspace(1, deepest.thresholds.size - 1, MOST_STEPS).astype(int))
        at = deepest.thresholds[steps]
        below = np.zeros(at.size)
        for depth, share in enumerate(deepest.accepted):
            fill, hatch = _AREAS[min(depth, len(_AREAS) - 1)]
            ax.fill_between(
                at, below, below + share[steps], facecolor=fill, hatch=hatch, edgecolor="white", linewidth=0,
                label="answered at the first look" if depth == 0 else f"after {depth} closer look{'s' * (depth > 1)}",
            )  # fmt: skip
            below = below + share[steps]
        for curve, name, color, style in (
            (first, f"final {word.accuracy} without looks", PURPLE, (0, (6, 2, 1.5, 2))),
            (deepest, f"final {word.accuracy} with them", BLUE, "-"),
        ):
            if curve.thresholds.size < 2:
                continue
            line = np.unique(np.linspace(1, curve.thresholds.size - 1, MOST_STEPS).astype(int))
            ax.plot(
                curve.thresholds[line],
                curve.final_accuracy[line],
                color=color,
                linestyle=style,
                linewidth=1.8,
                label=name,
            )
        agent = float(deepest.final_accuracy[0])
        ax.axhline(agent, color=INK, linewidth=1, linestyle=(0, (1, 1.5)), label="the agent alone")
        for point, color in ((found.as_accurate[0], VERMILION), (found.as_accurate[-1], GREEN)):
            if math.isfinite(point.threshold):
                label = f"as good as the agent, {point.max_depth or 'no'} look{'s' * (point.max_depth != 1)}"
                ax.axvline(point.threshold, color=color, linewidth=1.4, linestyle=(0, (4, 2)), label=label)
        high = float(np.percentile(at, 99.5))
        ax.set_xlim(float(at.min()), high if high > at.min() else None)
        ax.set_ylim(-0.02, 1.02)
        in_percent(ax, "y")
        legend(ax, "below")
    text = (
        "A query that is refused at the first look goes to the draft model again, which looks closer by itself; the "
        "same threshold decides. The areas are who answers, the agent all that is above them; the lines are how good "
        "the whole system is then. A lower threshold leaves more to the first look."
    )
    return Chart("closer-looks", title, text, figure)
