"""What is sent to a model."""

from __future__ import annotations

import base64
import io

import pytest
from imaging_samples import decoded, natural
from PIL import Image

from speceyes.imaging import QWEN2_5_VL, Box, PixelLimits, render
from speceyes.imaging.view import encode

IMAGE = decoded(natural(700, 500))


def test_the_data_url_holds_exactly_the_pixels_that_the_view_records() -> None:
    view = render(IMAGE, Box(50, 60, 400, 300), QWEN2_5_VL)
    head, body = view.data_url.split(",", 1)
    sent = Image.open(io.BytesIO(base64.b64decode(body)))
    assert head == "data:image/png;base64"
    assert sent.size == view.size
    assert sent.tobytes() == view.pixels.tobytes()


def test_url_and_hash_are_computed_once() -> None:
    view = render(IMAGE, None, QWEN2_5_VL)
    assert view.data_url is view.data_url
    assert view.sha256 is view.sha256


def test_large_views_may_go_as_jpeg() -> None:
    small, large = PixelLimits(28, 3136, 200_000), PixelLimits(28, 3136, 400_000)
    assert render(IMAGE, None, small, jpeg_above=250_000).mime == "image/png"
    view = render(IMAGE, None, large, jpeg_above=250_000)
    assert view.mime == "image/jpeg"
    assert view.data_url.startswith("data:image/jpeg;base64,/9j/")
    assert Image.open(io.BytesIO(view.encoded)).size == view.size
    assert Image.open(io.BytesIO(view.png)).tobytes() == view.pixels.tobytes()


def test_equal_views_are_equal_and_hash_alike() -> None:
    one, two = render(IMAGE, None, QWEN2_5_VL), render(IMAGE, None, QWEN2_5_VL)
    other = render(IMAGE, Box(0, 0, 350, 250), QWEN2_5_VL)
    assert one == two
    assert hash(one) == hash(two)
    assert one != other


def test_logs_do_not_hold_the_picture() -> None:
    assert len(repr(render(IMAGE, None, QWEN2_5_VL))) < 300


def test_other_forms_are_refused() -> None:
    with pytest.raises(ValueError, match="image/gif"):
        encode(Image.new("RGB", (4, 4)), "image/gif")
