"""Crops hold what the box names: through orientation, resize, model coordinates, and crops of crops.

A coloured square is painted at a known place of a large picture. A model that sees a view names the square in
its own coordinates, with rounded numbers; the crop that follows must be centred on it. If any step scaled or
turned twice, or mixed up two systems, the square would not be there.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imaging_samples import decoded, encode, natural
from PIL import Image

from speceyes.imaging import (
    QWEN2_5_VL,
    QWEN3_VL,
    Box,
    Coordinates,
    DecodedImage,
    PixelLimits,
    View,
    crop_region,
    decode,
    from_original,
    parse_box,
    render,
    to_original,
)

RED = (250, 10, 10)
LIMITS = {
    "factor 28": PixelLimits(28, 4 * 28**2, 600_000),
    "factor 32": PixelLimits(32, 4 * 32**2, 600_000),
    "one look of 192": PixelLimits(32, 36 * 32**2, 36 * 32**2),
}
DECIMALS = {
    Coordinates.RESIZED: 0,
    Coordinates.ORIGINAL: 0,
    Coordinates.UNIT: 3,
    Coordinates.PER_MILLE: 0,
}


def paint(size: tuple[int, int], target: Box) -> Image.Image:
    picture = Image.linear_gradient("L").resize(size).convert("RGB")
    picture.paste(RED, tuple(int(edge) for edge in target.as_tuple()))
    return picture


def name(target: Box, view: View, coordinates: Coordinates, image: DecodedImage) -> Box:
    """The box as a model that sees the view would write it: rounded to the digits it writes."""
    exact = from_original(target, coordinates, region=view.region, view_size=view.size, image_size=image.size)
    return parse_box([f"{edge:.{DECIMALS[coordinates]}f}" for edge in exact.as_tuple()])


def zoom(image: DecodedImage, view: View, named: Box, coordinates: Coordinates, limits: PixelLimits) -> View:
    box = to_original(named, coordinates, region=view.region, view_size=view.size, image_size=image.size)
    return render(image, crop_region(box, image.size, min_side=limits.factor, context=1.0), limits)


def red_pixels(view: View) -> tuple[tuple[float, float], int]:
    """Centre (x, y) of the red square in original pixels, and how many of the view's pixels it takes."""
    pixels = np.asarray(view.pixels, dtype=int)
    red = (pixels[..., 0] > 180) & (pixels[..., 1] < 90) & (pixels[..., 2] < 90)
    y, x = np.nonzero(red)
    assert len(x), "the target is not in the crop"
    region = view.region
    centre = (
        region.left + (x.mean() + 0.5) / view.size[0] * region.width,
        region.top + (y.mean() + 0.5) / view.size[1] * region.height,
    )
    return centre, len(x)


def assert_shows(view: View, target: Box) -> None:
    """The square is in the view as a whole, where the view's region says that it is."""
    centre, count = red_pixels(view)
    a_pixel = max(view.region.width / view.size[0], view.region.height / view.size[1], 1.0)
    assert centre == pytest.approx(target.centre, abs=a_pixel)
    share = target.area / view.region.area
    assert count == pytest.approx(share * view.size[0] * view.size[1], rel=0.15, abs=4)
    assert view.region.contains(target)


TARGET = Box(2310, 1480, 2390, 1560)
LARGE = decoded(paint((3000, 2200), TARGET))


@pytest.mark.parametrize("coordinates", list(Coordinates))
@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_zooming_twice_finds_the_target(limits: PixelLimits, coordinates: Coordinates) -> None:
    target, image = TARGET, LARGE
    first = render(image, None, limits)
    # First a loose box around the target, then the target itself, named in the crop that the first zoom
    # showed.
    loose = Box(2100, 1300, 2600, 1800)
    second = zoom(image, first, name(loose, first, coordinates, image), coordinates, limits)
    third = zoom(image, second, name(target, second, coordinates, image), coordinates, limits)
    assert_shows(second, target)
    assert_shows(third, target)
    assert third.region.area < second.region.area < first.region.area
    shown = third.pixels.getpixel((third.size[0] // 2, third.size[1] // 2))
    assert np.allclose(shown, RED, atol=25)
    # The box was rounded to what the model's numbers can say: the crop's centre may be off by that, no more.
    grain = max(second.region.width, second.region.height) / (
        1000 if coordinates in (Coordinates.UNIT, Coordinates.PER_MILLE) else min(second.size)
    )
    assert third.region.centre == pytest.approx(target.centre, abs=max(1.0, grain))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("limits", [QWEN2_5_VL, QWEN3_VL], ids=["factor 28", "factor 32"])
def test_through_camera_orientation(orientation: int, limits: PixelLimits) -> None:
    target = Box(900, 250, 960, 310)
    upright = paint((1200, 800), target)
    stored = upright.transpose(_UNDO[orientation]) if orientation in _UNDO else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = decode(encode(stored, "JPEG", quality=95, subsampling=0, exif=exif))
    assert image.size == (1200, 800)
    first = render(image, None, limits)
    named = name(target, first, Coordinates.RESIZED, image)
    assert_shows(zoom(image, first, named, Coordinates.RESIZED, limits), target)


_UNDO = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""How a camera that was held so stores an upright scene: the inverse of what the tag asks for."""


def test_the_box_of_a_half_size_view_is_not_cut_out_of_the_original() -> None:
    target = Box(3000, 3000, 3200, 3200)
    image = decoded(paint((4000, 4000), target))
    first = render(image, None, PixelLimits(32, 4096, 2016**2))
    scale = first.size[0] / 4000
    named = Box(*(round(edge * scale) for edge in target.as_tuple()))
    box = to_original(named, Coordinates.RESIZED, region=first.region, view_size=first.size, image_size=image.size)
    assert box.iou(target) > 0.97
    view = render(image, crop_region(box, image.size, min_side=32), QWEN3_VL)
    _, count = red_pixels(view)
    assert count > 0.95 * view.size[0] * view.size[1]


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_anywhere_in_the_picture(data: st.DataObject) -> None:
    side = data.draw(st.integers(12, 60))
    x, y = data.draw(st.integers(0, 800 - side)), data.draw(st.integers(0, 600 - side))
    target = Box(x, y, x + side, y + side)
    limits = data.draw(st.sampled_from([LIMITS["factor 28"], LIMITS["factor 32"]]))
    coordinates = data.draw(st.sampled_from(list(Coordinates)))
    picture = _PLAIN.copy()
    picture.paste(RED, tuple(int(edge) for edge in target.as_tuple()))
    image = decoded(picture)
    view = render(image, None, limits)
    for _ in range(2):
        view = zoom(image, view, name(target, view, coordinates, image), coordinates, limits)
        assert_shows(view, target)


_PLAIN = natural(800, 600).convert("L").convert("RGB")
