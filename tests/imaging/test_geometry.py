"""Boxes and the zoom window."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from speceyes.errors import BoxError
from speceyes.imaging import Box, crop_region

edges = st.floats(-1e6, 1e6, allow_subnormal=False)
frames = st.tuples(st.integers(1, 20_000), st.integers(1, 20_000))
min_sides = st.floats(0, 400)
contexts = st.floats(0, 5)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    x, y = sorted((draw(edges), draw(edges))), sorted((draw(edges), draw(edges)))
    return Box(x[0], y[0], x[1], y[1])


@st.composite
def boxes_in(draw: st.DrawFn, width: float, height: float) -> Box:
    """A box with some area in the frame; it may hang over."""
    low_x, low_y = draw(st.floats(-width, 0.99 * width)), draw(st.floats(-height, 0.99 * height))
    high_x = draw(st.floats(max(low_x, 0) + 0.005 * width, 2 * width))
    high_y = draw(st.floats(max(low_y, 0) + 0.005 * height, 2 * height))
    return Box(low_x, low_y, high_x, high_y)


@st.composite
def crops(draw: st.DrawFn) -> tuple[Box, tuple[int, int]]:
    frame = draw(frames)
    return draw(boxes_in(*frame)), frame


@given(boxes(), boxes())
def test_iou_is_symmetric_and_between_0_and_1(a: Box, b: Box) -> None:
    assert 0 <= a.iou(b) <= 1
    assert a.iou(b) == b.iou(a)


@given(boxes())
def test_iou_with_itself_is_1_if_there_is_area(box: Box) -> None:
    assert box.iou(box) == pytest.approx(1.0 if box.area > 0 else 0.0)


def test_iou_of_a_half_overlap() -> None:
    assert Box(0, 0, 2, 2).iou(Box(1, 0, 3, 2)) == pytest.approx(1 / 3)
    assert Box(0, 0, 2, 2).iou(Box(2, 0, 3, 2)) == 0
    assert Box(-1e308, -1e308, 1e308, 1e308).iou(Box(0, 0, 1, 1)) == 0


@given(boxes(), boxes())
def test_an_intersection_lies_in_both(a: Box, b: Box) -> None:
    common = a.intersect(b)
    if common is not None:
        assert a.contains(common)
        assert b.contains(common)
        assert common.width > 0
        assert common.height > 0


@given(boxes(), frames)
def test_clamping_lands_in_the_frame_and_twice_is_once(box: Box, frame: tuple[int, int]) -> None:
    inside = box.clamp(*frame)
    assert Box(0, 0, *frame).contains(inside)
    assert inside.clamp(*frame) == inside


@given(boxes(), st.floats(0, 1000), st.floats(0, 1000))
def test_growing_contains(box: Box, x: float, y: float) -> None:
    assert box.grow(x, y).contains(box)
    assert box.grow(x) == box.grow(x, x)


def test_growing_by_less_than_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        Box(0, 0, 10, 10).grow(-1)


@pytest.mark.parametrize("wrong", [(math.nan, 0, 1, 1), (0, 0, math.inf, 1), (2, 0, 1, 1), (0, 2, 1, 1)])
def test_a_box_is_finite_and_in_order(wrong: tuple[float, float, float, float]) -> None:
    with pytest.raises(BoxError):
        Box(*wrong)


@given(crops(), min_sides, contexts)
@settings(max_examples=200)
def test_a_crop_lies_in_the_frame_holds_the_box_and_is_wide_enough(
    crop: tuple[Box, tuple[int, int]], min_side: float, context: float
) -> None:
    box, (width, height) = crop
    region = crop_region(box, (width, height), min_side=min_side, context=context)
    inside = box.clamp(width, height)
    assert Box(0, 0, width, height).contains(region)
    assert region.contains(inside)
    for side, asked, frame in (
        (region.width, inside.width, width),
        (region.height, inside.height, height),
    ):
        wanted = max(min_side, asked * (1 + 2 * context))
        assert side >= min(frame, wanted) - 1e-6 * frame
        assert side >= min(frame, max(region.width, region.height) / 100) - 1e-6 * frame


@given(crops(), min_sides, contexts)
def test_a_crop_is_centred_on_its_box_unless_the_frame_is_in_the_way(
    crop: tuple[Box, tuple[int, int]], min_side: float, context: float
) -> None:
    box, (width, height) = crop
    region = crop_region(box, (width, height), min_side=min_side, context=context)
    inside = box.clamp(width, height)
    if region.left > 0 and region.right < width:
        assert region.centre[0] == pytest.approx(inside.centre[0], abs=1e-6 * width)
    if region.top > 0 and region.bottom < height:
        assert region.centre[1] == pytest.approx(inside.centre[1], abs=1e-6 * height)


@given(crops(), st.tuples(min_sides, min_sides), st.tuples(contexts, contexts))
def test_more_context_or_a_larger_minimum_never_shows_less(
    crop: tuple[Box, tuple[int, int]], sides: tuple[float, float], margins: tuple[float, float]
) -> None:
    box, frame = crop
    less = crop_region(box, frame, min_side=min(sides), context=min(margins))
    more = crop_region(box, frame, min_side=max(sides), context=max(margins))
    slack = 1e-6 * max(frame)
    assert more.grow(slack).contains(less)


@given(crops(), st.floats(0, 1), min_sides, contexts)
def test_a_box_further_right_never_gives_a_crop_further_left(
    crop: tuple[Box, tuple[int, int]], step: float, min_side: float, context: float
) -> None:
    box, (width, height) = crop
    box = box.clamp(width, height)
    step *= width - box.right
    moved = Box(box.left + step, box.top, min(width, box.right + step), box.bottom)
    assume(moved.width > 0)
    here = crop_region(box, (width, height), min_side=min_side, context=context)
    there = crop_region(moved, (width, height), min_side=min_side, context=context)
    assert there.left >= here.left - 1e-6 * width
    assert there.right >= here.right - 1e-6 * width


@pytest.mark.parametrize("factor", [28, 32])
@pytest.mark.parametrize("thin", [(100, 100, 105, 105), (100, 100, 101, 400), (100, 100, 128, 128)])
def test_thin_boxes_grow_around_their_centre(factor: int, thin: tuple[int, int, int, int]) -> None:
    region = crop_region(Box(*thin), (1920, 1080), min_side=factor)
    assert region.width == max(factor, thin[2] - thin[0])
    assert region.height == max(factor, thin[3] - thin[1])
    assert region.centre == Box(*thin).centre


def test_a_crop_at_the_edge_is_shifted_not_cut() -> None:
    assert crop_region(Box(0, 1075, 5, 1080), (1920, 1080), min_side=28) == Box(0, 1052, 28, 1080)
    assert crop_region(Box(1900, 500, 1910, 510), (1920, 1080), min_side=0, context=3.0) == Box(1850, 470, 1920, 540)


def test_context_is_a_share_of_the_side_on_each_side() -> None:
    assert crop_region(Box(500, 500, 510, 520), (2000, 2000), min_side=0, context=1.0) == Box(490, 480, 520, 540)


def test_a_small_frame_is_shown_whole() -> None:
    assert crop_region(Box(1, 1, 2, 2), (20, 300), min_side=28) == Box(0, 0, 20, 28)


def test_a_hair_is_widened_so_that_no_processor_refuses_it() -> None:
    region = crop_region(Box(100, 100, 8100, 101), (9000, 9000), min_side=0)
    assert (region.width, region.height) == (8000, 80)


@pytest.mark.parametrize(
    ("asked", "shown"),
    [((-20, -20, 30, 30), (0, 0, 30, 30)), ((90, 90, 200, 200), (90, 90, 100, 100))],
)
def test_boxes_that_hang_over_are_clamped(asked: tuple[int, int, int, int], shown: tuple[int, int, int, int]) -> None:
    assert crop_region(Box(*asked), (100, 100), min_side=0) == Box(*shown)


@pytest.mark.parametrize(
    "nothing", [(150, 150, 200, 200), (10, 10, 10, 50), (10, 10, 50, 10), (100, 0, 120, 50), (5, 5, 5, 5)]
)
def test_nothing_left_names_the_picture_size_and_the_rule(nothing: tuple[int, int, int, int]) -> None:
    with pytest.raises(BoxError, match=r"100 x 100 pixels.*left < right.*0 to 100"):
        crop_region(Box(*nothing), (100, 100), min_side=28)


@pytest.mark.parametrize("setting", [{"min_side": -1}, {"min_side": math.inf}, {"min_side": 1, "context": -0.1}])
def test_settings_must_make_sense(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        crop_region(Box(0, 0, 1, 1), (10, 10), **setting)
