"""Damage is an error, never grey or black where pixels should be."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from imaging_samples import encode, natural, png_chunk, png_file
from PIL import Image, features

from speceyes.errors import ImageError
from speceyes.imaging import decode

PICTURE = natural(400, 300)
FORMATS: list[tuple[str, dict[str, Any]]] = [
    ("JPEG", {"quality": 90}),
    ("JPEG", {"quality": 90, "progressive": True}),
    ("JPEG", {"quality": 90, "restart_marker_rows": 2}),
    ("PNG", {}),
    ("GIF", {}),
    ("WEBP", {}),
    ("WEBP", {"lossless": True}),
    ("BMP", {}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
    ("TIFF", {"compression": "tiff_adobe_deflate"}),
    ("JPEG2000", {}),
    ("PPM", {}),
]
if features.check("avif"):
    FORMATS.append(("AVIF", {}))


@pytest.mark.parametrize("part", [0.1, 0.3, 0.6, 0.95])
@pytest.mark.parametrize(("image_format", "options"), FORMATS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_file_cut_short_is_refused(image_format: str, options: dict[str, Any], part: float) -> None:
    data = encode(PICTURE, image_format, **options)
    assert decode(data).size == (400, 300)
    with pytest.raises(ImageError, match="image 3"):
        decode(data[: int(len(data) * part)], name="image 3")


@pytest.mark.parametrize("bytes_lost", [1, 2, 12])
@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
def test_a_missing_end_mark_is_refused(image_format: str, bytes_lost: int) -> None:
    with pytest.raises(ImageError):
        decode(encode(PICTURE, image_format)[:-bytes_lost])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "GIF", "JPEG2000"])
def test_a_valid_head_with_a_random_tail_is_refused(image_format: str, seed: int) -> None:
    data = encode(PICTURE, image_format)
    half = len(data) // 2
    with pytest.raises(ImageError):
        decode(data[:half] + random.Random(seed).randbytes(half))


@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "GIF", "BMP", "WEBP"])
def test_junk_behind_the_end_does_no_harm(image_format: str) -> None:
    data = encode(PICTURE, image_format)
    junk = b"<!-- uploaded by a careless form -->\xff\xd8\xff\x13" * 20
    assert decode(data + junk).pixels.tobytes() == decode(data).pixels.tobytes()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"restart_marker_rows": 1},
        {"optimize": True, "quality": 30},
        {"subsampling": 0},
    ],
)
@pytest.mark.parametrize("part", [0.4, 0.7, 0.97])
def test_a_jpeg_whose_data_ends_early_behind_an_end_marker_is_refused(options: dict[str, Any], part: float) -> None:
    data = encode(natural(400, 300), "JPEG", **options)
    with pytest.raises(ImageError):
        decode(data[: int(len(data) * part)] + b"\xff\xd9")


def test_a_progressive_jpeg_that_ends_in_its_first_scan_is_refused() -> None:
    data = encode(PICTURE, "JPEG", progressive=True)
    first = data.index(b"\xff\xda")
    second = data.index(b"\xff\xda", first + 2)
    with pytest.raises(ImageError):
        decode(data[: (first + second) // 2] + b"\xff\xd9")


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}])
@pytest.mark.parametrize("size", [(1, 1), (5, 3), (64, 64), (333, 127)])
def test_a_whole_jpeg_with_flat_corners_is_fine(size: tuple[int, int], options: dict[str, Any], mode: str) -> None:
    for colour in ("white", "black", "grey"):
        picture = Image.new("RGB", size, colour)
        picture.paste("red", (0, 0, size[0] // 2, size[1] // 2))
        assert decode(encode(picture.convert(mode), "JPEG", **options)).size == size


@pytest.mark.parametrize("kind", [b"IHDR", b"IDAT", b"tEXt", b"IEND"])
def test_a_wrong_png_checksum_is_refused(kind: bytes) -> None:
    data = png_file((2, 2), (b"\0" + b"\1\2\3" * 2) * 2, png_chunk(b"tEXt", b"Title\0sunset"))
    assert decode(data).size == (2, 2)
    at = data.index(kind)
    length = int.from_bytes(data[at - 4 : at])
    broken = bytearray(data)
    broken[at + 4 + length] ^= 1
    with pytest.raises(ImageError):
        decode(bytes(broken))


def rows_of(picture: Image.Image) -> bytes:
    width, height = picture.size
    raw, stride = picture.tobytes(), width * len(picture.getbands())
    return b"".join(b"\0" + raw[y * stride : (y + 1) * stride] for y in range(height))


@pytest.mark.parametrize("missing", [1, 301, 5000])
def test_a_png_with_too_few_rows_is_refused(missing: int) -> None:
    rows = rows_of(natural(100, 80))
    assert decode(png_file((100, 80), rows)).size == (100, 80)
    with pytest.raises(ImageError):
        decode(png_file((100, 80), rows[:-missing]))


def test_a_whole_png_with_a_black_bottom_is_fine() -> None:
    for mode in ("RGB", "L", "RGBA", "1", "P", "LA", "I;16"):
        data = encode(Image.new(mode, (333, 127)), "PNG")
        assert decode(data).size == (333, 127)


def test_a_png_that_inflates_in_many_pieces_is_counted_whole() -> None:
    # Much more than one step of the decompressor, from one small chunk.
    assert decode(encode(Image.new("RGB", (3000, 2000)), "PNG")).size == (3000, 2000)


def interlaced(picture: Image.Image) -> bytes:
    """The rows of the seven passes (PNG specification, section 8.2)."""
    out = b""
    passes = [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ]
    for x, y, dx, dy in passes:
        for row in range(y, picture.height, dy):
            line = b"".join(bytes(picture.getpixel((c, row))) for c in range(x, picture.width, dx))
            out += b"\0" + line if line else b""
    return out


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (37, 23)])
def test_interlaced_png_whole_and_short(size: tuple[int, int]) -> None:
    picture = natural(*size)
    rows = interlaced(picture)
    assert decode(png_file(size, rows, interlace=1)).pixels.tobytes() == picture.tobytes()
    with pytest.raises(ImageError):
        decode(png_file(size, rows[:-1], interlace=1))


def test_pixels_split_over_many_chunks() -> None:
    packed = zlib.compress(rows_of(Image.new("RGB", (100, 80))))
    whole = png_file((100, 80), b"")
    head = whole[: whole.index(b"IDAT") - 4]
    parts = b"".join(png_chunk(b"IDAT", packed[i : i + 7]) for i in range(0, len(packed), 7))
    assert decode(head + parts + png_chunk(b"IEND", b"")).size == (100, 80)
