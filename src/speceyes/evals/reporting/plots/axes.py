"""Scales, ticks, frames and marks: what all pictures are made of. Lengths in SVG units."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from speceyes.evals.reporting.text import html_text

WIDTH, HEIGHT = 520.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 16.0, 14.0, 46.0
SHAPES = ("circle", "square", "up", "diamond", "down", "plus", "cross", "wide", "tall")
"""One for each system, in the order of `names.SYSTEMS`."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places on the picture.

    Attributes:
        low: The smallest value.
        high: The largest value, above `low`.
        start: Where `low` stands.
        end: Where `high` stands.
        log: Whether equal ratios, instead of equal differences, are equally long.
        only: The ticks, where they are not to be round values.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    only: tuple[float, ...] = ()

    def __call__(self, value: float) -> float:
        """The place of a value; values beyond the ends stand at the ends."""
        inside = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """Where grid lines stand: round values, unless others are given."""
        if self.only:
            return list(self.only)
        return log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high)


def x_scale(low: float, high: float, *, log: bool = False, left: float = LEFT) -> Scale:
    """Left to right."""
    return Scale(low, high, left, WIDTH - RIGHT, log)


def y_scale(low: float, high: float, *, log: bool = False) -> Scale:
    """Bottom to top."""
    return Scale(low, high, HEIGHT - BOTTOM, TOP, log)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from `low` to `high`, around `about` of them."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return []
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [count * step for count in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Values of 1, 2 and 5 times a power of ten; powers of ten alone where these would be many."""
    if not 0 < low < high:
        return []
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(powers) <= 4 else (1,)
    found = [factor * 10.0**power for power in powers for factor in factors]
    return [value for value in found if low * 0.999 <= value <= high * 1.001]


def padded(values: Sequence[float], *, least: float, share: float = 0.06) -> tuple[float, float]:
    """Ends of a scale on which all values fit with some room, at least `least` apart."""
    low, high = min(values), max(values)
    missing = max(0.0, least - (high - low)) / 2
    room = share * max(high - low, least)
    return low - missing - room, high + missing + room


def short(value: float) -> str:
    """A number as an axis has it."""
    return f"{value:.4g}".replace("-", "−")


def frame(
    x: Scale,
    y: Scale,
    x_label: str,
    y_label: str,
    *,
    x_text: Callable[[float], str] = short,
    y_text: Callable[[float], str] = short,
) -> str:
    """Grid, tick labels and the axes' names."""
    bottom, top = y.start, y.end
    parts = []
    for value in y.ticks:
        at = y(value)
        parts.append(
            f'<line class="grid" x1="{x.start:.1f}" x2="{x.end:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="tick" x="{x.start - 7:.1f}" y="{at + 4:.1f}" text-anchor="end">'
            f"{html_text(y_text(value))}</text>"
        )
    for value in x.ticks:
        at = x(value)
        parts.append(
            f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'
            f'<text class="tick" x="{at:.1f}" y="{bottom + 17:.1f}" text-anchor="middle">'
            f"{html_text(x_text(value))}</text>"
        )
    parts.append(
        f'<text class="name" x="{(x.start + x.end) / 2:.1f}" y="{bottom + 37:.1f}" text-anchor="middle">'
        f"{html_text(x_label)}</text>"
    )
    if y_label:
        middle = (top + bottom) / 2
        parts.append(
            f'<text class="name" transform="translate(14 {middle:.1f}) rotate(-90)" text-anchor="middle">'
            f"{html_text(y_label)}</text>"
        )
    return "".join(parts)


def mark(shape: str, x: float, y: float, size: float = 5.0) -> str:
    """A system's mark, in the colour of the group that it stands in."""
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"/>'
    corners = {
        "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        "up": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
        "down": ((0, 1.2), (1.1, -0.9), (-1.1, -0.9)),
        "diamond": ((0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)),
        "plus": _cross(0.0),
        "cross": _cross(math.pi / 4),
        "wide": ((-1.3, -0.6), (1.3, -0.6), (1.3, 0.6), (-1.3, 0.6)),
        "tall": ((-0.6, -1.3), (0.6, -1.3), (0.6, 1.3), (-0.6, 1.3)),
    }[shape]
    points = " ".join(f"{x + size * dx:.1f},{y + size * dy:.1f}" for dx, dy in corners)
    return f'<polygon points="{points}"/>'


def _cross(turn: float) -> tuple[tuple[float, float], ...]:
    arm, half = 1.3, 0.42
    outline = (
        (-half, -arm), (half, -arm), (half, -half), (arm, -half), (arm, half), (half, half),
        (half, arm), (-half, arm), (-half, half), (-arm, half), (-arm, -half), (-half, -half),
    )  # fmt: skip
    sine, cosine = math.sin(turn), math.cos(turn)
    return tuple((x * cosine - y * sine, x * sine + y * cosine) for x, y in outline)


def line(points: Sequence[tuple[float, float]], kind: str) -> str:
    """A line through places, with a style of the page."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{places}"/>'


def upright(at: float, y: Scale, kind: str, words: str, *, room: float) -> str:
    """A vertical line over the whole height with a label; the label stands left of it where `room` is short."""
    anchor, shift = ("start", 6.0) if room > 120 else ("end", -6.0)
    return (
        f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{y.end:.1f}" y2="{y.start:.1f}"/>'
        f'<text class="{kind}" x="{at + shift:.1f}" y="{y.end + 11:.1f}" text-anchor="{anchor}">'
        f"{html_text(words)}</text>"
    )


def svg(body: str, label: str, *, width: float = WIDTH, height: float = HEIGHT) -> str:
    """A picture of that size, with a name for those who cannot see it."""
    named = f'role="img" aria-label="{html_text(label)}"'
    return f'<svg class="chart" viewBox="0 0 {width:g} {height:g}" {named}>{body}</svg>'
