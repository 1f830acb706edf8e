"""Pictures of what is gained: speedup over accuracy, and the plans beside one another."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from speceyes.evals.sweeps.charts.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SOFT,
    VERMILION,
    Chart,
    axes,
    legend,
)
from speceyes.evals.sweeps.operating import Point
from speceyes.evals.sweeps.outcomes import Against
from speceyes.evals.sweeps.published import PUBLISHED
from speceyes.evals.sweeps.sweep import Sweep
from speceyes.evals.sweeps.wording import wording


def speed_accuracy(swept: Sweep) -> Chart:
    """Speedup over the change of accuracy against the agent, beside the published points."""
    word, plan = wording(swept.outcomes.against), swept.options.plan
    title = f"Speedup over {word.accuracy} (plan {plan})"
    x_label = f"final {word.accuracy} minus the agent's (percentage points)"
    figure, ax = axes(x_label, "speedup over the agent (times)", title)
    curve = swept.curves[swept.reference]
    label = f"{swept.gates[swept.reference].setting.name}, every threshold"
    ax.plot(100 * curve.accuracy_change, curve.speedup, color=BLUE, linewidth=1.6, label=label)
    _front(ax, [point for point in swept.fronts[plan] if np.isfinite(point.figures["speedup"].value)])
    ax.plot(0, 1, "o", color=INK, label="the agent alone", linestyle="none", markersize=8)
    if swept.outcomes.against is Against.LABELS:
        for published, marker in zip(PUBLISHED, ("D", "v"), strict=True):
            ax.plot(
                published.change, published.speedup, marker, markerfacecolor="white", markeredgecolor=PURPLE,
                markeredgewidth=1.6, markersize=8, linestyle="none",
                label=f"published: {published.name}",
            )  # fmt: skip
    _draft_alone(ax, swept)
    ax.axvline(0, color=SOFT, linewidth=0.9)
    ax.axhline(1, color=SOFT, linewidth=0.9)
    legend(ax, "below")
    text = (
        "Right of the upright line the system is better than the agent alone, above the level one it is faster. Each "
        "threshold is a place on the line; the squares are settings that no other beats in both, picked on these same "
        "records and so a little flattering."
    )
    if swept.outcomes.against is Against.LABELS:
        text += " Published points were measured on other models and data."
    return Chart("speedup-over-accuracy", title, text, figure)


def plans(swept: Sweep) -> Chart:
    """Latency and work of each plan, at the default gate's fastest setting that is as accurate as the agent."""
    word = wording(swept.outcomes.against)
    title = "The plans: what a query waits for, and what it costs"
    figure, ax = axes("mean seconds a query", "", title)
    found = [point.figures for point in swept.default.values()]
    waits = np.array([figures["seconds"].value for figures in found])
    work = waits * [figures["speedup"].value / figures["work_speedup"].value for figures in found]
    place = np.arange(len(found), dtype=np.float64)
    style: dict[str, Any] = {"color": ORANGE, "hatch": "///", "edgecolor": "white"}
    ax.barh(place - 0.19, waits, 0.36, color=BLUE, label="latency: what a user waits")
    ax.barh(place + 0.19, work, 0.36, label="work: all model calls together", **style)
    end = max(*waits, *work, swept.costs.agent)
    for y, figures in zip(place, found, strict=True):
        accepted = 100 * figures["acceptance"].value
        said = f"{figures['speedup'].value:.2f} times as fast,\nthe draft answers {accepted:.0f} %"
        ax.text(1.04 * end, float(y), said, va="center", fontsize=8, color=INK)
    ax.axvline(swept.costs.agent, color=INK, linewidth=1.2, linestyle=(0, (2, 1.2)), label="the agent alone")
    ax.set_yticks(place, [plan.value for plan in swept.default])
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    ax.set_xlim(0, 1.4 * end)
    legend(ax, "below", ncols=3)
    text = (
        "Screening and drafting may run in any order or side by side, and the agent may start early. Overlap shortens "
        "the wait and costs model time. Each plan is at the default gate's fastest threshold whose "
        f"{word.accuracy} is not below the agent's."
    )
    return Chart("plans", title, text, figure)


def _front(ax: Axes, points: list[Point]) -> None:
    def parts(name: str, scale: float) -> tuple[list[float], np.ndarray]:
        found = [point.figures[name] for point in points]
        spread = np.array([[e.value - e.low, e.high - e.value] for e in found]).reshape(-1, 2).T
        return [scale * e.value for e in found], scale * np.nan_to_num(spread).clip(0)

    (x, x_bars), (y, y_bars) = parts("accuracy_change", 100.0), parts("speedup", 1.0)
    ax.errorbar(
        x, y, y_bars, x_bars, fmt="s", color=VERMILION, markersize=4.5, elinewidth=0.7, alpha=0.9,
        label="best of all gates, intervals",
    )  # fmt: skip


def _draft_alone(ax: Axes, swept: Sweep) -> None:
    outcomes, costs = swept.outcomes, swept.costs
    change = 100 * float(outcomes.draft_right.mean() - outcomes.agent_right.mean())
    if not costs.draft > 0:
        return
    speed, (low, high), (bottom, top) = costs.agent / costs.draft, ax.get_xlim(), ax.get_ylim()
    if low - 3 * (high - low) < change and speed < top + (top - bottom):
        ax.plot(change, speed, "X", color=GREY, label="the draft alone", linestyle="none", markersize=8)
    else:
        # Drawn to scale it would leave no room for the rest.
        ax.plot(
            [], [], "X", color=GREY, label=f"the draft alone, off the chart ({change:+.1f} points, {speed:.1f} times)"
        )
