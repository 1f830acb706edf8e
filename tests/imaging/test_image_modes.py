"""Unusual pixel types become the picture that a person would expect."""

from __future__ import annotations

import io

import numpy as np
import pytest
from imaging_samples import encode, near, pixel
from PIL import Image

from speceyes.errors import ImageError
from speceyes.imaging import decode
from speceyes.imaging.modes import to_rgb


def reopened(image: Image.Image, image_format: str) -> Image.Image:
    """Through a file, and then through `decode`: with what the format makes of the mode."""
    return decode(encode(image, image_format)).pixels


def test_one_bit() -> None:
    image = Image.new("1", (8, 8), 1)
    image.putpixel((0, 0), 0)
    shown = reopened(image, "PNG")
    assert pixel(shown, 0, 0) == (0, 0, 0)
    assert pixel(shown, 7, 7) == (255, 255, 255)


def test_grey_and_palette() -> None:
    assert pixel(reopened(Image.new("L", (4, 4), 77), "PNG"), 1, 1) == (77, 77, 77)
    palette = Image.new("RGB", (4, 4), (200, 30, 60)).quantize(4)
    assert palette.mode == "P"
    assert near(pixel(reopened(palette, "PNG"), 1, 1), (200, 30, 60), 8)
    assert near(pixel(reopened(palette, "GIF"), 1, 1), (200, 30, 60), 8)


@pytest.mark.parametrize(
    ("mode", "clear", "half"),
    [("RGBA", (255, 0, 0, 0), (255, 0, 0, 128)), ("LA", (0, 0), (0, 128))],
)
@pytest.mark.parametrize("image_format", ["PNG", "WEBP", "TIFF"])
def test_transparency_shows_white(image_format: str, mode: str, clear: tuple[int, ...], half: tuple[int, ...]) -> None:
    image = Image.new(mode, (16, 8), clear)
    image.paste(half, (8, 0, 16, 8))
    options = {"lossless": True, "exact": True} if image_format == "WEBP" else {}
    shown = decode(encode(image, image_format, **options)).pixels
    assert near(pixel(shown, 1, 1), (255, 255, 255), 2)
    expected = (255, 127, 127) if mode == "RGBA" else (127, 127, 127)
    assert near(pixel(shown, 12, 4), expected, 3)


@pytest.mark.parametrize("image_format", ["PNG", "GIF"])
def test_a_transparent_palette_entry_shows_white(image_format: str) -> None:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((0, 0), 0)
    shown = decode(encode(image, image_format, transparency=0)).pixels
    assert pixel(shown, 0, 0) == (255, 255, 255)
    assert pixel(shown, 2, 2) == (200, 100, 50)


@pytest.mark.parametrize(("mode", "colour", "other"), [("RGB", (9, 8, 7), (50, 60, 70)), ("L", 9, 50), ("1", 0, 1)])
def test_a_transparent_colour_shows_white(
    mode: str, colour: int | tuple[int, ...], other: int | tuple[int, ...]
) -> None:
    image = Image.new(mode, (4, 4), other)
    image.putpixel((0, 0), colour)
    data = encode(image, "PNG", transparency=colour)
    assert pixel(decode(data).pixels, 0, 0) == (255, 255, 255)


def test_premultiplied_and_palette_alpha() -> None:
    assert pixel(to_rgb(Image.new("RGBA", (2, 2), (0, 0, 0, 0)).convert("RGBa")), 0, 0) == (255,) * 3
    assert pixel(to_rgb(Image.new("PA", (2, 2), (0, 0))), 0, 0) == (255,) * 3


def test_sixteen_bit_png_uses_the_full_range() -> None:
    ramp = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    shown = np.asarray(reopened(Image.fromarray(ramp), "PNG"))
    assert np.array_equal(shown[..., 0].ravel(), np.arange(256))
    dark = np.full((4, 4), 2560, np.uint16)
    assert pixel(reopened(Image.fromarray(dark), "PNG"), 0, 0) == (10, 10, 10)


@pytest.mark.parametrize(("top", "shown"), [(255, 255), (4095, 255), (65535, 255), (2048, 128)])
def test_sixteen_bit_tiff_uses_the_bits_that_it_has(top: int, shown: int) -> None:
    values = np.zeros((8, 8), np.uint16)
    values[4:, 4:] = top
    image = reopened(Image.fromarray(values), "TIFF")
    assert pixel(image, 7, 7) == (shown,) * 3
    assert pixel(image, 0, 0) == (0, 0, 0)


def test_sixteen_bit_in_either_byte_order() -> None:
    values = np.array([[0, 32768], [65535, 256]], np.uint16)
    little = Image.frombytes("I;16", (2, 2), values.astype("<u2").tobytes())
    big = Image.frombytes("I;16B", (2, 2), values.astype(">u2").tobytes())
    assert to_rgb(little).tobytes() == to_rgb(big).tobytes()
    assert pixel(to_rgb(big), 1, 0) == (128, 128, 128)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.0, 0.5, 1.0], [0, 128, 255]),
        ([0.0, 100.0, 255.0], [0, 100, 255]),
        ([0.0, 32767.5, 65535.0], [0, 128, 255]),
        ([-10.0, 0.0, 10.0], [0, 128, 255]),
        ([0.0, 1e6, 2e6], [0, 128, 255]),
        ([-3e38, 0.0, 3e38], [0, 128, 255]),
        ([float("nan"), 0.0, 1.0], [0, 0, 255]),
        ([float("-inf"), 0.5, float("inf")], [0, 128, 255]),
        ([float("nan")] * 3, [0, 0, 0]),
        ([-7.0] * 3, [0, 0, 0]),
    ],
)
def test_floating_point_grey(values: list[float], shown: list[int]) -> None:
    image = Image.fromarray(np.array([values], np.float32))
    assert image.mode == "F"
    got = np.asarray(reopened(image, "TIFF"))[0, :, 0]
    assert np.abs(got.astype(int) - shown).max() <= 1


@pytest.mark.parametrize(("values", "shown"), [([0, 100, 255], [0, 100, 255]), ([-100, 0, 100], [0, 128, 255])])
def test_32_bit_grey(values: list[int], shown: list[int]) -> None:
    image = Image.fromarray(np.array([values], np.int32))
    assert image.mode == "I"
    got = np.asarray(reopened(image, "TIFF"))[0, :, 0]
    assert np.abs(got.astype(int) - shown).max() <= 1


def test_cmyk() -> None:
    cyan = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    assert near(pixel(reopened(cyan, "TIFF"), 8, 8), (0, 255, 255), 5)
    assert near(pixel(decode(encode(cyan, "JPEG", quality=95)).pixels, 8, 8), (0, 255, 255), 12)


def test_a_mode_without_conversion_is_an_image_error() -> None:
    lab = Image.new("LAB", (8, 8), (50, 0, 0))
    try:
        expected = lab.convert("RGB").mode  # newer Pillow versions can
    except ValueError:
        with pytest.raises(ImageError, match="LAB"):
            reopened(lab, "TIFF")
    else:
        assert reopened(lab, "TIFF").mode == expected


def test_rgb_is_not_copied_and_the_input_is_left_alone() -> None:
    image = Image.open(io.BytesIO(encode(Image.new("RGB", (4, 4)), "PNG")))
    assert to_rgb(image) is image
