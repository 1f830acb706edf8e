"""Boxes, the coordinate systems that models speak, and the window that a zoom shows.

Positions are continuous: pixel k of a row covers k to k + 1, so a picture of width w spans 0 to w, and a box
is the area between its edges. With that reading every coordinate system is a scale and a shift of every
other, with no half pixels.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real

from speceyes.errors import BoxError

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*", re.ASCII)
_FORM = "A box is four numbers: [left, top, right, bottom]."
_THINNEST = 100.0
"""Crops thinner than 1 to this are widened: model families refuse 1 to 200, and rounding to patches can
double a ratio."""


@dataclass(frozen=True, slots=True)
class Box:
    """An area between four edges, x to the right and y down. Edges are finite, left <= right and top <= bottom.

    Raises:
        BoxError: The edges are not finite or not in order. `parse_box` sorts them first.
    """

    left: float
    top: float
    right: float
    bottom: float

    def __post_init__(self) -> None:
        if not all(math.isfinite(edge) for edge in self.as_tuple()):
            raise BoxError(f"The box {_show(self.as_tuple())} has an edge that is not a finite number. {_FORM}")
        if self.left > self.right or self.top > self.bottom:
            raise BoxError(f"The box {_show(self.as_tuple())} has its corners in the wrong order. {_FORM}")

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def area(self) -> float:
        return self.width * self.height

    @property
    def centre(self) -> tuple[float, float]:
        """(x, y) of the middle."""
        return self.left + self.width / 2, self.top + self.height / 2

    def as_tuple(self) -> tuple[float, float, float, float]:
        """(left, top, right, bottom)."""
        return self.left, self.top, self.right, self.bottom

    def contains(self, other: Box) -> bool:
        """Whether all of `other` lies in this box; touching edges count as inside."""
        return (
            self.left <= other.left
            and self.top <= other.top
            and self.right >= other.right
            and self.bottom >= other.bottom
        )

    def intersect(self, other: Box) -> Box | None:
        """The common area, or None where there is none (boxes that only touch have none)."""
        left, right = max(self.left, other.left), min(self.right, other.right)
        top, bottom = max(self.top, other.top), min(self.bottom, other.bottom)
        return Box(left, top, right, bottom) if left < right and top < bottom else None

    def iou(self, other: Box) -> float:
        """Intersection over union, from 0 (apart) to 1 (equal). A box without area has 0 with everything."""
        common = self.intersect(other)
        if common is None:
            return 0.0
        union = self.area + other.area - common.area
        # Areas under- and overflow at the far ends of what a float holds; there the ratio means nothing.
        return min(1.0, common.area / union) if 0 < union < math.inf else 0.0

    def clamp(self, width: float, height: float) -> Box:
        """The box with every edge moved into the frame (0, 0, width, height). It may lose all its area."""
        return Box(
            min(max(self.left, 0.0), width),
            min(max(self.top, 0.0), height),
            min(max(self.right, 0.0), width),
            min(max(self.bottom, 0.0), height),
        )

    def grow(self, x: float, y: float | None = None) -> Box:
        """The box with `x` added on the left and on the right, and `y` (default: `x`) above and below."""
        y = x if y is None else y
        if x < 0 or y < 0:
            raise ValueError(f"a box cannot grow by a negative margin ({x}, {y})")
        return Box(self.left - x, self.top - y, self.right + x, self.bottom + y)


class Coordinates(StrEnum):
    """What a model means by the numbers in a box. A property of the model, never guessed from the numbers."""

    RESIZED = "resized"
    """Pixels of the view that the model saw."""
    ORIGINAL = "original"
    """Pixels of the original image, whatever view the model saw."""
    UNIT = "unit"
    """Shares of the view, 0 to 1."""
    PER_MILLE = "per_mille"
    """Thousandths of the view, 0 to 1000."""


_OVERSHOOT = {
    Coordinates.RESIZED: 1.0,
    Coordinates.ORIGINAL: 1.0,
    Coordinates.UNIT: 0.05,
    Coordinates.PER_MILLE: 0.05,
}
"""How far beyond its range a coordinate may lie and still be clamped, as a share of the range. A box in
pixels that hangs over the edge is common and harmless; one that misses by more than a whole picture is in
another system. In 0-1 and 0-1000 the range is fixed, so anything beyond rounding already means another
system."""


def parse_box(value: object) -> Box:
    """The box that a model wrote as [x1, y1, x2, y2], with its corners sorted.

    Numbers may come as strings, one by one (`["10", "10", "50", "50"]`) or as one text (`"[10, 10, 50, 50]"`).

    Raises:
        BoxError: Not four numbers, or one of them is not finite. The message is fit for the model to read.
    """
    if isinstance(value, str) and len(value) <= 200:
        value = value.strip().removeprefix("[").removesuffix("]").split(",")
    if not isinstance(value, list | tuple):
        raise BoxError(f"{_brief(value)} is not a box. {_FORM}")
    if len(value) != 4:
        raise BoxError(f"{_brief(value)} has {len(value)} entries. {_FORM}")
    x1, y1, x2, y2 = (_number(entry, value) for entry in value)
    return Box(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))


def _number(entry: object, whole: object) -> float:
    number = math.nan
    if isinstance(entry, bool):
        pass  # Python counts True as 1; a model that writes true means no number
    elif isinstance(entry, Real) or (isinstance(entry, str) and _is_number(entry)):
        with suppress(OverflowError):  # an integer that no float holds
            number = float(entry)
    if not math.isfinite(number):
        raise BoxError(f"{_brief(entry)} in {_brief(whole)} is not a finite number. {_FORM}")
    return number


def _is_number(text: str) -> bool:
    return len(text) <= 50 and _NUMBER.fullmatch(text) is not None


def to_original(
    box: Box,
    coordinates: Coordinates,
    *,
    region: Box,
    view_size: tuple[float, float],
    image_size: tuple[float, float],
) -> Box:
    """A model's box in pixels of the original image.

    Args:
        box: What the model named.
        coordinates: The system that it is in.
        region: The part of the original that the model's view shows, in original pixels.
        view_size: (width, height) in pixels of that view.
        image_size: (width, height) in pixels of the original.

    Returns:
        The box in original pixels, inside `region` (for `ORIGINAL`: inside the image). It may be a line or a
        point if `box` is.

    Raises:
        BoxError: The box lies outside its declared range, by more than a small overshoot or altogether.
    """
    width, height = _range(coordinates, view_size, image_size)
    slack = _OVERSHOOT[coordinates]
    tolerated = Box(0.0, 0.0, width, height).grow(slack * width, slack * height)
    inside = box.clamp(width, height)
    # A line inside the range is the model's affair; an area that clamping makes a line lies outside.
    lost = inside != box and (inside.width == 0 or inside.height == 0)
    if lost or not tolerated.contains(box):
        raise BoxError(_out_of_range(box, coordinates, width, height))
    if coordinates is Coordinates.ORIGINAL:
        return inside
    # The last bit of a product can lie past the region's edge, hence the clamp.
    left, right = (
        min(max(region.left + x / width * region.width, region.left), region.right) for x in (inside.left, inside.right)
    )
    top, bottom = (
        min(max(region.top + y / height * region.height, region.top), region.bottom)
        for y in (inside.top, inside.bottom)
    )
    return Box(left, top, right, bottom)


def from_original(
    box: Box,
    coordinates: Coordinates,
    *,
    region: Box,
    view_size: tuple[float, float],
    image_size: tuple[float, float],
) -> Box:
    """The inverse of `to_original`: a box in original pixels as a model that sees `region` would name it.

    Nothing is clamped: a box that reaches out of the region gets coordinates out of range.

    Raises:
        BoxError: The region has no area, so that nothing can be named in it.
    """
    if coordinates is Coordinates.ORIGINAL:
        return box
    if region.width <= 0 or region.height <= 0:
        raise BoxError(f"The region {_show(region.as_tuple())} has no area.")
    width, height = _range(coordinates, view_size, image_size)
    return Box(
        (box.left - region.left) / region.width * width,
        (box.top - region.top) / region.height * height,
        (box.right - region.left) / region.width * width,
        (box.bottom - region.top) / region.height * height,
    )


def _range(
    coordinates: Coordinates, view_size: tuple[float, float], image_size: tuple[float, float]
) -> tuple[float, float]:
    """The largest x and y of a coordinate system; the smallest are 0."""
    match coordinates:
        case Coordinates.RESIZED:
            return view_size
        case Coordinates.ORIGINAL:
            return image_size
        case Coordinates.UNIT:
            return 1.0, 1.0
        case Coordinates.PER_MILLE:
            return 1000.0, 1000.0


def crop_region(box: Box, image_size: tuple[float, float], *, min_side: float, context: float = 0.0) -> Box:
    """The window of an image to show for a box: the box, some context, and never too thin.

    The box is clamped to the frame, grown by `context` times its side on each side, and grown further around
    its centre to `min_side` and to no thinner than 1 to 100. The window is then shifted, not cut, into the
    frame, so it keeps its size wherever the frame is large enough. All in original pixels.

    Args:
        box: The area asked for.
        image_size: (width, height) of the image.
        min_side: The least width and height of the window.
        context: Margin as a share of the box's side; 1.0 adds one box width on the left and one on the right.

    Raises:
        BoxError: Nothing of the box lies in the image, or it has no area.
        ValueError: `min_side` or `context` is negative.
    """
    if not (0 <= min_side < math.inf and 0 <= context < math.inf):
        raise ValueError(f"min_side {min_side} and context {context} must be finite and not negative")
    width, height = image_size
    inside = box.clamp(width, height)
    if inside.width <= 0 or inside.height <= 0:
        raise BoxError(
            f"The box {_show(box.as_tuple())} holds no part of the picture. "
            f"The original picture is {_size(width, height)} pixels. "
            f"Give left < right, within 0 to {width:g}, and top < bottom, within 0 to {height:g}."
        )
    wanted_width = max(inside.width * (1 + 2 * context), min_side)
    wanted_height = max(inside.height * (1 + 2 * context), min_side)
    wanted_width = max(wanted_width, min(wanted_height, height) / _THINNEST)
    wanted_height = max(wanted_height, min(wanted_width, width) / _THINNEST)
    left, right = _window(inside.left, inside.right, wanted_width, width)
    top, bottom = _window(inside.top, inside.bottom, wanted_height, height)
    return Box(left, top, right, bottom)


def _window(low: float, high: float, length: float, frame: float) -> tuple[float, float]:
    """The span of `length` around the middle of (low, high), shifted into (0, frame)."""
    if length >= frame:
        return 0.0, frame
    start = min(max((low + high) / 2 - length / 2, 0.0), frame - length)
    # Rounding must neither push the window out of the frame nor shave the box.
    return min(start, low), min(max(start + length, high), frame)


def _out_of_range(box: Box, coordinates: Coordinates, width: float, height: float) -> str:
    shown = _show(box.as_tuple())
    match coordinates:
        case Coordinates.RESIZED:
            rule = f"The picture that you see is {_size(width, height)} pixels"
        case Coordinates.ORIGINAL:
            rule = f"The original picture is {_size(width, height)} pixels"
        case _:
            rule = "Coordinates are shares of the picture that you see"
    rule += f": x runs from 0 to {width:g}, y from 0 to {height:g}."
    return f"The box {shown} lies outside the picture. {rule} Give left < right and top < bottom in that range."


def _size(width: float, height: float) -> str:
    return f"{width:g} x {height:g}"


def _show(edges: tuple[float, ...]) -> str:
    return "[" + ", ".join(f"{edge:g}" for edge in edges) + "]"


def _brief(value: object) -> str:
    """A model's text for an error message, at a length that no message drowns in."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python will print
        return "A number with thousands of digits"
    return text if len(text) <= 80 else text[:77] + "..."
