"""Pictures for the checks."""

from __future__ import annotations

import struct
import zlib

from PIL import Image


def a_picture(size: tuple[int, int], colour: tuple[int, int, int] = (200, 30, 30)) -> Image.Image:
    """One colour all over."""
    return Image.new("RGB", size, colour)


def png_bomb(side: int) -> bytes:
    """A PNG of side x side black pixels, one bit each: a few kilobytes that unpack to `side`^2 pixels."""
    row = bytes(1 + (side + 7) // 8)
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in ((b"IHDR", head), (b"IDAT", packed), (b"IEND", b""))
    )
