"""Pictures and files that several imaging tests need."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image

from speceyes.imaging import DecodedImage, decode


def encode(image: Image.Image, image_format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, image_format, **options)
    return out.getvalue()


def decoded(image: Image.Image) -> DecodedImage:
    """A picture that has been through intake."""
    return decode(encode(image, "PNG", compress_level=1))


def natural(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth colours with some texture: compresses like a photograph and has no flat corner."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [120 + 60 * np.sin(x / (9 + 5 * c)) + 50 * np.cos(y / (7 + 3 * c)) for c in range(3)]
    noise = rng.normal(0, 6, (height, width, 3))
    return Image.fromarray(np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8))


def png_chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def png_file(
    size: tuple[int, int],
    rows: bytes,
    *extra: bytes,
    depth: int = 8,
    colour: int = 2,
    interlace: int = 0,
    after: tuple[bytes, ...] = (),
) -> bytes:
    """A PNG from its filtered rows; `extra` chunks stand before the pixels, `after` behind them."""
    header = struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, interlace)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            png_chunk(b"IHDR", header),
            *extra,
            png_chunk(b"IDAT", zlib.compress(rows, 1)),
            *after,
            png_chunk(b"IEND", b""),
        ]
    )


def pixel(image: Image.Image, x: int, y: int) -> tuple[int, ...]:
    value = image.getpixel((x, y))
    assert isinstance(value, tuple)
    return value


def near(colour: tuple[int, ...], wanted: tuple[int, ...], tolerance: int = 40) -> bool:
    return all(abs(a - b) <= tolerance for a, b in zip(colour, wanted, strict=True))
