"""Accuracy by kind of question, one mark a system, with Wilson intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from speceyes.evals.reporting.names import ordered, shape_of, style_of, system_words
from speceyes.evals.reporting.plots.axes import WIDTH, Scale, mark, short, ticks
from speceyes.evals.reporting.plots.axes import svg as draw
from speceyes.evals.reporting.text import html_text, shortened
from speceyes.gating.intervals import wilson

NAMES, STEP, GAP = 168.0, 13.0, 12.0
MOST = 14


def categories_plot(groups: Mapping[str, Mapping[str, tuple[int, int]]], label: str) -> str:
    """The picture; empty for fewer than two categories.

    Args:
        groups: Category, then system: (right, all).
        label: Of the picture.
    """
    if len(groups) < 2:
        return ""
    systems = ordered([name for group in groups.values() for name in group])
    shown = list(groups)[:MOST]
    block = STEP * len(systems) + GAP
    base = 6 + block * len(shown)
    x = Scale(0.0, 1.0, NAMES, WIDTH - 20)
    parts = [
        f'<line class="grid" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="4" y2="{base:.1f}"/>'
        f'<text class="tick" x="{x(value):.1f}" y="{base + 16:.1f}" text-anchor="middle">{short(100 * value)}</text>'
        for value in ticks(0.0, 1.0)
    ]
    for number, category in enumerate(shown):
        top = 6 + block * number
        parts.append(_block(category, groups[category], systems, top, x))
        if number:
            parts.append(f'<line class="grid" x1="0" x2="{WIDTH:g}" y1="{top:.1f}" y2="{top:.1f}"/>')
    parts.append(
        f'<text class="name" x="{(x.start + x.end) / 2:.1f}" y="{base + 36:.1f}" text-anchor="middle">'
        "accuracy (%)</text>"
    )
    return draw("".join(parts), label, height=base + 44)


def _block(category: str, group: Mapping[str, tuple[int, int]], systems: Sequence[str], top: float, x: Scale) -> str:
    asked = max((n for _, n in group.values()), default=0)
    middle = top + GAP / 2 + STEP * len(systems) / 2
    parts = [
        f'<text class="label" x="{NAMES - 10:.1f}" y="{middle:.1f}" text-anchor="end">'
        f"{html_text(shortened(category or '(none)', 22))}</text>"
        f'<text class="tick soft" x="{NAMES - 10:.1f}" y="{middle + 14:.1f}" text-anchor="end">{asked} questions</text>'
    ]
    for row, system in enumerate(systems):
        if system not in group or not group[system][1]:
            continue
        right, n = group[system]
        low, high = wilson(right, n)
        y = top + GAP / 2 + STEP * (row + 0.5)
        said = f"{category}, {system_words(system)}: {right} of {n}, {right / n:.1%} ({low:.1%} to {high:.1%})"
        parts.append(
            f'<g class="{style_of(system)}"><title>{html_text(said)}</title>'
            f'<line class="whisker" x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f"{mark(shape_of(system), x(right / n), y, 4.2)}</g>"
        )
    return "".join(parts)
