"""Measured risk and its upper bound at each threshold, as a picture (SVG, no script, colours from the page's CSS)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from speceyes.evals.calibrating.words import percent
from speceyes.gating.certify import Certificate, Step

WIDTH, HEIGHT = 860, 330
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 16, 62
TICKS = 9


def draw_chart(certificate: Certificate, risk: int) -> str:
    """One risk over the thresholds, strictest on the left. Empty where no threshold accepted a record.

    Args:
        certificate: The test.
        risk: Which of its limits, counted from 0.
    """
    steps = [step for step in certificate.steps if step.accepted]
    if not steps:
        return ""
    alpha = certificate.limits[risk].alpha
    top = _top([step.losses[risk] / step.accepted for step in steps], alpha)
    marks = "".join(_mark(i, step, risk, len(steps), top, step is certificate.chosen) for i, step in enumerate(steps))
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Measured risk and upper bound over {len(steps)} thresholds">'
        f"{_scale(top)}{marks}{_limit(alpha, top)}{_below(steps, certificate.n)}</svg>"
    )


def _top(rates: Sequence[float], alpha: float) -> float:
    """Where the scale ends: all measured risks and twice the limit fit; bounds above it are cut off."""
    return min(1.0, max(2.5 * alpha, 1.25 * max(rates)))


def _x(i: int, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (i + 0.5) / count


def _y(share: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - min(share, top) / top)


def _scale(top: float) -> str:
    lines = []
    for part in range(5):
        share = top * part / 4
        y = _y(share, top)
        lines.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(_short(share))}</text>'
        )
    return "".join(lines)


def _short(share: float) -> str:
    return f"{share * 100:.1f} %".replace(".0 %", " %")


def _mark(i: int, step: Step, risk: int, count: int, top: float, chosen: bool) -> str:
    state = "passed" if step.passed else "failed" if step.tested else "untested"
    x, rate, bound = _x(i, count), step.losses[risk] / step.accepted, step.bounds[risk]
    said = (
        f"threshold {step.threshold:.4g}: {step.accepted} accepted, {step.losses[risk]} lost ({percent(rate)}), "
        f"upper bound {percent(bound)}; {'certified' if step.passed else 'failed' if step.tested else 'not tested'}"
    )
    high, low = _y(bound, top), _y(rate, top)
    cap = "" if bound > top else f'<line x1="{x - 5:.1f}" x2="{x + 5:.1f}" y1="{high:.1f}" y2="{high:.1f}"/>'
    band = (
        f'<rect class="chosen" x="{x - 11:.1f}" y="{TOP}" width="22" height="{HEIGHT - TOP - BOTTOM}" rx="4"/>'
        if chosen
        else ""
    )
    return (
        f'{band}<g class="{state}"><title>{escape(said)}</title>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{high:.1f}" y2="{low:.1f}"/>{cap}'
        f'<circle cx="{x:.1f}" cy="{low:.1f}" r="4"/></g>'
    )


def _limit(alpha: float, top: float) -> str:
    y = _y(alpha, top)
    return (
        f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="limit" x="{WIDTH - RIGHT}" y="{y - 6:.1f}" text-anchor="end">limit {percent(alpha)}</text>'
    )


def _below(steps: Sequence[Step], n: int) -> str:
    """Under the axis: some thresholds, and what they accept."""
    count = len(steps)
    every = -(-count // TICKS)
    base = HEIGHT - BOTTOM
    parts = []
    for i in range(0, count, every):
        x, step = _x(i, count), steps[i]
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{base + 20}" text-anchor="middle">{step.threshold:.3g}</text>'
            f'<text class="tick soft" x="{x:.1f}" y="{base + 38}" text-anchor="middle">{step.accepted / n:.0%}</text>'
        )
    return (
        "".join(parts)
        + f'<text class="tick soft" x="{LEFT}" y="{HEIGHT - 6}">upper row: threshold, strictest on the left; '
        "lower row: share of all questions that it accepts</text>"
    )
