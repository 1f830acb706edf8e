"""Sizes that the model families' processors choose, and rendering."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from imaging_samples import decoded, natural
from PIL import Image

from speceyes.errors import ConfigError, ImageError
from speceyes.imaging import QWEN2_5_VL, QWEN3_VL, Box, PixelLimits, render, smart_size, view_size

sides = st.integers(1, 20_000)


@st.composite
def limits_of_models(draw: st.DrawFn) -> PixelLimits:
    factor = draw(st.sampled_from([14, 28, 32]))
    least = draw(st.integers(1, 600))
    most = draw(st.integers(least, 2000))
    try:
        return PixelLimits(factor, least * factor**2, most * factor**2)
    except ConfigError:  # a prime number of patches, for example, is one thin row or nothing
        reject()


# Computed once with transformers 4.57.6: smart_resize(height, width, factor, min_pixels, max_pixels).
@pytest.mark.parametrize(
    ("size", "limits", "wanted"),
    [
        ((1, 1), QWEN2_5_VL, (56, 56)),
        ((1920, 1080), QWEN2_5_VL, (1932, 1092)),
        ((100, 100), QWEN2_5_VL, (112, 112)),
        ((640, 480), QWEN2_5_VL, (644, 476)),
        ((4000, 3000), QWEN2_5_VL, (4004, 2996)),
        ((7680, 4320), QWEN2_5_VL, (4760, 2688)),
        ((10, 1900), QWEN2_5_VL, (28, 784)),
        ((5, 28), QWEN2_5_VL, (28, 140)),
        ((14, 42), QWEN2_5_VL, (56, 112)),
        ((41, 8200), QWEN2_5_VL, (28, 8204)),
        ((1920, 1080), QWEN3_VL, (1920, 1088)),
        ((640, 480), QWEN3_VL, (640, 480)),
        ((4000, 3000), QWEN3_VL, (4000, 3008)),
        ((7680, 4320), QWEN3_VL, (5440, 3072)),
        ((48, 80), QWEN3_VL, (64, 64)),
        ((8000, 40), QWEN3_VL, (8000, 32)),
        ((640, 480), PixelLimits(28, 401408, 4014080), (756, 560)),
        ((7680, 4320), PixelLimits(28, 401408, 4014080), (2660, 1484)),
        ((1024, 1024), PixelLimits(32, 36864, 36864), (192, 192)),
        ((1920, 1080), PixelLimits(32, 36864, 36864), (256, 128)),
        ((41, 8200), PixelLimits(32, 36864, 36864), (32, 2688)),
    ],
)
def test_sizes_agree_with_the_published_processor(
    size: tuple[int, int], limits: PixelLimits, wanted: tuple[int, int]
) -> None:
    assert smart_size(*size, limits) == wanted


@given(sides, sides, limits_of_models())
@settings(max_examples=200)
def test_sizes_are_multiples_of_the_factor(width: int, height: int, limits: PixelLimits) -> None:
    assume(max(width, height) <= 200 * min(width, height))
    size = smart_size(width, height, limits)
    assert size[0] % limits.factor == size[1] % limits.factor == 0
    assert min(size) >= limits.factor
    assert smart_size(height, width, limits) == size[::-1]


@given(sides, sides, limits_of_models())
@settings(max_examples=100)
def test_a_view_is_never_resized_again(width: int, height: int, limits: PixelLimits) -> None:
    assume(max(width, height) <= 200 * min(width, height))
    size = view_size(width, height, limits)
    assert limits.accepts(size)
    assert smart_size(*size, limits) == size
    if limits.accepts(smart_size(width, height, limits)):
        assert size == smart_size(width, height, limits)


def test_a_view_is_not_resized_again_where_rounding_leaves_the_limits() -> None:
    # 28 x 8204 is what the processor makes of 41 x 8200, and what it then refuses as too thin.
    assert view_size(41, 8200, QWEN2_5_VL) == (28, 5600)
    # 256 x 128 is less than this minimum, so that a second resize would follow.
    assert view_size(1920, 1080, PixelLimits(32, 36864, 36864)) == (288, 128)


@pytest.mark.parametrize("size", [(1, 201), (201, 1), (20_000, 99)])
def test_too_thin_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(ImageError, match="too thin"):
        smart_size(*size, QWEN2_5_VL)


def test_no_area_is_refused() -> None:
    with pytest.raises(ImageError, match="no area"):
        smart_size(0, 10, QWEN2_5_VL)


@pytest.mark.parametrize(
    "values", [(0, 1, 1), (28, 0, 784), (28, 1600, 784), (28, 800, 1500), (14, 599 * 196, 599 * 196)]
)
def test_limits_that_no_picture_satisfies_are_refused(values: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError):
        PixelLimits(*values)


def test_tokens_are_merged_patches() -> None:
    assert QWEN2_5_VL.tokens((1932, 1092)) == 69 * 39
    assert QWEN3_VL.tokens((192, 192)) == 36


def test_the_whole_image_is_the_view_of_the_full_frame() -> None:
    image = decoded(natural(640, 480))
    view = render(image, None, QWEN2_5_VL, image_index=3)
    assert view.region == Box(0, 0, 640, 480)
    assert view.size == view.pixels.size == (644, 476)
    assert view.image_index == 3
    again = render(image, Box(0, 0, 640, 480), QWEN2_5_VL, image_index=3)
    assert again == view
    assert again.sha256 == view.sha256 == hashlib.sha256(view.png).hexdigest()


def test_a_crop_comes_from_the_original_pixels_untouched_where_sizes_match() -> None:
    picture = natural(1000, 800)
    view = render(decoded(picture), Box(100, 200, 100 + 320, 200 + 256), QWEN3_VL)
    assert np.array_equal(np.asarray(view.pixels), np.asarray(picture.crop((100, 200, 420, 456))))


def test_a_region_over_the_edge_has_no_black_border() -> None:
    white = decoded(Image.new("RGB", (300, 300), "white"))
    view = render(white, Box(-500, 200, 150, 900), QWEN2_5_VL)
    assert view.region == Box(0, 200, 150, 300)
    assert view.pixels.getextrema() == ((255, 255),) * 3


def test_a_region_outside_the_image_is_refused() -> None:
    with pytest.raises(ImageError, match="300 x 300"):
        render(decoded(Image.new("RGB", (300, 300))), Box(300, 0, 400, 100), QWEN2_5_VL)


def test_block_averaging_is_close_to_the_exact_filter() -> None:
    picture = natural(1800, 1200)
    view = render(decoded(picture), None, PixelLimits(32, 24576, 36864))
    exact = picture.resize(view.size, Image.Resampling.BICUBIC)
    assert np.abs(np.asarray(view.pixels, float) - np.asarray(exact, float)).mean() < 1.0


@given(st.floats(0, 90), st.floats(0, 90), st.floats(1, 10), st.floats(1, 10))
@settings(max_examples=50, deadline=None)
def test_any_region_renders_within_the_limits(x: float, y: float, w: float, h: float) -> None:
    image = decoded(Image.new("RGB", (100, 100), (10, 200, 30)))
    view = render(image, Box(x, y, x + w, y + h), QWEN3_VL)
    assert QWEN3_VL.accepts(view.size)
    assert view.pixels.getextrema() == ((10, 10), (200, 200), (30, 30))
    assert math.isclose(view.region.area, w * h, rel_tol=1e-6)
