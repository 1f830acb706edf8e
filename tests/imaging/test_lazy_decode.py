"""What intake leaves packed: ordinary JPEGs until somebody looks, and bytes that a model can have as they are."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from imaging_samples import encode, natural
from PIL import Image

from speceyes.errors import ImageError
from speceyes.imaging import QWEN3_VL, Box, PixelLimits, decode, render

# What is not unpacked


def jpeg(picture: Image.Image, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, "JPEG", **options)
    return out.getvalue()


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("size", [(96, 96), (97, 65), (104, 88), (1000, 750)])
def test_an_ordinary_jpeg_is_unpacked_only_when_somebody_looks(size: tuple[int, int], subsampling: int) -> None:
    noise = Image.fromarray(np.random.default_rng(3).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    data = jpeg(noise, subsampling=subsampling)
    image = decode(data)
    assert "pixels" not in vars(image)
    assert image.size == size
    assert image.plain
    assert image.pixels.tobytes() == Image.open(io.BytesIO(data)).convert("RGB").tobytes()


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("width", range(96, 113))
def test_a_jpeg_that_lacks_its_last_pixels_is_never_surely_whole(width: int, subsampling: int) -> None:
    noise = Image.fromarray(np.random.default_rng(width).integers(0, 256, (64, width, 3), dtype=np.uint8))
    data = jpeg(noise, subsampling=subsampling)
    scan = data.index(b"\xff\xda")
    for kept in (0.3, 0.7, 0.95):  # nearer to the end, less than a whole block of 16 x 16 is missing
        cut = scan + int((len(data) - scan) * kept)
        while data[cut - 1] == 0xFF:
            cut -= 1
        with pytest.raises(ImageError):
            decode(data[:cut] + b"\xff\xd9")


def test_a_flat_jpeg_is_whole_too() -> None:
    assert decode(jpeg(Image.new("RGB", (64, 64), "teal"))).size == (64, 64)


def test_shrunk_is_cheap_and_never_below_what_is_asked_for() -> None:
    smooth = Image.radial_gradient("L").resize((1024, 768)).convert("RGB")
    image = decode(jpeg(smooth, quality=95))
    for least, expected in (((128, 96), (128, 96)), ((129, 90), (256, 192)), ((300, 300), (512, 384))):
        small = image.shrunk(least)
        assert small.size == expected
        exact = smooth.resize(expected, Image.Resampling.BOX)
        assert np.abs(np.asarray(small, float) - np.asarray(exact, float)).mean() < 2
    assert image.shrunk((600, 400)).size == (1024, 768)


# What is sent on as it came


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_picture_of_the_right_size_goes_as_the_bytes_that_came(kind: str) -> None:
    data = encode(natural(320, 192), kind)
    view = render(decode(data), None, QWEN3_VL)
    assert view.encoded == data
    assert view.mime == f"image/{kind.lower()}"
    assert view.size == view.pixels.size == (320, 192)


@pytest.mark.parametrize(
    "data",
    [
        encode(natural(320, 192), "BMP"),
        encode(natural(320, 192).convert("RGBA"), "PNG"),
        encode(natural(320, 192).convert("CMYK"), "JPEG"),
        encode(
            natural(320, 192), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x03\0\0\0\0\0\0"
        ),
    ],
    ids=["a format that servers may lack", "transparent", "inks", "upside down"],
)
def test_what_decoders_disagree_on_is_encoded_anew(data: bytes) -> None:
    view = render(decode(data), None, QWEN3_VL)
    assert view.encoded != data
    assert view.mime == "image/png"


def test_another_size_and_a_part_are_encoded_anew() -> None:
    image = decode(encode(natural(320, 192), "JPEG"))
    assert render(image, None, PixelLimits(32, 1024, 32 * 1024)).size == (224, 128)
    assert render(image, Box(0, 0, 319, 192), QWEN3_VL).encoded != image.source
