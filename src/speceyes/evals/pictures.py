"""A demo as one picture: the three systems as bars, where the questions went, and a gallery of single ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from speceyes.evals.canvas import Canvas, Color, Style
from speceyes.evals.gallery import REASONS, SYSTEMS, Meter, Tile, share_of_scene
from speceyes.evals.summary import Summary, SystemFigures
from speceyes.evals.systems import SystemName
from speceyes.types import Route

GROUND, CARD, LINE, TRACK = "#f6f5f1", "#ffffff", "#e6e3db", "#eceae4"
INK, SOFT, FAINT = "#1c1e22", "#5f646d", "#9a9da3"
GREEN, BLUE, GREY, RED = "#2c8a57", "#2f62c4", "#8b9099", "#c2442d"
GREEN_TINT, BLUE_TINT = "#e0f1e7", "#e2eafa"
BLUES = (BLUE, "#5b86d8", "#8aa9e4", "#b3c7ee", "#d0dcf5")

BARS: dict[SystemName, Color] = {SystemName.AGENT: BLUE, SystemName.DRAFT: GREY, SystemName.SPECEYES: GREEN}
ORDER = (SystemName.AGENT, SystemName.DRAFT, SystemName.SPECEYES)

WIDTH, MARGIN, GAP, PAD = 1240.0, 48.0, 20.0, 16.0
COLUMNS = 4
CARD_WIDTH = (WIDTH - 2 * MARGIN - (COLUMNS - 1) * GAP) / COLUMNS
THUMB = 58.0
TEXT_HEIGHT = 244.0
CARD_HEIGHT = CARD_WIDTH + TEXT_HEIGHT
PANEL_HEIGHT = 176.0

TITLE = Style(34, INK, bold=True)
HEADING = Style(17, INK, bold=True)
BODY = Style(14, INK)
STRONG = Style(14, INK, bold=True)
NOTE = Style(12.5, SOFT)
SMALL = Style(11, SOFT)


def draw_demo(summary: Summary, tiles: Sequence[Tile], subtitle: str, *, scale: float = 2.0) -> Image.Image:
    """The whole picture, RGB.

    Args:
        summary: The figures.
        tiles: What the gallery shows.
        subtitle: What was run.
        scale: Pixels to a logical unit; the picture is 1,240 units wide.
    """
    rows = -(-len(tiles) // COLUMNS)
    top = MARGIN + 96 + PANEL_HEIGHT + 30 + 104
    canvas = Canvas(WIDTH, top + 40 + rows * (CARD_HEIGHT + GAP) + MARGIN - GAP, scale, GROUND)
    canvas.text(MARGIN, MARGIN, "SpecEyes", TITLE)
    canvas.paragraph(MARGIN, MARGIN + 50, subtitle, Style(14.5, SOFT), WIDTH - 2 * MARGIN, lines=1)
    _panels(canvas, summary, MARGIN + 96)
    _routes(canvas, summary, MARGIN + 96 + PANEL_HEIGHT + 30)
    canvas.text(MARGIN, top, f"{len(tiles)} of the questions", HEADING)
    for i, tile in enumerate(tiles):
        x = MARGIN + (i % COLUMNS) * (CARD_WIDTH + GAP)
        _card(canvas, tile, x, top + 40 + (i // COLUMNS) * (CARD_HEIGHT + GAP))
    return canvas.picture


# Figures


def _panels(canvas: Canvas, summary: Summary, y: float) -> None:
    width = (WIDTH - 2 * MARGIN - 2 * GAP) / 3
    slowest = max(figures.seconds for figures in summary.systems.values()) or 1.0
    for i, heading in enumerate(("Accuracy, with its 95 % interval", "Time for all questions", "Speedup")):
        x = MARGIN + i * (width + GAP)
        canvas.box(x, y, width, PANEL_HEIGHT, fill=CARD, outline=LINE, radius=12)
        canvas.text(x + PAD, y + PAD, heading, STRONG)
    for row, name in enumerate(ORDER):
        figures = summary.systems[name]
        _accuracy_row(canvas, MARGIN + PAD, y + 54 + row * 38, width - 2 * PAD, name, figures)
        bar = _Bar(figures.seconds / slowest, f"{figures.seconds:.1f} s", f"{figures.queries_per_s:.1f}/s")
        _bar_row(canvas, MARGIN + width + GAP + PAD, y + 54 + row * 38, width - 2 * PAD, name, bar)
    _speedup(canvas, summary, MARGIN + 2 * (width + GAP) + PAD, y, width - 2 * PAD)


@dataclass(frozen=True, slots=True)
class _Bar:
    share: float
    value: str
    note: str = ""


_LABEL, _VALUE = 96.0, 84.0
"""Room for a bar's name before it, and for its figure behind it."""


