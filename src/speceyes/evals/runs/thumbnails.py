"""Small copies of the pictures, so that a report can show what was asked about without the data set."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Final

from PIL import Image

from speceyes.errors import ConfigError
from speceyes.evals.records.durable import replace_file
from speceyes.imaging.decode import DecodedImage

LONGEST: Final = 768
"""Longer side of a thumbnail, in pixels."""
_QUALITY: Final = 85


def thumbnail_name(image: DecodedImage) -> str:
    """The file's name: questions about one picture share its thumbnail."""
    return f"{image.sha256[:20]}.jpg"


def thumbnail(image: DecodedImage) -> bytes:
    """The picture as a JPEG whose longer side is at most `LONGEST`; a smaller one keeps its size."""
    scale = min(1.0, LONGEST / max(image.size))
    width, height = (max(1, round(side * scale)) for side in image.size)
    # A copy is unpacked: the picture itself is to be unpacked by whoever is measured at it, first or not.
    pixels = (replace(image) if image.source else image).shrunk((width, height))
    if pixels.size != (width, height):
        pixels = pixels.resize((width, height), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    pixels.save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()


def keep_thumbnail(image: DecodedImage, folder: Path) -> Path:
    """Write a picture's thumbnail into a folder, unless it is there.

    Raises:
        ConfigError: It cannot be written.
    """
    path = folder / thumbnail_name(image)
    if not path.is_file():
        try:
            folder.mkdir(exist_ok=True)
            data = thumbnail(image)
            replace_file(path, lambda file: file.write(data))
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror or error}.") from error
    return path
