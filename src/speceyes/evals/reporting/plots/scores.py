"""The gate's scores: right drafts above the line, wrong ones below it, and the threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from speceyes.evals.reporting.plots.axes import (
    Scale,
    frame,
    short,
    svg,
    upright,
    x_scale,
    y_scale,
)
from speceyes.evals.reporting.text import html_text

BINS = 24


def scores_plot(scored: Sequence[tuple[float, bool]], threshold: float | None, label: str) -> str:
    """The picture; empty where no draft has a score.

    Args:
        scored: (score, whether the draft is right) of each draft.
        threshold: The gate's; None where there is none, or not one.
        label: Of the picture.
    """
    found = sorted(value for value, _ in scored if math.isfinite(value))
    if not found:
        return ""
    # One draft that is far surer than all others must not press the rest into a corner.
    high = found[min(len(found) - 1, int(0.99 * len(found)))]
    low, high = min(found[0], threshold or found[0]), max(high, threshold or high)
    room = 0.03 * (high - low) or 0.5
    x = x_scale(low - room, high + room)
    right, wrong = (_counts(scored, x, good) for good in (True, False))
    tallest = max(*right, *wrong, 1)
    y = y_scale(-_whole(max(*wrong, tallest * 0.25)), _whole(max(*right, tallest * 0.25)))
    parts = [
        frame(x, y, "the draft's score", "drafts", y_text=_whole_number),
        _bars(right, x, y, "right", 1),
        _bars(wrong, x, y, "wrong", -1),
        f'<line class="zero" x1="{x.start:.1f}" x2="{x.end:.1f}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>',
        f'<text class="label right" x="{x.start + 6:.1f}" y="{y.end + 11:.1f}">right drafts</text>',
        f'<text class="label wrong" x="{x.start + 6:.1f}" y="{y.start - 6:.1f}">wrong drafts</text>',
    ]
    if threshold is not None:
        at = x(threshold)
        parts.append(upright(at, y, "limit", f"threshold {threshold:.4g}", room=x.end - at))
    return svg("".join(parts), label)


def _counts(scored: Sequence[tuple[float, bool]], x: Scale, good: bool) -> list[int]:
    counts = [0] * BINS
    for value, right in scored:
        if right is good and math.isfinite(value):
            place = int(BINS * (min(max(value, x.low), x.high) - x.low) / (x.high - x.low))
            counts[min(place, BINS - 1)] += 1
    return counts


def _bars(counts: Sequence[int], x: Scale, y: Scale, kind: str, sign: int) -> str:
    width = (x.high - x.low) / BINS
    parts = []
    for place, count in enumerate(counts):
        if not count:
            continue
        low, high = x.low + place * width, x.low + (place + 1) * width
        left, right = x(low), x(high)
        top, bottom = sorted((y(0), y(sign * count)))
        said = f"{count} {kind} drafts with a score from {low:.3g} to {high:.3g}"
        parts.append(
            f'<rect class="{kind}" x="{left + 0.8:.1f}" y="{top:.1f}" width="{max(1.0, right - left - 1.6):.1f}" '
            f'height="{bottom - top:.1f}"><title>{html_text(said)}</title></rect>'
        )
    return "".join(parts)


def _whole_number(value: float) -> str:
    return short(abs(value)) if value == int(value) else ""


def _whole(value: float) -> float:
    return float(max(1, math.ceil(value * 1.08)))
