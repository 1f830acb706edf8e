"""The first reading of a JPEG: is it whole? What has been unpacked for that serves every small view.

Most of the work of unpacking a JPEG is to read its data, and that takes as long for a picture at half of its size. So
the check reads it at a size that is enough for the looks of most models, and nothing has to be read again for them.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from speceyes.imaging.modes import to_rgb

FACTORS = (8, 4, 2)
"""A JPEG can be had at 1/8, 1/4 and 1/2 of its size: it keeps blocks of 8 x 8 pixels as frequencies, and the high ones
are left out."""

_PLENTY = 2_400_000
"""Pixels that suffice for a look of a megapixel."""
_MIDDLE_GREY = 128
_HUFFMAN_SEQUENTIAL = {0xC0, 0xC1}
_NO_FRAMES = {0xC4, 0xC8, 0xCC}


@dataclass(frozen=True, slots=True)
class Glance:
    """What the first reading gives.

    Attributes:
        factor: How many times smaller than the file the picture is.
        picture: The picture, RGB; each side is the file's, divided by the factor and rounded up.
        surely_whole: The data of all pixels is plainly there. False: look closer.
    """

    factor: int
    picture: Image.Image
    surely_whole: bool


def glance_factor(data: bytes, size: tuple[int, int]) -> int | None:
    """At which part of its (width, height) a JPEG is read first. None: it is too small for that."""
    if min(size) < FACTORS[0]:
        return None
    if not _is_sequential(data):
        return FACTORS[0]
    return next((factor for factor in FACTORS if size[0] * size[1] >= _PLENTY * factor**2), FACTORS[-1])


def glance(data: bytes) -> Glance | None:
    """Read a JPEG of ordinary colour or grey, upright. None: it is too small.

    Behind data that ends early, all blocks of a sequential file are middle grey. Those of others are that, or what the
    block before them was; at 1/8 of the size, where a block is one pixel, its mean, the last two pixels of the last row
    tell by their brightness. Larger, they would not: the decoder smooths what is unfinished.
    """
    image = JpegImageFile(io.BytesIO(data))
    size = image.size
    factor = glance_factor(data, size)
    if factor is None:
        return None
    sequential = _is_sequential(data)
    image.draft("RGB" if sequential else "YCbCr", (size[0] // factor, size[1] // factor))
    image.load()
    corner = (image.width - 1, image.height - 1)
    if sequential:
        whole = image.getpixel(corner) not in (_MIDDLE_GREY, (_MIDDLE_GREY,) * 3)
    else:
        last, before = (_brightness(image, max(0, corner[0] - back), corner[1]) for back in (0, 1))
        whole = last not in (_MIDDLE_GREY, before)
    picture = to_rgb(image)
    return Glance(factor, picture.copy() if picture is image else picture, whole)


def _brightness(image: Image.Image, x: int, y: int) -> object:
    value = image.getpixel((x, y))
    return value[0] if isinstance(value, tuple) else value


def _is_sequential(data: bytes) -> bool:
    """Whether the frame is of the ordinary kind: Huffman codes, each block written at once (ITU-T T.81, table B.1)."""
    position = 2
    while (position := data.find(b"\xff", position)) >= 0 and position + 4 <= len(data):
        marker = data[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_FRAMES:
            return marker in _HUFFMAN_SEQUENTIAL
        is_filler = marker in (0x00, 0xFF)
        position += 1 if is_filler else 2 + int.from_bytes(data[position + 2 : position + 4])
    return False
