"""Pictures of the default gate's scores: where right and wrong drafts lie, and what a threshold does."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import gaussian_kde

from speceyes.evals.sweeps.charts.style import (
    BLUE,
    GREEN,
    INK,
    LINES,
    VERMILION,
    Chart,
    axes,
    in_percent,
    legend,
    nothing,
)
from speceyes.evals.sweeps.sweep import Gate, Sweep
from speceyes.evals.sweeps.wording import wording
from speceyes.gating.separability import FloatArray

NO_SCORES = "No draft of this run has a score."
MOST_STEPS = 400


def score_density(swept: Sweep) -> Chart:
    """KDE of the scores of right and of wrong drafts."""
    gate, word = swept.gates[swept.reference], wording(swept.outcomes.against)
    title = f"Scores of {word.right} and {word.wrong} drafts"
    figure, ax = axes(score_label(gate), "share of drafts per unit of score", title)
    scores = gate.values[~np.isnan(gate.values)]
    if not scores.size:
        nothing(ax, NO_SCORES)
    else:
        low, high = scores.min(), np.percentile(scores, 99.5)
        margin = 0.12 * (high - low) or 1.0
        grid = np.linspace(low - margin, high + margin, 400)
        right = swept.outcomes.draft_right
        for flags, name, color, style in ((right, word.right, BLUE, "-"), (~right, word.wrong, VERMILION, (0, (6, 2)))):
            chosen = gate.values[flags & ~np.isnan(gate.values)]
            label = f"{name}, {chosen.size} drafts"
            density = kernel_density(chosen, grid)
            if density is None:
                ax.plot(chosen, np.zeros(chosen.size), "|", color=color, markersize=14, label=label, clip_on=False)
                continue
            height = density * chosen.size / scores.size
            ax.plot(grid, height, color=color, linestyle=style, linewidth=1.8, label=label)
            ax.fill_between(grid, height, color=color, alpha=0.13, linewidth=0)
        mark_threshold(ax, swept)
        ax.set_ylim(bottom=0)
        legend(ax)
    text = (
        f"How the gate's score is spread over {word.right} and {word.wrong} drafts (smoothed with a Gaussian kernel; "
        "the areas are in proportion to how many there are). The less the two hills overlap, the better a threshold "
        "can tell them apart: everything right of it is accepted."
    )
    return Chart("score-density", title, text, figure)


def rolling_accuracy(swept: Sweep) -> Chart:
    """Accuracy of draft and agent along the ranking."""
    gate, word = swept.gates[swept.reference], wording(swept.outcomes.against)
    title = f"{word.accuracy.capitalize()} from the surest draft to the least sure"
    figure, ax = axes("share of drafts, surest first (%)", f"{word.accuracy} within the window (%)", title)
    n = gate.ranking.order.size
    window = max(1, min(n, max(10, n // 15)))
    if n < 2:
        nothing(ax, NO_SCORES if not n else "One draft has no ranking.")
    else:
        middle = (np.arange(n - window + 1) + window / 2) / n
        for flags, name, color, style in (
            (swept.outcomes.draft_right, "draft", BLUE, "-"),
            (swept.outcomes.agent_right, "agent, same queries", INK, (0, (2, 1.2))),
        ):
            share = rolling(tie_means(gate, flags.astype(np.float64)), window)
            marker = "o" if share.size == 1 else None
            ax.plot(middle, share, color=color, linestyle=style, linewidth=1.8, label=name, marker=marker)
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlim(0, 1)
        in_percent(ax, "xy")
        legend(ax, loc="lower left")
    text = (
        f"Drafts in the order of their score, and the {word.accuracy} among the {window} around each place. A useful "
        "score makes the draft's line fall from left to right; left of where the lines part, the draft costs nothing."
    )
    return Chart("rolling-accuracy", title, text, figure)


def over_threshold(swept: Sweep) -> Chart:
    """Selective accuracy, final accuracy and acceptance over the threshold."""
    gate, curve, word = swept.gates[swept.reference], swept.curves[swept.reference], wording(swept.outcomes.against)
    title = f"What a threshold does (plan {swept.options.plan})"
    figure, ax = axes(f"threshold on the {score_label(gate)}", "share (%)", title)
    if not gate.ranking.scores.size:
        nothing(ax, NO_SCORES)
    else:
        steps = np.unique(np.linspace(1, curve.thresholds.size - 1, MOST_STEPS).astype(int))
        lines = (
            (curve.selective_accuracy, f"{word.accuracy} of accepted drafts", LINES[0]),
            (curve.final_accuracy, f"{word.accuracy} of the whole system", LINES[2]),
            (curve.acceptance, "acceptance: share the draft answers", LINES[1]),
        )
        for values, name, (color, style, _) in lines:
            ax.plot(curve.thresholds[steps], values[steps], color=color, linestyle=style, linewidth=1.8, label=name)
        ax.axhline(
            swept.outcomes.agent_right.mean(), color=INK, linewidth=1, linestyle=(0, (1, 1.5)), label="the agent alone"
        )
        mark_threshold(ax, swept)
        high = np.percentile(gate.ranking.scores, 99.5)
        ax.set_xlim(gate.ranking.scores.min(), high if high > gate.ranking.scores.min() else None)
        ax.set_ylim(-0.02, 1.02)
        in_percent(ax, "y")
        legend(ax, "below")
    text = (
        "A higher threshold accepts fewer drafts, and surer ones. The whole system answers by the draft where it is "
        "accepted and by the agent elsewhere, so at the far right it is the agent alone."
    )
    return Chart("accuracy-over-threshold", title, text, figure)


def score_label(gate: Gate) -> str:
    """The score as an axis names it."""
    how = {"min": "least token", "mean": "mean over tokens", "bottom": "mean of the lowest fifth"}
    setting = gate.setting
    return f"score: {setting.score}, {how.get(setting.aggregate, setting.aggregate)}, K = {setting.k} (no unit)"


def kernel_density(values: FloatArray, grid: FloatArray) -> FloatArray | None:
    """Gaussian KDE with Scott's rule, at the grid's points; None for too few or too equal values to smooth."""
    if values.size < 3 or np.ptp(values) <= 1e-9 * max(1.0, float(np.abs(values).max())):
        return None
    found: FloatArray = gaussian_kde(values)(grid)
    return found


def tie_means(gate: Gate, values: FloatArray) -> FloatArray:
    """Values along the ranking, those of equal scores replaced by their mean, since their order means nothing."""
    sizes = np.diff(gate.ranking.ends, prepend=0)
    means: FloatArray = np.repeat(np.diff(gate.ranking.totals(values)) / sizes, sizes)
    return means


def rolling(values: FloatArray, window: int) -> FloatArray:
    """Mean of each window. Shape (n,) -> (n - window + 1,)."""
    running = np.concatenate([[0.0], np.cumsum(values)])
    means: FloatArray = (running[window:] - running[:-window]) / window
    return means


def mark_threshold(ax: Axes, swept: Sweep) -> None:
    """The default gate's own fastest threshold that is as accurate as the agent."""
    point = swept.default[swept.options.plan]
    if math.isfinite(point.threshold):
        label = f"fastest that is as good as the agent: {point.threshold:.3g}"
        ax.axvline(point.threshold, color=GREEN, linewidth=1.4, linestyle=(0, (4, 2)), label=label)
