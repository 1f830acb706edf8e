"""How long the agent takes over how deep it goes: one dot a question, and the fitted line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from speceyes.evals.reporting.names import AGENT, style_of
from speceyes.evals.reporting.plots.axes import frame, line, svg, x_scale, y_scale
from speceyes.evals.reporting.text import html_text

MOST = 1500
"""Dots on the picture; of more, every so-and-so-many-th is drawn."""


def depth_plot(points: Sequence[tuple[int, float]], fit: tuple[float, float] | None, label: str) -> str:
    """The picture; empty where there is no run of the agent.

    Args:
        points: (depth, seconds) of each agent run. The depth is the number of tool calls.
        fit: (a, b) of seconds = a + b * depth, where one could be fitted.
        label: Of the picture.
    """
    if not points:
        return ""
    deepest = max(depth for depth, _ in points)
    slowest = max(seconds for _, seconds in points)
    ends = (-0.5, max(deepest, 1) + 0.5)
    x, y = x_scale(*ends), y_scale(0.0, slowest * 1.06 or 1.0)
    seen: Counter[int] = Counter()
    parts = [
        frame(
            x,
            y,
            "agentic depth D: tool calls of the run",
            "seconds",
            x_text=lambda value: f"{value:g}" if value == int(value) else "",
        )
    ]
    for depth, seconds in points[:: -(-len(points) // MOST)]:
        # Dots of one depth stand beside each other in a fixed pattern, so that they can be counted.
        shift = ((seen[depth] * 0.618) % 1.0 - 0.5) * 0.5
        seen[depth] += 1
        parts.append(f'<circle class="dot" cx="{x(depth + shift):.1f}" cy="{y(seconds):.1f}" r="3"/>')
    for depth in sorted({depth for depth, _ in points}):
        found = [seconds for at, seconds in points if at == depth]
        mean = y(sum(found) / len(found))
        said = f"depth {depth}: {len(found)} runs, {sum(found) / len(found):.3g} s on average"
        parts.append(
            f'<g><title>{html_text(said)}</title><line class="mean" x1="{x(depth - 0.32):.1f}" '
            f'x2="{x(depth + 0.32):.1f}" y1="{mean:.1f}" y2="{mean:.1f}"/></g>'
        )
    if fit is not None:
        a, b = fit
        first, last = 0.0, float(max(deepest, 1))
        parts.append(line([(x(at), y(a + b * at)) for at in (first, last)], "fit"))
    return svg(f'<g class="{style_of(AGENT)}">{"".join(parts)}</g>', label)