def _bar_row(canvas: Canvas, x: float, y: float, width: float, name: SystemName, bar: _Bar) -> None:
    length = width - _LABEL - _VALUE
    canvas.text(x, y + 10, SYSTEMS[name], NOTE, anchor="lm")
    canvas.box(x + _LABEL, y + 2, length, 16, fill=TRACK, radius=4)
    canvas.box(x + _LABEL, y + 2, length * bar.share, 16, fill=BARS[name], radius=4)
    canvas.text(x + width, y + 10, bar.note, SMALL, anchor="rm")
    canvas.text(x + width - canvas.width_of(bar.note, SMALL) - 8, y + 10, bar.value, STRONG, anchor="rm")


def _accuracy_row(canvas: Canvas, x: float, y: float, width: float, name: SystemName, figures: SystemFigures) -> None:
    note = f"{figures.right}/{figures.n}"
    _bar_row(canvas, x, y, width, name, _Bar(figures.accuracy, f"{figures.accuracy:.0%}", note))
    low, high = (x + _LABEL + (width - _LABEL - _VALUE) * edge for edge in figures.interval)
    for points in ([(low, y + 10), (high, y + 10)], [(low, y + 5), (low, y + 15)], [(high, y + 5), (high, y + 15)]):
        canvas.line(points, INK, 1.2)


def _speedup(canvas: Canvas, summary: Summary, x: float, y: float, width: float) -> None:
    measured = "-" if summary.speedup is None else f"{summary.speedup:.2f}x"
    canvas.text(x, y + 62, measured, Style(44, GREEN, bold=True), anchor="lm")
    canvas.text(x, y + 100, "measured, over the agent alone", NOTE, anchor="lm")
    ideal = "no bound" if summary.law_ideal is None else f"{summary.law_ideal:.2f}x"
    rows = (
        (f"{summary.law_honest:.2f}x", "law, screening and drafting paid"),
        (ideal, f"law, ideal: beta {summary.beta:.2f}, alpha {summary.alpha:.2f}"),
    )
    for row, (value, words) in enumerate(rows):
        canvas.text(x, y + 128 + row * 22, value, STRONG, anchor="lm")
        canvas.text(x + 58, y + 128 + row * 22, words, NOTE, anchor="lm")


def _routes(canvas: Canvas, summary: Summary, y: float) -> None:
    total = sum(summary.reasons.values())
    canvas.text(MARGIN, y, "Where SpecEyes sent them", HEADING)
    x, legend, blues = MARGIN, MARGIN, 0
    for reason, count in summary.reasons.items():
        accepted = reason.route is Route.DRAFT
        color = GREEN if accepted else BLUES[min(blues, len(BLUES) - 1)]
        blues += not accepted
        width = (WIDTH - 2 * MARGIN) * count / total
        canvas.box(x, y + 32, max(3.0, width - 3), 18, fill=color, radius=4)
        canvas.box(legend, y + 65, 10, 10, fill=color, radius=3)
        words = f"{count}  {REASONS[reason]}"
        canvas.text(legend + 17, y + 70, words, NOTE, anchor="lm")
        x, legend = x + width, legend + 17 + canvas.width_of(words, NOTE) + 28


# Cards


def _card(canvas: Canvas, tile: Tile, x: float, y: float) -> None:
    canvas.box(x, y, CARD_WIDTH, CARD_HEIGHT, fill=CARD, outline=LINE, radius=12)
    _scene(canvas, tile, x, y)
    inner, width = x + PAD, CARD_WIDTH - 2 * PAD
    at = y + CARD_WIDTH + 14
    by_draft = tile.route is Route.DRAFT
    badge = Style(11.5, GREEN if by_draft else BLUE, bold=True)
    canvas.pill(inner, at, tile.route.value, badge, GREEN_TINT if by_draft else BLUE_TINT)
    if tile.seconds is not None:
        canvas.text(inner + width, at + 10, f"{tile.seconds:.2f} s", NOTE, anchor="rm")
    canvas.text(inner, at + 30, tile.why, NOTE)
    below = canvas.paragraph(inner, at + 52, tile.sample.asked.text, STRONG, width, lines=2)
    options = "   ".join(tile.sample.question.splitlines()[1:])
    if options:
        room = 1 if below > at + 52 + STRONG.line_height else 2
        canvas.paragraph(inner, below + 2, options, NOTE, width, lines=room)
    _answer(canvas, tile, inner, at + 118, width)
    _evidence(canvas, tile, inner, at + 150, width)


