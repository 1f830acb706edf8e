"""Turned images: every point has one place in the frame, and the pixels are where the arithmetic says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from speceyes.errors import BoxError
from speceyes.imaging import Box, DecodedImage, PixelLimits, View, render, render_turned
from speceyes.imaging.turned_views import EMPTY, turned_pixels
from speceyes.imaging.turning import clockwise, turn_box, turn_point, turned_size, unturn_box, unturn_point

RED = (250, 10, 10)
LIMITS = PixelLimits(28, 4 * 28**2, 400_000)

angles = st.floats(-1000, 1000)
quarters = st.sampled_from([-450, -270, -90, 0, 90, 180, 270, 360, 810])
sides = st.integers(40, 4000)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, int], Box]:
    """An image's size and a box in it."""
    width, height = draw(sides), draw(sides)
    left, top = draw(st.floats(0, width - 20)), draw(st.floats(0, height - 20))
    return (width, height), Box(left, top, draw(st.floats(left + 10, width)), draw(st.floats(top + 10, height)))


def close(one: Box, other: Box, by: float = 1e-6) -> bool:
    return max(abs(a - b) for a, b in zip(one.as_tuple(), other.as_tuple(), strict=True)) <= by


@given(boxes(), angles)
def test_a_point_comes_back(sized: tuple[tuple[int, int], Box], angle: float) -> None:
    size, box = sized
    there = turn_point(*box.centre, size, angle)
    width, height = turned_size(size, angle)
    assert -1e-6 <= there[0] <= width + 1e-6
    assert -1e-6 <= there[1] <= height + 1e-6
    assert unturn_point(*there, size, angle) == pytest.approx(box.centre, abs=1e-6)


@given(boxes(), quarters)
def test_quarter_turns_are_exact(sized: tuple[tuple[int, int], Box], angle: float) -> None:
    size, box = sized
    turned = turn_box(box, size, angle)
    assert turned.area == pytest.approx(box.area)
    assert close(unturn_box(turned, size, angle), box)
    assert sorted(turned_size(size, angle)) == sorted(size)


@given(boxes(), angles)
def test_a_turned_box_holds_all_of_the_box(sized: tuple[tuple[int, int], Box], angle: float) -> None:
    size, box = sized
    turned = turn_box(box, size, angle)
    assert unturn_box(turned, size, angle).grow(1e-6).contains(box)
    # Not more than it must be: the corners touch the edges.
    cos, sin = abs(math.cos(math.radians(angle))), abs(math.sin(math.radians(angle)))
    assert turned.width == pytest.approx(box.width * cos + box.height * sin, abs=1e-3)


@given(boxes(), angles)
def test_the_frame_just_holds_the_image(sized: tuple[tuple[int, int], Box], angle: float) -> None:
    size, _ = sized
    whole = turn_box(Box(0, 0, *map(float, size)), size, angle)
    assert close(whole, Box(0, 0, *turned_size(size, angle)))


@given(angles)
def test_angles_are_counted_within_one_turn(angle: float) -> None:
    assert 0 <= clockwise(angle) < 360
    assert math.cos(math.radians(clockwise(angle))) == pytest.approx(math.cos(math.radians(angle)), abs=1e-9)


def test_a_tiny_negative_angle_is_no_whole_turn() -> None:
    assert clockwise(-1e-20) == 0.0


def painted(size: tuple[int, int], target: Box) -> DecodedImage:
    picture = Image.linear_gradient("L").resize(size).convert("RGB")
    picture.paste(RED, tuple(int(edge) for edge in target.as_tuple()))
    return DecodedImage.of_pixels(picture)


def share(view: View) -> float:
    difference = np.abs(np.asarray(view.pixels, dtype=int) - np.array(RED)).max(axis=2)
    return float((difference < 60).mean())


@settings(max_examples=30)
@given(st.floats(-360, 360), st.integers(0, 900), st.integers(0, 600))
def test_a_painted_target_is_where_the_arithmetic_says(angle: float, left: int, top: int) -> None:
    target = Box(left, top, left + 160, top + 120)
    image = painted((1100, 740), target)
    window = turn_box(target, image.size, angle)
    view = render_turned(image, window, angle, LIMITS)
    assert share(view) == pytest.approx(target.area / window.area, abs=0.05)
    assert view.region.grow(1e-6).contains(target)
    assert LIMITS.accepts(view.size)


@pytest.mark.parametrize("angle", [30, 90, 200, 315])
def test_a_large_image_is_made_small_without_losing_the_target(angle: float) -> None:
    target = Box(2400, 900, 3000, 1500)
    view = render_turned(painted((4000, 3000), target), None, angle, PixelLimits(28, 3136, 100_000))
    width, height = turned_size((4000, 3000), angle)
    assert share(view) == pytest.approx(target.area / (width * height), rel=0.1)


def test_clockwise_is_clockwise() -> None:
    corner = painted((560, 280), Box(0, 0, 56, 56))  # upper left goes to the upper right
    pixels = np.asarray(render_turned(corner, None, 90, LIMITS).pixels)
    assert tuple(pixels[20, -20]) == RED
    slightly = np.asarray(turned_pixels(corner, Box(0, 0, *turned_size(corner.size, 10)), 10, (610, 370)))
    assert slightly[20, 60, 0] > 200  # and by ten degrees to the right and down


@pytest.mark.parametrize(
    ("angle", "turn"),
    [(90, Image.Transpose.ROTATE_270), (180, Image.Transpose.ROTATE_180), (-90, Image.Transpose.ROTATE_90)],
)
def test_a_quarter_turn_changes_no_pixel(angle: float, turn: Image.Transpose) -> None:
    image = DecodedImage.of_pixels(Image.effect_noise((280, 560), 80).convert("RGB"))
    view = render_turned(image, None, angle, LIMITS)
    assert view.pixels.tobytes() == image.pixels.transpose(turn).tobytes()
    assert view.region == Box(0, 0, 280, 560)
    assert view.turned is not None
    assert view.turned.angle == angle % 360


def test_no_turn_is_an_ordinary_view() -> None:
    image = painted((560, 280), Box(0, 0, 56, 56))
    assert render_turned(image, Box(0, 0, 200, 200), 720, LIMITS) == render(image, Box(0, 0, 200, 200), LIMITS)


def test_corners_that_hold_nothing_are_grey_and_cannot_be_looked_at_alone() -> None:
    image = DecodedImage.of_pixels(Image.new("RGB", (400, 400), "white"))
    view = render_turned(image, None, 45, LIMITS)
    assert tuple(np.asarray(view.pixels)[3, 3]) == EMPTY
    with pytest.raises(BoxError, match="nothing of the picture"):
        render_turned(image, Box(0, 0, 100, 100), 45, LIMITS)
