"""Scenes follow from their seed alone, and hold what the nano models were trained on."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from speceyes.evals.datasets.scenes import (
    COLORS,
    DIGITS,
    LARGE_RADIUS,
    SHAPES,
    SIDE,
    SMALL_RADIUS,
    Sign,
    draw_scene,
    make_scene,
)

SEEDS = st.integers(0, 10_000_000)
LOOK = 192


def test_the_random_stream_is_the_one_that_the_weights_were_trained_on() -> None:
    described = "\n".join(
        f"{sign.color} {sign.shape} {sign.digit} {sign.x:.6f} {sign.y:.6f} {sign.radius:.6f}"
        for seed in range(4_000_000, 4_000_100)
        for sign in make_scene(seed).signs
    )
    assert hashlib.sha256(described.encode()).hexdigest()[:16] == "731f0b6084915aea"


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_the_same_seed_makes_the_same_scene(seed: int) -> None:
    assert make_scene(seed) == make_scene(seed)


def test_the_same_scene_is_drawn_the_same_and_another_one_is_not() -> None:
    first, again, other = (np.asarray(draw_scene(make_scene(seed))) for seed in (7, 7, 8))
    assert first.shape == (SIDE, SIDE, 3)
    assert (first == again).all()
    assert (first != other).any()


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_signs_are_of_the_world_and_their_colours_differ(seed: int) -> None:
    signs = make_scene(seed).signs
    assert 2 <= len(signs) <= 4
    assert len({sign.color for sign in signs}) == len(signs)
    for sign in signs:
        assert sign.color in COLORS
        assert sign.shape in SHAPES
        assert sign.digit in DIGITS
        low, high = SMALL_RADIUS if sign.small else LARGE_RADIUS
        assert low <= sign.radius <= high


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_signs_stand_apart_and_inside_the_frame(seed: int) -> None:
    signs = make_scene(seed).signs
    for i, one in enumerate(signs):
        left, top, right, bottom = one.box
        assert left >= 0
        assert top >= 0
        assert right <= SIDE
        assert bottom <= SIDE
        for other in signs[:i]:
            assert math.hypot(one.x - other.x, one.y - other.y) > one.radius + other.radius


def test_about_half_of_the_signs_are_small() -> None:
    signs = [sign for seed in range(500) for sign in make_scene(seed).signs]
    assert 0.42 < sum(sign.small for sign in signs) / len(signs) < 0.58
    assert not any(sign.small for seed in range(50) for sign in make_scene(seed, small_share=0.0).signs)


@pytest.mark.parametrize(("radius", "readable"), [(SMALL_RADIUS[1], False), (LARGE_RADIUS[0], True)])
@pytest.mark.parametrize("digit", DIGITS)
def test_a_small_digit_is_under_8_pixels_in_the_first_look_and_a_large_one_over_16(
    radius: float, readable: bool, digit: str
) -> None:
    _, top, _, bottom = ImageFont.load_default(round(radius * 1.5)).getbbox(digit)
    height = (bottom - top) * LOOK / SIDE
    assert (height > 16) if readable else (height < 8)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("color", COLORS)
def test_a_sign_is_painted_where_its_box_says(color: str, shape: str) -> None:
    scene = next(s for s in map(make_scene, range(100_000)) if (f := s.find(color)) and f.shape == shape)
    sign = scene.find(color)
    assert sign is not None
    painted = (np.asarray(draw_scene(scene)) == COLORS[color]).all(axis=-1)
    ys, xs = np.nonzero(painted)
    inside = (abs(xs - sign.x) <= sign.radius) & (abs(ys - sign.y) <= sign.radius)
    assert inside.sum() > 0.3 * (2 * sign.radius) ** 2
    assert (np.hypot(xs - sign.x, ys - sign.y) <= 1.6 * sign.radius + 2).all()


def test_every_digit_fits_into_its_shape() -> None:
    for shape in SHAPES:
        for digit in DIGITS:
            sign = Sign("red", shape, digit, 512.0, 512.0, 150.0)
            plain, with_ink = _drawn(sign, ink=False), _drawn(sign, ink=True)
            changed = (plain != with_ink).any(axis=-1)
            assert changed.any()
            assert (plain[changed] == COLORS["red"]).all(), f"{digit} stands out of the {shape}"


def _drawn(sign: Sign, *, ink: bool) -> np.ndarray:
    from speceyes.evals.datasets import scenes

    picture = Image.new("RGB", (SIDE, SIDE), (1, 2, 3))
    if ink:
        scenes._draw_sign(ImageDraw.Draw(picture), sign)
    elif sign.shape == "circle":
        ImageDraw.Draw(picture).ellipse(sign.box, fill=COLORS[sign.color])
    else:
        ImageDraw.Draw(picture).polygon(scenes._corners(sign), fill=COLORS[sign.color])
    return np.asarray(picture)
