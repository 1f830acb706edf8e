"""The camera's orientation tag: applied once, then gone."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from imaging_samples import encode, near, pixel, png_chunk, png_file
from PIL import Image, ImageOps, features

from speceyes.imaging import QWEN2_5_VL, Box, decode, render

UPRIGHT = Image.new("RGB", (64, 48), "white")
UPRIGHT.paste("red", (0, 0, 64, 8))
UPRIGHT.paste("blue", (0, 8, 8, 48))
"""A red bar at the top and a blue one at the left: all eight ways to hold it differ."""

STORED_AS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
FORMATS: list[tuple[str, dict[str, Any]]] = [
    ("JPEG", {"quality": 95, "subsampling": 0}),
    ("PNG", {}),
    ("WEBP", {"lossless": True}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
]
if features.check("avif"):
    FORMATS.append(("AVIF", {"quality": 95}))


def photograph(orientation: int, image_format: str, **options: Any) -> bytes:
    turn = STORED_AS[orientation]
    stored = UPRIGHT if turn is None else UPRIGHT.transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(stored, image_format, exif=exif, **options)


def assert_upright(image: Image.Image) -> None:
    assert image.size == (64, 48)
    assert near(pixel(image, 60, 3), (255, 0, 0))
    assert near(pixel(image, 3, 44), (0, 0, 255))
    assert near(pixel(image, 60, 44), (255, 255, 255))


@pytest.mark.parametrize(("image_format", "options"), FORMATS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_all_eight_ways_come_out_upright(orientation: int, image_format: str, options: dict[str, Any]) -> None:
    image = decode(photograph(orientation, image_format, **options))
    assert_upright(image.pixels)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_tag_is_gone_so_nobody_turns_again(orientation: int) -> None:
    image = decode(photograph(orientation, "JPEG", quality=95, subsampling=0))
    assert 0x0112 not in image.pixels.getexif()
    again = decode(encode(image.pixels, "PNG"))
    assert_upright(again.pixels)
    assert_upright(ImageOps.exif_transpose(image.pixels))


def test_crops_are_taken_from_the_upright_picture() -> None:
    image = decode(photograph(6, "JPEG", quality=95, subsampling=0))
    view = render(image, Box(20, 0, 64, 7), QWEN2_5_VL)
    assert near(pixel(view.pixels, view.size[0] - 4, 4), (255, 0, 0))


@pytest.mark.parametrize("value", [0, 9, 255, 65535])
def test_a_value_that_means_nothing_turns_nothing(value: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = value
    assert_upright(decode(encode(UPRIGHT, "PNG", exif=exif)).pixels)


BROKEN = {
    "no TIFF header": b"Exif\0\0garbage garbage garbage",
    "cut short": b"Exif\0\0MM\0*",
    "offset outside": b"Exif\0\0II*\0" + struct.pack("<I", 0xFFFFFFF0),
    "entries missing": b"Exif\0\0II*\0" + struct.pack("<IH", 8, 5000),
    "wrong type": b"Exif\0\0II*\0" + struct.pack("<IHHHI4sI", 8, 1, 0x0112, 2, 4, b"six\0", 0),
    "empty": b"Exif\0\0",
}


@pytest.mark.parametrize("exif", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("image_format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_broken_block_does_not_cost_the_picture(image_format: str, exif: bytes) -> None:
    assert decode(encode(UPRIGHT, image_format, exif=exif)).size == (64, 48)


@pytest.mark.filterwarnings("error::UserWarning")
def test_a_broken_block_is_survived_where_warnings_are_errors() -> None:
    for exif in BROKEN.values():
        assert_upright(decode(encode(UPRIGHT, "PNG", exif=exif)).pixels)


def test_a_png_may_carry_its_tag_behind_the_pixels() -> None:
    exif = b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x0112, 3, 1, 6, 0, 0)
    rows = (b"\0" + b"\xff\0\0" * 3) * 2
    image = decode(png_file((3, 2), rows, after=(png_chunk(b"eXIf", exif),)))
    assert image.size == (2, 3)
