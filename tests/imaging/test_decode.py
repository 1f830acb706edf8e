"""Intake: formats, limits, names in errors, and threads."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from imaging_samples import encode, natural, png_file
from PIL import Image, ImageFile, features

from speceyes.errors import ImageError
from speceyes.imaging import QWEN3_VL, DecodeLimits, decode, load, render

PICTURE = natural(120, 80)
KINDS = ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "JPEG2000", "PPM"]
KINDS += ["AVIF"] if features.check("avif") else []
LOSSLESS = {"PNG", "BMP", "TIFF", "PPM"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_becomes_plain_rgb(kind: str) -> None:
    data = encode(PICTURE, kind)
    image = decode(data)
    assert image.format == kind
    assert image.size == (120, 80)
    assert image.source is data
    assert image.sha256 == hashlib.sha256(data).hexdigest()
    assert type(image.pixels) is Image.Image
    assert image.pixels.mode == "RGB"
    assert image.pixels.info == {}
    difference = np.abs(np.asarray(image.pixels, int) - np.asarray(PICTURE, int)).mean()
    assert difference < (1e-9 if kind in LOSSLESS else 25)


def test_a_camera_file_with_several_pictures_shows_the_first() -> None:
    data = encode(PICTURE, "MPO", save_all=True, append_images=[Image.new("RGB", (60, 40))])
    image = decode(data)
    assert image.format == "JPEG"
    assert image.size == (120, 80)


def test_load_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(encode(PICTURE, "PNG"))
    assert load(path) == load(str(path)) == decode(path.read_bytes())


@pytest.mark.parametrize("path", ["missing.png", ".", "a\0b.png"])
def test_load_names_the_path_that_it_cannot_read(tmp_path: Path, path: str) -> None:
    with pytest.raises(ImageError, match=r"such file|cannot be read"):
        load(tmp_path / path)


def test_load_does_not_read_more_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)  # a sparse file: reading all of it would take 10 GiB of memory
    with pytest.raises(ImageError, match=r"large\.png.*limit of 1,000 bytes"):
        load(path, DecodeLimits(max_bytes=1000))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"\0" * 500, "not an image"),
        (b"This is a text file that is called .jpg", "not an image"),
        (b"<html><body>Please log in</body></html>", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not an image"),
        (b"\xff\xd8\xff", "image 2"),
        (b"\x89PNG\r\n\x1a\n", "image 2"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image 2"),
        (b"GIF89a", "image 2"),
        (b"BM", "image 2"),
        (b"P6", "image 2"),
        (b"II*\0", "image 2"),
        (png_file((0, 5), b""), "image 2"),
    ],
)
def test_what_is_no_image_is_an_error_that_names_it(data: bytes, says: str) -> None:
    with pytest.raises(ImageError, match=says) as caught:
        decode(data, name="image 2")
    assert str(caught.value).startswith("image 2: ")
    assert not caught.value.retryable


def test_the_byte_limit_comes_first() -> None:
    data = encode(PICTURE, "PNG")
    assert decode(data, DecodeLimits(max_bytes=len(data))).size == (120, 80)
    with pytest.raises(ImageError, match=rf"limit of {len(data) - 1:,} bytes"):
        decode(data, DecodeLimits(max_bytes=len(data) - 1))


def test_the_pixel_limit_names_both_numbers() -> None:
    data = encode(PICTURE, "PNG")
    assert decode(data, DecodeLimits(max_pixels=9600)).size == (120, 80)
    with pytest.raises(ImageError, match=r"120 x 80 pixels.*limit of 9,599"):
        decode(data, DecodeLimits(max_pixels=9599))


_FILES = [encode(PICTURE.resize((40, 30)), kind) for kind in KINDS]


@given(st.sampled_from(_FILES), st.data())
@settings(max_examples=200, deadline=None)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_whatever_happens_to_the_bytes_the_only_error_is_ours(data: bytes, draw: st.DataObject) -> None:
    broken = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(broken) - 1))
        broken[at : at + draw.draw(st.integers(0, 3))] = draw.draw(st.binary(max_size=4))
    try:
        image = decode(bytes(broken), DecodeLimits(max_pixels=1_000_000))
    except ImageError:
        return
    assert image.pixels.mode == "RGB"


@given(st.binary(max_size=300))
@example(b"P")
@example(b"BM\0")
@settings(deadline=None)
def test_random_bytes_give_only_our_error(data: bytes) -> None:
    with pytest.raises(ImageError):
        decode(data, DecodeLimits(max_pixels=0))


def test_logs_hold_hash_and_type_but_no_bytes() -> None:
    image = decode(encode(PICTURE, "PNG"))
    assert image.sha256 in repr(image)
    assert len(repr(image)) < 200


def test_equal_files_are_equal_images() -> None:
    data = encode(PICTURE, "PNG")
    assert decode(data) == decode(bytes(data))
    assert hash(decode(data)) == hash(decode(bytes(data)))
    assert decode(data) != decode(encode(PICTURE, "BMP"))
    assert pickle.loads(pickle.dumps(decode(data))) == decode(data)


def test_many_threads_get_their_own_pictures_and_leave_pillow_as_it_was() -> None:
    before = (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)
    files = [encode(Image.new("RGB", (90 + i, 60), (i, 2 * i, 255 - i)), "PNG") for i in range(40)]
    files[7] = files[7][:-30]

    def work(number: int) -> tuple[tuple[int, int], tuple[tuple[int, int], ...]] | None:
        try:
            image = decode(files[number])
        except ImageError:
            return None
        return image.size, render(image, None, QWEN3_VL).pixels.getextrema()  # type: ignore[return-value]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, list(range(40)) * 3))
    for number, result in zip(list(range(40)) * 3, results, strict=True):
        colours = ((number, number), (2 * number, 2 * number), (255 - number, 255 - number))
        assert result == (None if number == 7 else ((90 + number, 60), colours))
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)


async def test_threads_may_share_one_image() -> None:
    image = decode(encode(natural(900, 700), "PNG"))
    views = await asyncio.gather(*(asyncio.to_thread(render, image, None, QWEN3_VL) for _ in range(8)))
    assert len({view.sha256 for view in views}) == 1
