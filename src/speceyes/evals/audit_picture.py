"""A simulated audit as one picture: how fast faults of several sizes are noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, StrMethodFormatter
from numpy.typing import ArrayLike

from speceyes.errors import ConfigError
from speceyes.evals.audit_simulation import NEVER, Simulation

INK, SOFT, LINE = "#1c1e22", "#5f646d", "#e6e3db"
COLORS = ("#2f62c4", "#2c8a57", "#c2442d", "#8a5fb0", "#b98a1d", "#3f9aa8")


def draw_simulation(simulation: Simulation, path: Path, *, audits_per_day: float | None = None) -> None:
    """Write the picture; the file's ending names its format (png, svg, pdf).

    Args:
        simulation: What to draw.
        path: Where to.
        audits_per_day: For a second scale, in days.

    Raises:
        ConfigError: The file cannot be written.
    """
    figure = Figure(figsize=(9.2, 5.0), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    plan = simulation.plan
    axes.set_title(
        f"When would the audit notice? (promised: loss rate at most {100 * plan.alpha:.3g} %)", color=INK, loc="left"
    )
    named: set[str] = set()
    rates = list(dict.fromkeys(detection.world.rate for detection in simulation.detections))
    for detection, times in zip(simulation.detections, simulation.alarm_times, strict=True):
        if not len(times):
            continue
        found = np.sort(times[times != NEVER])
        x = np.concatenate([[1], found, [simulation.horizon]])
        y = np.concatenate([[0], np.arange(1, len(found) + 1), [len(found)]]) / len(times)
        world = detection.world
        color = COLORS[rates.index(world.rate) % len(COLORS)]
        style = "--" if world.begins else "-"
        label = f"rate {100 * world.rate:.3g} %"
        axes.plot(x, y, style, drawstyle="steps-post", color=color, linewidth=2, label="" if label in named else label)
        named.add(label)
    _dress(axes, simulation, audits_per_day)
    figure.supxlabel(_note(simulation), x=0.01, ha="left", fontsize=9, color=SOFT)
    try:
        figure.savefig(path, facecolor="white")
    except (OSError, ValueError) as error:
        raise ConfigError(f"--out {path}: the picture cannot be written ({error}).") from error


def _dress(axes: Axes, simulation: Simulation, audits_per_day: float | None) -> None:
    axes.set_xscale("log")
    axes.set_xlim(max(1, simulation.horizon / 5000), simulation.horizon)
    axes.set_ylim(0, 1.02)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.axhline(0.5, color=SOFT, linewidth=0.8, linestyle=":")
    axes.set_xlabel("audited queries since the fault", color=INK)
    axes.set_ylabel("simulated streams with an alarm", color=INK)
    axes.grid(color=LINE, linewidth=0.8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if audits_per_day:

        def to_days(audits: ArrayLike) -> ArrayLike:
            return np.asarray(audits, dtype=np.float64) / audits_per_day

        def to_audits(days: ArrayLike) -> ArrayLike:
            return np.asarray(days, dtype=np.float64) * audits_per_day

        days = axes.secondary_xaxis("top", functions=(to_days, to_audits))
        days.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        days.set_xlabel(f"days, at {audits_per_day:,.0f} audits a day", color=INK)
    late = sorted({detection.world.begins for detection in simulation.detections if detection.world.begins})
    axes.plot([], [], "-", color=SOFT, label="fault from the start")
    for begins in late:
        axes.plot([], [], "--", color=SOFT, label=f"fault after {begins:,} good audits")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))


def _note(simulation: Simulation) -> str:
    worst, plan = simulation.false_alarms[0], simulation.plan
    share, low, high = worst.test
    return (
        f"Without a fault, at a rate of exactly {100 * worst.rate:.3g} %, the test alarmed in {share:.1%} of "
        f"{simulation.streams:,} streams ({low:.1%} to {high:.1%}); promised: "
        f"{plan.delta / len(plan.thresholds):.1%} at most."
    )
