"""Turned images: where a point of an image lies after the image has been turned, and back.

An image of w x h pixels that is turned by an angle about its middle just fits into a frame of

    w' = w |cos| + h |sin|,    h' = w |sin| + h |cos|

whose pixels are counted from its own upper left corner. Angles are degrees clockwise. A quarter turn maps pixels to
pixels, so it is exact; other angles leave corners of the frame empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from speceyes.errors import BoxError
from speceyes.imaging.geometry import Box

_QUARTERS = {0.0: (1.0, 0.0), 90.0: (0.0, 1.0), 180.0: (-1.0, 0.0), 270.0: (0.0, -1.0)}

Size = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Turned:
    """How a view of a turned image lies.

    Attributes:
        angle: Degrees clockwise, above 0 and below 360.
        window: The part that the view shows, in pixels of the turned image's frame.
        frame: (width, height) of that frame.
    """

    angle: float
    window: Box
    frame: Size


def clockwise(angle: float) -> float:
    """The angle from 0 up to, but not including, 360."""
    turned = angle % 360.0
    return 0.0 if turned == 360.0 else turned  # a tiny negative angle is rounded up to a whole turn


def cos_sin(angle: float) -> Size:
    """(cos, sin), without a rounding error at quarter turns."""
    exact = _QUARTERS.get(clockwise(angle))
    return exact or (math.cos(math.radians(angle)), math.sin(math.radians(angle)))


def turned_size(size: Size, angle: float) -> Size:
    """(width, height) of the frame that just holds the image when it is turned."""
    cos, sin = map(abs, cos_sin(angle))
    return size[0] * cos + size[1] * sin, size[0] * sin + size[1] * cos


def turn_point(x: float, y: float, size: Size, angle: float) -> Size:
    """Where a point of the image lies in the turned image's frame."""
    cos, sin = cos_sin(angle)
    width, height = turned_size(size, angle)
    across, down = x - size[0] / 2, y - size[1] / 2
    return width / 2 + across * cos - down * sin, height / 2 + across * sin + down * cos


def unturn_point(x: float, y: float, size: Size, angle: float) -> Size:
    """The inverse of `turn_point`; `size` is that of the image, not of the frame."""
    cos, sin = cos_sin(angle)
    width, height = turned_size(size, angle)
    across, down = x - width / 2, y - height / 2
    return size[0] / 2 + across * cos + down * sin, size[1] / 2 - across * sin + down * cos


def turn_box(box: Box, size: Size, angle: float) -> Box:
    """The smallest box of the turned image's frame that holds a box of the image."""
    return _around([turn_point(x, y, size, angle) for x, y in _corners(box)]).clamp(*turned_size(size, angle))


def unturn_box(window: Box, size: Size, angle: float) -> Box:
    """The smallest box of the image that holds what a window of the turned image shows of it.

    Raises:
        BoxError: The window lies in an empty corner of the frame.
    """
    around = _around([unturn_point(x, y, size, angle) for x, y in _corners(window)])
    # Rectangles that overlap along all four of their axes do overlap. Along those of the frame they always do here.
    shown = around.intersect(Box(0.0, 0.0, *size))
    if shown is None:
        raise BoxError("There is nothing of the picture in that corner. Give a box that holds a part of it.")
    return shown


def _corners(box: Box) -> tuple[Size, Size, Size, Size]:
    return (box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom)


def _around(points: list[Size]) -> Box:
    xs, ys = zip(*points, strict=True)
    return Box(min(xs), min(ys), max(xs), max(ys))