def _scene(canvas: Canvas, tile: Tile, x: float, y: float) -> None:
    side = CARD_WIDTH - 2
    picture = tile.scene(canvas.pixels(side))
    canvas.paste(picture, x + 1, y + 1, radius=11)
    canvas.paste(picture.crop((0, picture.height // 2, picture.width, picture.height)), x + 1, y + 1 + side / 2)
    for number, crop in enumerate(tile.crops, 1):
        left, top, right, bottom = (1 + side * edge for edge in share_of_scene(crop))
        frame = (x + left, y + top, right - left, bottom - top)
        canvas.box(*frame, outline="#ffffff", thickness=3.4, radius=3)
        canvas.box(*frame, outline=BLUE, thickness=1.8, radius=3)
        at_x, at_y = min(max(x + left, x + 2), x + side - 18), min(max(y + top - 17, y + 2), y + side - 18)
        canvas.box(at_x, at_y, 16, 16, fill=BLUE, radius=4)
        canvas.text(at_x + 8, at_y + 8, str(number), Style(10.5, "#ffffff", bold=True), anchor="mm")


def _answer(canvas: Canvas, tile: Tile, x: float, y: float, width: float) -> None:
    color = GREEN if tile.right else RED
    _mark(canvas, x, y, color, tile.right)
    said = tile.said(tile.answer.text)
    canvas.text(x + 20, y + 7, said, Style(14, color, bold=True), anchor="lm")
    beside = "" if tile.right else f"right: {tile.said(tile.sample.gold)}"
    if tile.right and tile.route is Route.AGENT:
        beside = f"the draft alone: {tile.said(tile.draft_said)}"
    canvas.text(x + width, y + 7, beside, SMALL, anchor="rm")


def _mark(canvas: Canvas, x: float, y: float, color: Color, right: bool) -> None:
    if right:
        canvas.line([(x + 1, y + 8), (x + 5, y + 12), (x + 13, y + 2)], color, 2.2)
    else:
        canvas.line([(x + 2, y + 2), (x + 12, y + 12)], color, 2.2)
        canvas.line([(x + 12, y + 2), (x + 2, y + 12)], color, 2.2)


def _evidence(canvas: Canvas, tile: Tile, x: float, y: float, width: float) -> None:
    """What the decision stands on: the crops that the agent looked at, and the meters of the phases."""
    shown = tile.crops[:2]
    for number, crop in enumerate(shown):
        left = x + number * (THUMB + 6)
        picture = tile.crop(crop, canvas.pixels(THUMB))
        canvas.paste(picture, left, y, radius=6)
        canvas.box(left + 3, y + 3, 14, 14, fill=BLUE, radius=4)
        canvas.text(left + 10, y + 10, str(number + 1), Style(9.5, "#ffffff", bold=True), anchor="mm")
    left = x + len(shown) * (THUMB + 6) + (8 if shown else 0)
    for row, meter in enumerate(tile.meters):
        _meter(canvas, meter, left, y + row * 34, x + width - left)
    if tile.crops and len(tile.meters) < 2:
        looks = "one closer look" if len(tile.crops) == 1 else f"{len(tile.crops)} closer looks"
        canvas.text(left, y + 34 * len(tile.meters) + 4, looks, SMALL, anchor="lm")


def _meter(canvas: Canvas, meter: Meter, x: float, y: float, width: float) -> None:
    value = f"{meter.value:.2f}"
    canvas.text(x, y + 4, meter.label, SMALL, anchor="lm")
    canvas.text(x + width, y + 4, value, Style(11, INK, bold=True), anchor="rm")
    canvas.box(x, y + 15, width, 6, fill=TRACK, radius=3)
    canvas.box(x, y + 15, max(3.0, width * meter.value_share), 6, fill=GREEN if meter.passed else BLUE, radius=3)
    tick = x + width * meter.limit_share
    canvas.line([(tick, y + 12), (tick, y + 23)], INK, 1.4)
