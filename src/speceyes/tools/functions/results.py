"""What a function gave back, as text and pictures for the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from speceyes.imaging.decode import DecodedImage, decode
from speceyes.imaging.geometry import Box
from speceyes.imaging.looks import look_closer
from speceyes.imaging.modes import to_rgb
from speceyes.imaging.resize import PixelLimits
from speceyes.imaging.view import View
from speceyes.tools.base import ToolResult

MADE = -1
"""The image index of a picture that a tool made: it shows no image of the query."""

NOTHING = "Done."


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes that should be an image file."""

    data: bytes


async def as_result(value: Any, limits: PixelLimits) -> ToolResult:
    """Text and pictures from any value.

    Args:
        value: A text; a picture (Pillow, an array, the bytes of an image file, a `View`); anything that JSON can say; a
            `ToolResult`; or a list with pictures among its elements. None is told as "Done.".
        limits: Sizes of picture that the model takes.

    Raises:
        ImageError: Bytes are no image, or a picture has a shape that the model cannot take.
        ValueError: An array is no picture.
    """
    if isinstance(value, ToolResult):
        return value
    parts = _parts(value)
    views = [await _view(part, limits) for part in parts if not isinstance(part, str)]
    text = "\n".join(part for part in parts if isinstance(part, str))
    return ToolResult(text if text or views else NOTHING, tuple(views))


async def show_made(picture: Image.Image | DecodedImage, limits: PixelLimits) -> View:
    """A picture that a tool made, as a model with these limits sees it. Later boxes on it are boxes of this picture.

    Raises:
        ImageError: It has a shape that the model cannot take.
    """
    image = picture if isinstance(picture, DecodedImage) else DecodedImage.of_pixels(to_rgb(picture))
    return replace(await look_closer(image, None, limits, MADE), made=image)


Part = str | View | Image.Image | Raw


def _parts(value: Any) -> list[Part]:
    if isinstance(value, list | tuple) and any(_is_picture(one) for one in value):
        return [part for one in value for part in _parts(one)]
    return [] if value is None or (isinstance(value, str) and not value) else [_part(value)]


def _part(value: Any) -> Part:
    if isinstance(value, str | View | Image.Image):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return Raw(bytes(value))
    if isinstance(value, np.ndarray) and _is_picture(value):
        return from_array(value)
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _is_picture(value: Any) -> bool:
    """An array is one where its numbers are bytes or truth values in rows and columns, or where it has colours."""
    if isinstance(value, np.ndarray):
        coloured = value.ndim == 3 and value.shape[2] in (1, 3, 4)
        return coloured or (value.ndim == 2 and value.dtype in (np.uint8, np.bool_))
    return isinstance(value, View | Image.Image | bytes | bytearray | memoryview)


def from_array(array: np.ndarray[Any, Any]) -> Image.Image:
    """An array of shape (height, width) or (height, width, 1 | 3 | 4): bytes, truth values, or shares from 0 to 1."""
    if 0 in array.shape:
        raise ValueError(f"an array of shape {array.shape} is no picture: it has no pixels")
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * 255
    elif array.dtype != np.uint8:
        low, high = float(np.min(array)), float(np.max(array))
        if not (low >= 0 and high <= (255 if np.issubdtype(array.dtype, np.integer) else 1)):
            raise ValueError(
                f"an array of {array.dtype} from {low:g} to {high:g} is no picture: give bytes, or shares from 0 to 1"
            )
        array = (array if np.issubdtype(array.dtype, np.integer) else np.rint(array * 255)).astype(np.uint8)
    return Image.fromarray(array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array)


def _plain(value: Any) -> Any:
    """What `json` cannot say by itself."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Box):
        return list(value.as_tuple())
    if isinstance(value, set | frozenset | Sequence):
        return list(value)
    return str(value)


async def _view(part: Part, limits: PixelLimits) -> View:
    if isinstance(part, View):
        return part
    picture = decode(part.data, name="the picture that the tool gave back") if isinstance(part, Raw) else part
    assert not isinstance(picture, str)
    return await show_made(picture, limits)
