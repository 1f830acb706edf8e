"""Animations: the first frame, at the cost of one."""

from __future__ import annotations

import time

import pytest
from imaging_samples import encode, pixel
from PIL import GifImagePlugin, Image, features

from speceyes.errors import ImageError
from speceyes.imaging import DecodeLimits, decode

COLOURS = ["red", "green", "blue", "white", "black"]
FRAMES = [Image.new("RGB", (40, 30), colour) for colour in COLOURS]
KINDS = ["GIF", "WEBP", "PNG", "TIFF"] + (["AVIF"] if features.check("avif") else [])


def animation(image_format: str, frames: list[Image.Image]) -> bytes:
    return encode(frames[0], image_format, save_all=True, append_images=frames[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_frame_is_the_image(kind: str) -> None:
    image = decode(animation(kind, FRAMES))
    assert image.size == (40, 30)
    assert pixel(image.pixels, 20, 15)[0] > 240
    assert max(pixel(image.pixels, 20, 15)[1:]) < 15


@pytest.mark.parametrize("kind", KINDS)
def test_the_frame_limit_refuses_one_too_many(kind: str) -> None:
    data = animation(kind, FRAMES)
    assert decode(data, DecodeLimits(max_frames=5)).size == (40, 30)
    with pytest.raises(ImageError, match=r"clip: holds more than 4 frames"):
        decode(data, DecodeLimits(max_frames=4), "clip")
    assert decode(animation(kind, FRAMES[:1]), DecodeLimits(max_frames=1)).size == (40, 30)


def many_frames(count: int) -> bytes:
    """A GIF that repeats its second frame."""
    data = animation("GIF", FRAMES[:2])
    second = data.rindex(b"\x21\xf9")
    return data[:second] + data[second:-1] * count + b";"


def test_ten_thousand_frames_cost_what_one_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    frames_entered = []
    seek = GifImagePlugin.GifImageFile._seek

    def counting(self: GifImagePlugin.GifImageFile, frame: int, update_image: bool = True) -> None:
        frames_entered.append(frame)
        seek(self, frame, update_image)

    monkeypatch.setattr(GifImagePlugin.GifImageFile, "_seek", counting)
    data = many_frames(10_000)
    assert decode(data).size == (40, 30)
    assert decode(data, DecodeLimits(max_frames=10_001)).size == (40, 30)
    with pytest.raises(ImageError, match="more than 10000 frames"):
        decode(data, DecodeLimits(max_frames=10_000))
    assert set(frames_entered) <= {0, 1}


def test_counting_stops_at_the_limit() -> None:
    data = many_frames(200_000)
    start = time.process_time()
    with pytest.raises(ImageError, match="more than 3 frames"):
        decode(data, DecodeLimits(max_frames=3))
    assert time.process_time() - start < 0.1
