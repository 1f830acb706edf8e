"""Accuracy against speedup: one mark a system, with the intervals of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from speceyes.evals.reporting.names import AGENT, shape_of, style_of, system_words
from speceyes.evals.reporting.plots.axes import Scale, frame, mark, padded, short, svg, x_scale, y_scale
from speceyes.evals.reporting.text import html_text
from speceyes.evals.reporting.words import Ranged, percent, percent_range, times, times_range

LEAST_SHARE = 0.1
"""The accuracy scale covers at least ten points, so that noise does not look like a gulf."""


@dataclass(frozen=True, slots=True)
class Place:
    """A system's place on the picture."""

    system: str
    accuracy: Ranged
    speedup: Ranged


def speed_accuracy(places: Sequence[Place], label: str) -> str:
    """The picture; empty where no system has both figures."""
    shown = [place for place in places if place.accuracy.known and place.speedup.value]
    if not shown:
        return ""
    speeds = [value for place in shown for value in _known(place.speedup)] + [1.0]
    shares = [value for place in shown for value in _known(place.accuracy)]
    low, high = min(speeds) / 1.12, max(speeds) * 1.12
    x = x_scale(low, high, log=high / low > 3.0)
    bottom, top = padded(shares, least=LEAST_SHARE)
    y = y_scale(max(0.0, bottom), min(1.0, top))
    parts = [
        frame(x, y, "speedup over the agent alone (times)", "accuracy (%)", y_text=lambda share: short(100 * share)),
        f'<line class="zero" x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{y.end:.1f}" y2="{y.start:.1f}"/>',
    ]
    for place in shown:
        if place.system == AGENT and place.accuracy.value is not None:
            level = y(place.accuracy.value)
            parts.append(f'<line class="zero" x1="{x.start:.1f}" x2="{x.end:.1f}" y1="{level:.1f}" y2="{level:.1f}"/>')
    parts += [_mark(place, x, y) for place in shown]
    return svg("".join(parts), label)


def _mark(place: Place, x: Scale, y: Scale) -> str:
    assert place.speedup.value is not None
    assert place.accuracy.value is not None
    at, level = x(place.speedup.value), y(place.accuracy.value)
    bars = []
    if place.accuracy.low is not None and place.accuracy.high is not None:
        bars.append(_whisker(at, at, y(place.accuracy.low), y(place.accuracy.high)))
    if place.speedup.low is not None and place.speedup.high is not None:
        bars.append(_whisker(x(place.speedup.low), x(place.speedup.high), level, level))
    said = (
        f"{system_words(place.system)}: {percent(place.accuracy.value)} % ({percent_range(place.accuracy)}), "
        f"{times(place.speedup.value)} ({times_range(place.speedup)})"
    )
    return (
        f'<g class="{style_of(place.system)}"><title>{html_text(said)}</title>{"".join(bars)}'
        f"{mark(shape_of(place.system), at, level, 5.5)}</g>"
    )


def _whisker(x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="whisker" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _known(estimate: Ranged) -> list[float]:
    return [value for value in (estimate.value, estimate.low, estimate.high) if value is not None]
