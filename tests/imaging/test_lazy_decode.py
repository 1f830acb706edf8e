"""What intake leaves packed: ordinary JPEGs until somebody looks, and bytes that a model can have as they are."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from imaging_samples import encode, natural
from PIL import Image

from speceyes.errors import ImageError
from speceyes.imaging import QWEN3_VL, Box, DecodedImage, PixelLimits, decode, jpeg_glance, render
from speceyes.imaging.unpacked import Unpacked

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
    assert image.unpacked == (2,), "what the check has read"
    assert image.size == size
    assert image.plain
    assert image.pixels.tobytes() == Image.open(io.BytesIO(data)).convert("RGB").tobytes()


@pytest.mark.parametrize("factor", [2, 4, 8])
@pytest.mark.parametrize("options", [{"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"progressive": True}])
@pytest.mark.parametrize("width", range(96, 113))
def test_a_jpeg_that_lacks_its_last_pixels_is_never_surely_whole(
    width: int, options: dict[str, Any], factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = Image.fromarray(np.random.default_rng(width).integers(0, 256, (64, width, 3), dtype=np.uint8))
    data = jpeg(noise, **options)
    monkeypatch.setattr(jpeg_glance, "_PLENTY", noise.width * noise.height // factor**2)
    first = jpeg_glance.glance(data)
    assert first is not None
    assert first.surely_whole or options.get("progressive")  # of those, a last block like the one before is looked at
    assert first.factor == (8 if options.get("progressive") else factor)
    assert first.picture.size == tuple(-(-side // first.factor) for side in noise.size)
    scan = data.index(b"\xff\xda")
    if options.get("progressive"):  # of those the first scan has it all, if coarsely
        data = data[: data.index(b"\xff\xc4", scan)]
    # nearer to the end, less than a whole block of 16 x 16 is missing; a first scan is short
    for kept in (0.3, 0.5, 0.7 if options.get("progressive") else 0.95):
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
    assert image.unpacked == (1, 2, 4, 8)


@pytest.mark.parametrize("size", [(1, 1), (7, 9), (8, 8), (15, 16), (23, 200)])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_small_and_grey_jpegs_too(size: tuple[int, int], mode: str) -> None:
    noise = Image.fromarray(np.random.default_rng(5).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    data = jpeg(noise.convert(mode))
    image = decode(data)
    assert image.pixels.tobytes() == Image.open(io.BytesIO(data)).convert("RGB").tobytes()
    for factor in (2, 4, 8):
        if min(size) >= factor:
            assert image.at(factor).size == tuple(-(-side // factor) for side in size)
            assert image.at(factor).mode == "RGB"


def test_what_a_model_is_shown_does_not_hang_on_what_others_were_shown_before() -> None:
    data = encode(natural(1600, 1200), "JPEG")
    fresh, seen = decode(data), decode(data)
    assert seen.pixels.size == (1600, 1200)
    for limits in (PixelLimits(32, 1024, 200 * 32**2), PixelLimits(32, 1024, 32 * 32**2)):
        assert render(fresh, None, limits).encoded == render(seen, None, limits).encoded
    region = Box(100.5, 50.0, 1500.0, 1150.0)
    assert render(fresh, region, PixelLimits(32, 1024, 32 * 32**2)).encoded == (
        render(seen, region, PixelLimits(32, 1024, 32 * 32**2)).encoded
    )
    assert fresh.unpacked == (2, 4)


@pytest.mark.parametrize("region", [None, Box(100.5, 50.25, 1500.0, 1150.0), Box(700, 300, 1300, 1000)])
@pytest.mark.parametrize("area", [32 * 32**2, 100 * 32**2, 200 * 32**2])
def test_few_pixels_make_no_difference_to_see(region: Box | None, area: int) -> None:
    image = decode(encode(natural(1600, 1200), "JPEG"))
    view = render(image, region, limits := PixelLimits(32, 1024, area))
    exact = render(DecodedImage.of_pixels(image.pixels), region, limits)
    error = np.asarray(view.pixels, float) - np.asarray(exact.pixels, float)
    assert 10 * np.log10(255**2 / max(1e-9, (error**2).mean())) > 40, "decibels of signal over noise"


def test_threads_unpack_a_picture_once_and_do_not_wait_for_another() -> None:
    data, calls = encode(natural(320, 192), "PNG"), list[int]()
    both = threading.Barrier(2, timeout=60)

    def unpack(number: int) -> Image.Image:
        calls.append(number)
        both.wait()  # breaks if one of the two has to wait until the other is done
        return Image.open(io.BytesIO(data))

    pictures = [Unpacked(), Unpacked()]
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(pictures[i].get, 1, lambda i=i: unpack(i))  # type: ignore[misc]
            for i in (0, 0, 0, 1, 1, 1)
        ]
        found = {id(job.result()) for job in jobs}
    assert sorted(calls) == [0, 1]
    assert len(found) == 2


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


def test_what_came_as_jpeg_goes_as_jpeg_unless_it_is_small() -> None:
    came, made = (decode(encode(natural(1600, 1200), form)) for form in ("JPEG", "PNG"))
    small, large = PixelLimits(32, 1024, 90 * 32**2), PixelLimits(32, 1024, 200 * 32**2)
    assert [render(came, None, limits, jpeg_above=1_000_000).mime for limits in (small, large)] == [
        "image/png",
        "image/jpeg",
    ]
    assert {render(made, None, limits, jpeg_above=1_000_000).mime for limits in (small, large)} == {"image/png"}
    assert render(came, None, large).mime == "image/png"
    view, exact = render(came, None, large, jpeg_above=1_000_000), render(came, None, large)
    error = np.asarray(view.pixels, float) - np.asarray(exact.pixels, float)
    assert 10 * np.log10(255**2 / (error**2).mean()) > 36, "decibels of signal over noise"
