"""Where the time goes: mean seconds a question, phase by phase, one bar a system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from speceyes.evals.reporting.names import PHASES, system_words
from speceyes.evals.reporting.plots.axes import WIDTH, ticks, x_scale
from speceyes.evals.reporting.plots.axes import svg as draw
from speceyes.evals.reporting.text import html_text

ROW, NAMES, VALUES = 34.0, 168.0, 64.0
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Spent:
    """One bar.

    Attributes:
        system: Whose.
        phases: Mean seconds a question of each phase.
        seconds: Mean seconds a question in all; what no phase accounts for is drawn as the rest.
    """

    system: str
    phases: Mapping[str, float]
    seconds: float


def phases_plot(bars: Sequence[Spent], label: str) -> str:
    """The picture; empty where nothing was timed."""
    longest = max((bar.seconds for bar in bars), default=0.0)
    if longest <= 0:
        return ""
    end = WIDTH - VALUES
    x = x_scale(0.0, longest, left=NAMES)
    scale = (end - NAMES) / longest
    height = 10 + ROW * len(bars) + 42
    base = 6 + ROW * len(bars)
    parts = [
        f'<line class="grid" x1="{NAMES + value * scale:.1f}" x2="{NAMES + value * scale:.1f}" y1="4" y2="{base:.1f}"/>'
        f'<text class="tick" x="{NAMES + value * scale:.1f}" y="{base + 16:.1f}" text-anchor="middle">{value:g}</text>'
        for value in ticks(x.low, x.high)
    ]
    for row, bar in enumerate(bars):
        parts.append(_bar(bar, 6 + ROW * row, scale))
    parts.append(
        f'<text class="name" x="{(NAMES + end) / 2:.1f}" y="{base + 36:.1f}" text-anchor="middle">'
        "mean seconds a question</text>"
    )
    return draw("".join(parts), label, height=height)


def phase_names(bars: Sequence[Spent]) -> list[tuple[str, str]]:
    """(style, words) of the phases that occur, for the legend."""
    names = [name for name in PHASES if any(bar.phases.get(name, 0.0) > 0 for bar in bars)]
    named = [(f"p-{name.replace('_', '-')}", PHASES[name]) for name in names]
    if any(_rest(bar) > 0.01 * bar.seconds for bar in bars):
        named.append(("p-other", "not told apart"))
    return named


def _rest(bar: Spent) -> float:
    return max(0.0, bar.seconds - sum(bar.phases.get(name, 0.0) for name in PHASES))


def _bar(bar: Spent, y: float, scale: float) -> str:
    parts, at = [], NAMES
    for name in (*PHASES, OTHER):
        spent = _rest(bar) if name == OTHER else bar.phases.get(name, 0.0)
        if spent <= 0:
            continue
        width = spent * scale
        said = f"{system_words(bar.system)}, {PHASES.get(name, 'not told apart')}: {spent:.3g} s"
        parts.append(
            f'<rect class="p-{name.replace("_", "-")}" x="{at:.1f}" y="{y + 5:.1f}" width="{width:.1f}" height="20">'
            f"<title>{html_text(said)}</title></rect>"
        )
        at += width
    return (
        f'<text class="label" x="{NAMES - 8:.1f}" y="{y + 19:.1f}" text-anchor="end">'
        f"{html_text(system_words(bar.system))}</text>{''.join(parts)}"
        f'<text class="value" x="{at + 6:.1f}" y="{y + 19:.1f}">{bar.seconds:.3g} s</text>'
    )
