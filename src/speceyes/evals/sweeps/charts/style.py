"""How the pictures look: the Okabe-Ito colours, which colour-blind people can tell apart, and a line style for each,
so that they can be told apart in grey too."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

INK, SOFT, GRID = "#1c1e22", "#5f646d", "#e4e2dc"
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#AA4499",
    "#56B4E9",
    "#8b9099",
)
LINES: tuple[tuple[str, Any, str], ...] = (
    (BLUE, "-", "o"),
    (VERMILION, (0, (6, 2)), "s"),
    (GREEN, (0, (2, 1.2)), "^"),
    (PURPLE, (0, (6, 2, 1.5, 2)), "D"),
    (ORANGE, (0, (9, 3)), "v"),
    (SKY, (0, (1, 1)), "P"),
    (INK, (0, (4, 1.5, 1, 1.5, 1, 1.5)), "X"),
)
"""Colour, line style, marker."""
WIDTH, HEIGHT, DPI = 7.6, 4.5, 160


@dataclass(frozen=True)
class Chart:
    """A picture with its words.

    Attributes:
        name: Of its file, without the ending.
        title: What it shows.
        text: One or two sentences for somebody who sees such a picture for the first time.
        figure: The picture.
    """

    name: str
    title: str
    text: str
    figure: Figure

    @cached_property
    def png(self) -> bytes:
        """The picture as a PNG file."""
        out = io.BytesIO()
        FigureCanvasAgg(self.figure).print_figure(out, dpi=DPI, facecolor="white", metadata={"Title": self.title})
        return out.getvalue()


def axes(x: str, y: str, title: str) -> tuple[Figure, Axes]:
    """An empty picture with labelled axes; labels name the unit."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    ax = figure.add_subplot()
    ax.set_title(title, loc="left", fontsize=11.5, fontweight="bold", color=INK, pad=10)
    ax.set_xlabel(x, color=INK, fontsize=10)
    ax.set_ylabel(y, color=INK, fontsize=10)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(colors=SOFT, labelsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(SOFT)
    return figure, ax


def legend(ax: Axes, place: Literal["inside", "right", "below"] = "inside", **more: Any) -> None:
    """The legend: in the picture's emptiest corner, right of it, or below."""
    if place == "right":
        more = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), **more}
    elif place == "below":
        more = {"loc": "upper center", "bbox_to_anchor": (0.47, -0.15), "ncols": 2, **more}
    ax.legend(frameon=False, fontsize=8.5, labelcolor=INK, handlelength=2.8, **more)


def in_percent(ax: Axes, which: str) -> None:
    """Show shares of 1 as percentages on `x`, `y` or `xy`."""
    for name in which:
        getattr(ax, f"{name}axis").set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}"))


def nothing(ax: Axes, why: str) -> None:
    """Say in the picture's middle why it is empty."""
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color=SOFT, fontsize=10, wrap=True)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(visible=False)
