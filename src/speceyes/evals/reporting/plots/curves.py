"""Questions per second over how many are under way at a time: of whole systems, or of phases I to III alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from speceyes.evals.reporting.names import ordered, shape_of, style_of, system_words
from speceyes.evals.reporting.plots.axes import frame, line, mark, short, svg, y_scale
from speceyes.evals.reporting.plots.axes import x_scale as across
from speceyes.evals.reporting.text import html_text

CONCURRENCY = ("questions at a time", "questions per second")
BATCH = ("questions screened and drafted at a time", "questions per second")
"""Names of the axes."""
SPREAD = 6.0
"""Where the fastest is more than so many times as fast as the slowest, the scale is logarithmic."""


def curve_plot(curves: Mapping[str, Sequence[tuple[int, float]]], names: tuple[str, str], label: str) -> str:
    """The picture; empty unless some system ran at two concurrencies or more.

    Args:
        curves: (questions at a time, questions per second) of each system, above 0.
        names: Of the axes.
        label: Of the picture.
    """
    drawn = {name: sorted(curves[name]) for name in ordered(list(curves)) if len(curves[name]) > 1}
    if not drawn:
        return ""
    at_a_time = sorted({many for curve in drawn.values() for many, _ in curve})
    rates = [rate for curve in drawn.values() for _, rate in curve]
    x = replace(across(at_a_time[0] / 1.15, at_a_time[-1] * 1.15, log=True), only=tuple(map(float, at_a_time)))
    # The draft alone may be ten times as fast as the rest; from 0 on up, the others would lie on one another.
    wide = max(rates) > SPREAD * min(rates)
    y = y_scale(min(rates) / 1.15, max(rates) * 1.15, log=True) if wide else y_scale(0.0, max(rates) * 1.08)
    across_name, up_name = names
    parts = [frame(x, y, f"{across_name} (log scale)", f"{up_name}{' (log scale)' if wide else ''}", x_text=short)]
    for name, curve in drawn.items():
        places = [(x(many), y(rate)) for many, rate in curve]
        said = ", ".join(f"{rate:.3g}/s at {many}" for many, rate in curve)
        parts.append(
            f'<g class="{style_of(name)}"><title>{html_text(f"{system_words(name)}: {said}")}</title>'
            f"{line(places, 'curve')}{''.join(mark(shape_of(name), *place) for place in places)}</g>"
        )
    return svg("".join(parts), label)
