"""Procedural sign scenes: the world that the nano models live in.

A scene is a textured 1024 x 1024 picture with two to four signs, all of different colours. Every sign has a shape
and carries a digit. About half of the signs are large (readable in a 192 x 192 first look), the others small: their
digit is about 5 pixels tall in that look and cannot be read, but a crop shows it. Everything follows from the seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIDE = 1024
"""Width and height of a scene in pixels."""

COLORS: dict[str, tuple[int, int, int]] = {
    "red": (215, 40, 40),
    "green": (40, 160, 60),
    "blue": (40, 80, 215),
    "yellow": (235, 205, 40),
    "purple": (140, 50, 170),
    "orange": (240, 130, 30),
    "white": (245, 245, 245),
    "black": (25, 25, 25),
}
SHAPES = ("circle", "square", "diamond", "triangle", "star")
DIGITS = tuple("0123456789")

LARGE_RADIUS = (115.0, 160.0)
SMALL_RADIUS = (22.0, 30.0)

# Distance from centre to corner in units of the sign's radius, chosen so that each shape has room for its digit.
_CORNER = {"circle": 1.0, "square": 1.3, "diamond": 1.4, "triangle": 1.55, "star": 1.5}


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign. `x`, `y`, `radius` are in pixels of the scene."""

    color: str
    shape: str
    digit: str
    x: float
    y: float
    radius: float

    @property
    def small(self) -> bool:
        """Whether the digit is too small for the first look."""
        return self.radius < LARGE_RADIUS[0]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """(left, top, right, bottom): the square of one radius around the centre, where the digit is."""
        r = self.radius
        return (self.x - r, self.y - r, self.x + r, self.y + r)


@dataclass(frozen=True, slots=True)
class Scene:
    """The signs of one scene and the seed of its background."""

    signs: tuple[Sign, ...]
    seed: int

    def find(self, color: str) -> Sign | None:
        """The sign of this colour; colours are unique within a scene."""
        return next((sign for sign in self.signs if sign.color == color), None)


def make_scene(seed: int, *, small_share: float = 0.5) -> Scene:
    """Place two to four signs that do not touch. `small_share` is the chance of each sign to be small."""
    rng = random.Random(f"scene-{seed}")
    count = rng.randint(2, 4)
    colors = rng.sample(list(COLORS), count)
    signs: list[Sign] = []
    for color in colors:
        radius = rng.uniform(*(SMALL_RADIUS if rng.random() < small_share else LARGE_RADIUS))
        shape = rng.choice(SHAPES)
        spot = _free_spot(rng, radius, signs)
        if spot is not None:
            signs.append(Sign(color, shape, rng.choice(DIGITS), *spot, radius))
    return Scene(tuple(signs), seed)


def _free_spot(rng: random.Random, radius: float, taken: Sequence[Sign], tries: int = 80) -> tuple[float, float] | None:
    margin = radius * 1.25
    for _ in range(tries):
        x, y = rng.uniform(margin, SIDE - margin), rng.uniform(margin, SIDE - margin)
        if all(math.hypot(x - o.x, y - o.y) > 1.3 * (radius + o.radius) + 8 for o in taken):
            return x, y
    return None


def draw_scene(scene: Scene) -> Image.Image:
    """The picture of a scene: RGB, `SIDE` x `SIDE`."""
    picture = _background(random.Random(f"background-{scene.seed}"))
    canvas = ImageDraw.Draw(picture)
    for sign in scene.signs:
        _draw_sign(canvas, sign)
    return picture


def _background(rng: random.Random) -> Image.Image:
    base = np.array([rng.randint(90, 200) for _ in range(3)], dtype=np.float32)
    ramp = np.linspace(-1, 1, 128, dtype=np.float32)
    slope = rng.uniform(-25, 25) * ramp[:, None] + rng.uniform(-25, 25) * ramp[None, :]
    noise = np.random.default_rng(rng.randrange(2**32)).standard_normal((128, 128), dtype=np.float32)
    field = base + (slope + noise * rng.uniform(1, 6))[:, :, None]
    return Image.fromarray(np.clip(field, 0, 255).astype(np.uint8)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)


def _draw_sign(canvas: ImageDraw.ImageDraw, sign: Sign) -> None:
    fill = COLORS[sign.color]
    if sign.shape == "circle":
        canvas.ellipse(sign.box, fill=fill)
    else:
        canvas.polygon(_corners(sign), fill=fill)
    ink = (20, 20, 20) if sum(fill) / 3 > 120 else (240, 240, 240)
    size = sign.radius * 1.5
    canvas.text(
        (sign.x, sign.y),
        sign.digit,
        font=_font(round(size)),
        fill=ink,
        anchor="mm",
        stroke_width=max(1, round(size / 28)) if size > 20 else 0,
        stroke_fill=ink,
    )


def _corners(sign: Sign) -> list[tuple[float, float]]:
    reach = _CORNER[sign.shape] * sign.radius
    count = {"square": 4, "diamond": 4, "triangle": 3, "star": 10}[sign.shape]
    start = -math.pi / 4 if sign.shape == "square" else -math.pi / 2
    inner = 0.58 if sign.shape == "star" else 1.0
    return [
        (
            sign.x + reach * (inner if i % 2 else 1.0) * math.cos(start + 2 * math.pi * i / count),
            sign.y + reach * (inner if i % 2 else 1.0) * math.sin(start + 2 * math.pi * i / count),
        )
        for i in range(count)
    ]


@lru_cache(maxsize=256)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    # Pillow carries this font itself, so that scenes do not depend on the machine's fonts.
    return ImageFont.load_default(size)
