"""A box as models write it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import BoxError
from speceyes.imaging import Box, parse_box


@pytest.mark.parametrize(
    "value",
    [
        [10, 20, 50, 60],
        (10.0, 20, 50, 60),
        ["10", "20", "50", "60"],
        ["10.0", " 20 ", "5e1", "+60"],
        "[10, 20, 50, 60]",
        "10,20,50,60",
        [50, 60, 10, 20],
        [10, 60, 50, 20],
        [np.float32(10), np.int64(20), 50, 60],
    ],
)
def test_forms_that_mean_the_same_box(value: Any) -> None:
    assert parse_box(value) == Box(10, 20, 50, 60)


def test_fractions_are_kept() -> None:
    assert parse_box([0.2, 0.2, 0.6, 0.6]) == Box(0.2, 0.2, 0.6, 0.6)


@pytest.mark.parametrize(
    "value",
    [
        [10, 10],
        [1, 2, 3, 4, 5],
        [],
        "",
        "[[1,2],[3,4]]",
        "left of the door",
        None,
        7,
        True,
        {"x1": 1, "y1": 2, "x2": 3, "y2": 4},
        [[1, 2, 3, 4]],
        [math.nan, 0, 5, 5],
        [0, 0, math.inf, 5],
        ["nan", "0", "5", "5"],
        ["inf", 0, 5, 5],
        ["1_0", 0, 5, 5],
        ["0x10", 0, 5, 5],
        ["10px", 0, 5, 5],
        ["١٠", 0, 50, 50],
        ["1e999", 0, 5, 5],
        [True, False, 5, 5],
        [None, 0, 5, 5],
        [10**400, 0, 5, 5],
        [10**6000, 0, 5, 5],
        ["9" * 1000, 0, 5, 5],
        [1j, 0, 5, 5],
        b"[1,2,3,4]",
        "1," * 10_000,
    ],
)
def test_anything_else_is_refused_with_the_form_to_use(value: Any) -> None:
    with pytest.raises(BoxError, match=r"\[left, top, right, bottom\]") as caught:
        parse_box(value)
    assert len(str(caught.value)) < 300


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(_json)
def test_any_json_gives_a_box_or_a_box_error(value: Any) -> None:
    try:
        box = parse_box(value)
    except BoxError:
        return
    assert box.left <= box.right
    assert box.top <= box.bottom


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4))
def test_every_order_of_corners_is_the_same_box(numbers: list[float]) -> None:
    x1, y1, x2, y2 = numbers
    boxes = {parse_box(form).as_tuple() for form in ([x1, y1, x2, y2], [x2, y2, x1, y1], [x1, y2, x2, y1])}
    assert len(boxes) == 1
