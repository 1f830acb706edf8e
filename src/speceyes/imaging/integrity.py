"""Damage that a decoder passes over in silence.

Pillow reports most damage by itself. It is silent, and leaves grey or black where pixels should be, for a
JPEG whose data ends early behind a valid end marker, for a PNG with wrong checksums or too few rows, and for
some JPEGs with a broken middle. These checks find those. They cannot find damage in formats without any
redundancy (raw BMP, PPM and TIFF), nor a few flipped bits in JPEG or WebP data, nor that a progressive JPEG
with an end marker lacks its last refinements: that one is coarse, but all there.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator

from PIL import Image, ImageChops
from PIL.JpegImagePlugin import JpegImageFile

_PNG_HEAD = 8
_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""First column, first row, column step and row step of the seven passes of an interlaced PNG."""

# It begins with a plain byte, which `re` finds at the speed of memory.
_JPEG_MARKER = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])", re.DOTALL)
_JPEG_END, _JPEG_SCAN = 0xD9, 0xDA
_JPEG_BEFORE_SCAN = {*range(0xC0, 0xD0), *range(0xDA, 0xDE), *range(0xE0, 0xF0), 0xFE}
_JPEG_AFTER_SCAN = _JPEG_BEFORE_SCAN - {*range(0xC0, 0xD0)} | {0xC4, 0xCC}
"""Between scans there may be tables and comments, but no second frame header."""


class DamagedError(ValueError):
    """The bytes are not what their format promises."""


def check_bytes(data: bytes, image_format: str) -> None:
    """Check a file's structure before it is decoded.

    Raises:
        DamagedError: A checksum or a marker is wrong, or the file ends before its end mark.
    """
    if image_format == "PNG":
        for _ in _png_chunks(data):
            pass
    elif image_format in ("JPEG", "MPO"):
        _jpeg_end(data)


def check_pixels(data: bytes, image: Image.Image) -> None:
    """Check, for an image that was decoded, that the file held data for all of its pixels.

    A decoder that runs out of data leaves the rest flat. So only pictures whose last pixels are flat cost
    more than a glance.

    Raises:
        DamagedError: The data ends early.
    """
    width, height = image.size
    if image.format == "PNG":
        last_row = image.crop((0, height - 1, width, height))
        if image.info.get("interlace") or last_row.getbbox(alpha_only=False) is None:
            _check_png_rows(data)
    elif image.format in ("JPEG", "MPO"):
        # of the last block of 8 x 8 alone: the one before it may be complete
        corner = image.crop(
            (max(width - 4, (width - 1) // 8 * 8), max(height - 4, (height - 1) // 8 * 8), width, height)
        )
        if _is_flat(corner):
            _check_jpeg_scan(data, image)


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """(type, content) of every chunk to the end chunk; what comes after that does not count."""
    view = memoryview(data)
    position = _PNG_HEAD
    while position + 12 <= len(data):
        length = int.from_bytes(view[position : position + 4])
        end = position + 8 + length
        if end + 4 > len(data):
            break
        kind = bytes(view[position + 4 : position + 8])
        if zlib.crc32(view[position + 4 : end]) != int.from_bytes(view[end : end + 4]):
            raise DamagedError(f"the checksum of the PNG chunk {kind!r} at byte {position} is wrong")
        yield kind, view[position + 8 : end]
        if kind == b"IEND":
            return
        position = end + 4
    raise DamagedError("the PNG ends before its end chunk")


def _check_png_rows(data: bytes) -> None:
    expected, found = 0, 0
    inflate = zlib.decompressobj()
    for kind, content in _png_chunks(data):
        if kind == b"IHDR":
            expected = _png_raw_size(content)
        elif kind == b"IDAT":
            rest: bytes | memoryview = content
            while rest and found < expected and not inflate.eof:
                found += len(inflate.decompress(rest, 1 << 20))
                rest = inflate.unconsumed_tail
    if found < expected:
        raise DamagedError(f"the PNG holds {found} bytes of pixels and needs {expected}")


def _png_raw_size(header: memoryview) -> int:
    """Bytes of filtered rows that a PNG of this IHDR holds."""
    width, height = int.from_bytes(header[0:4]), int.from_bytes(header[4:8])
    bits = header[8] * _PNG_CHANNELS[header[9]]
    passes = _ADAM7 if header[12] else ((0, 0, 1, 1),)
    total = 0
    for x, y, dx, dy in passes:
        columns, rows = (width - x + dx - 1) // dx, (height - y + dy - 1) // dy
        if columns > 0 and rows > 0:
            total += rows * (1 + (columns * bits + 7) // 8)
    return total


def _jpeg_end(data: bytes) -> int:
    """Offset of the end marker. Bytes after it (a second picture, junk) do not count."""
    position, allowed = 2, _JPEG_BEFORE_SCAN
    while found := _JPEG_MARKER.search(data, position):
        marker = data[found.end() - 1]
        if marker == _JPEG_END:
            return found.end() - 2
        if marker not in allowed:
            where = f"ff {marker:02x} at byte {found.end() - 2}"
            raise DamagedError(f"the JPEG holds {where}, where no such marker may stand")
        if marker == _JPEG_SCAN:
            allowed = _JPEG_AFTER_SCAN
        position = found.end() + int.from_bytes(data[found.end() : found.end() + 2])
    raise DamagedError("the JPEG ends before its end marker")


def _check_jpeg_scan(data: bytes, image: Image.Image) -> None:
    """Find a scan that ends early: with more data before the end marker it decodes to something else.

    A complete picture ignores extra data; an incomplete one takes it for its missing blocks.
    """
    end = _jpeg_end(data)
    probe = JpegImageFile(io.BytesIO(data[:end] + b"\x5a\xa5\x3c" * 300 + b"\xff\xd9"))
    if ImageChops.difference(probe, image).getbbox(alpha_only=False) is not None:
        raise DamagedError("the JPEG's data ends before its last pixels")


def _is_flat(image: Image.Image) -> bool:
    # nearly: colour of the neighbours bleeds in where it is stored at half the resolution
    return all(high - low <= 2 for low, high in image.convert("RGB").getextrema())  # type: ignore[misc]
