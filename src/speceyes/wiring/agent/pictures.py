"""The images of a question, in whatever form a program has them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from speceyes.errors import ImageError
from speceyes.imaging.decode import DecodedImage, decode, load
from speceyes.imaging.modes import to_rgb
from speceyes.tools.functions.results import from_array

Picture = str | Path | bytes | Image.Image | DecodedImage | np.ndarray[Any, Any]
"""A path, the bytes of a file, a Pillow image, an array of shape (height, width[, 3]), or a decoded image."""


async def read_pictures(given: Picture | Sequence[Picture]) -> tuple[DecodedImage, ...]:
    """The images, decoded in threads.

    Raises:
        ImageError: One cannot be read. The message names it.
    """
    several = given if isinstance(given, list | tuple) else [given]
    reading = (asyncio.to_thread(_read, picture, f"image {number}") for number, picture in enumerate(several, 1))
    return tuple(await asyncio.gather(*reading))


def _read(picture: object, name: str) -> DecodedImage:
    match picture:
        case DecodedImage():
            return picture
        case str() if "://" in picture[:12] or picture.startswith("data:"):
            raise ImageError(f"{name}: addresses are not fetched here. Give a path, or the bytes of the file.")
        case str() | Path():
            return load(picture)
        case bytes() | bytearray() | memoryview():
            return decode(bytes(picture), name=name)
        case Image.Image():
            return DecodedImage.of_pixels(to_rgb(picture))
        case np.ndarray():
            try:
                return DecodedImage.of_pixels(to_rgb(from_array(picture)))
            except (ValueError, TypeError) as error:
                raise ImageError(f"{name}: {error}.") from error
    raise ImageError(f"{name}: a {type(picture).__name__} is no image. Give a path, bytes, a Pillow image or an array.")
