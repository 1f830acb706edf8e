"""A drawing surface in logical units for Pillow: text that wraps, pills, bars, rounded pictures, at any scale."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

Color = str
_REPLACED = str.maketrans({"×": "x", "–": "-", "—": "-", "→": ">", "≥": ">", "’": "'", "\u00a0": " "})
"""Pillow's own font has few signs beside the Latin letters."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a text looks. `size` in logical units; `bold` thickens the one weight that the font has."""

    size: float
    color: Color
    bold: bool = False

    @property
    def line_height(self) -> float:
        return self.size * 1.36


class Canvas:
    """A picture of `width` x `height` logical units, `scale` pixels each."""

    def __init__(self, width: float, height: float, scale: float, background: Color) -> None:
        self.scale = scale
        self.picture = Image.new("RGB", (self._px(width), self._px(height)), background)
        self._draw = ImageDraw.Draw(self.picture)

    def text(self, x: float, y: float, text: str, style: Style, *, anchor: str = "la") -> None:
        """One line. `anchor` as Pillow has it: "la" puts the top left corner at (x, y), "mm" the middle."""
        font, y = _font(round(style.size * self.scale)), y * self.scale
        # The font has one weight only: bold is the text once more, a little to the right.
        shifts = (0.0, max(0.7, style.size * self.scale / 26)) if style.bold else (0.0,)
        for shift in shifts:
            place = (x * self.scale + shift, y)
            self._draw.text(place, printable(text), fill=style.color, font=font, anchor=anchor)

    def paragraph(self, x: float, y: float, text: str, style: Style, width: float, lines: int) -> float:
        """Text in at most so many lines; what is too much ends in dots. Returns the y below it."""
        for line in self.wrap(text, style, width, lines):
            self.text(x, y, line, style)
            y += style.line_height
        return y

    def wrap(self, text: str, style: Style, width: float, lines: int) -> list[str]:
        """The text cut into lines no wider than `width`."""
        found = [""]
        for word in text.split():
            longer = f"{found[-1]} {word}".strip()
            if found[-1] and self.width_of(longer, style) > width:
                found.append(word)
            else:
                found[-1] = longer
        if len(found) > lines:
            found = [*found[: lines - 1], f"{found[lines - 1]} ..."]
        return [self._shortened(line, style, width) for line in found]

    def width_of(self, text: str, style: Style) -> float:
        """How wide a line is."""
        return _font(round(style.size * self.scale)).getlength(printable(text)) / self.scale

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: Color | None = None,
        outline: Color | None = None,
        radius: float = 0.0,
        thickness: float = 1.0,
    ) -> None:
        """A rectangle, with round corners where it has a radius."""
        if width <= 0 or height <= 0:
            return
        left, top, right, bottom = self._px(x), self._px(y), self._px(x + width) - 1, self._px(y + height) - 1
        self._draw.rounded_rectangle(
            (left, top, max(left, right), max(top, bottom)),
            radius=radius * self.scale,
            fill=fill,
            outline=outline,
            width=max(1, round(thickness * self.scale)),
        )

    def line(self, points: list[tuple[float, float]], color: Color, thickness: float) -> None:
        """A line through points."""
        scaled = [(x * self.scale, y * self.scale) for x, y in points]
        self._draw.line(scaled, fill=color, width=max(1, round(thickness * self.scale)), joint="curve")

    def pill(self, x: float, y: float, text: str, style: Style, fill: Color) -> float:
        """A text on a round ground. Returns its width."""
        height, padding = style.size * 1.75, style.size * 0.75
        width = self.width_of(text, style) + 2 * padding
        self.box(x, y, width, height, fill=fill, radius=height / 2)
        self.text(x + width / 2, y + height / 2, text, style, anchor="mm")
        return width

    def paste(self, picture: Image.Image, x: float, y: float, radius: float = 0.0) -> None:
        """A picture, its top left corner at (x, y), in its own pixels."""
        # The mask is drawn larger and shrunk, which smooths the corners.
        mask = Image.new("L", (picture.width * 4, picture.height * 4), 0)
        corner = (0, 0, mask.width - 1, mask.height - 1)
        ImageDraw.Draw(mask).rounded_rectangle(corner, radius * self.scale * 4, fill=255)
        self.picture.paste(picture, (self._px(x), self._px(y)), mask.resize(picture.size, Image.Resampling.BOX))

    def pixels(self, length: float) -> int:
        """A length in pixels."""
        return self._px(length)

    def _px(self, value: float) -> int:
        return round(value * self.scale)

    def _shortened(self, line: str, style: Style, width: float) -> str:
        if self.width_of(line, style) <= width:
            return line
        while line and self.width_of(f"{line}...", style) > width:
            line = line[:-1]
        return f"{line.rstrip()}..."


def printable(text: str) -> str:
    """The text with what Pillow's font cannot show replaced."""
    return "".join(sign if " " <= sign <= "ÿ" else "?" for sign in text.translate(_REPLACED))


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(max(1, size))
