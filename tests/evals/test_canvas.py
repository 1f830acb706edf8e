"""Drawing: text stays in its place, and signs that the font lacks never show as empty boxes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from speceyes.evals.canvas import Canvas, Style, printable

STYLE = Style(14, "#000000")


@given(st.text(max_size=120), st.integers(60, 300), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_wrapped_text_keeps_its_width_and_its_lines(text: str, width: int, lines: int) -> None:
    canvas = Canvas(10, 10, 1.0, "#ffffff")
    found = canvas.wrap(text, STYLE, width, lines)
    assert 1 <= len(found) <= lines
    assert all(canvas.width_of(line, STYLE) <= width for line in found)


def test_short_text_is_left_as_it_is_and_long_text_ends_in_dots() -> None:
    canvas = Canvas(10, 10, 1.0, "#ffffff")
    assert canvas.wrap("What digit is on the red sign?", STYLE, 400, 2) == ["What digit is on the red sign?"]
    assert canvas.wrap("one two three four five six seven", STYLE, 60, 2)[-1].endswith("...")


@given(st.text())
def test_printable_text_is_latin(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(" " <= sign <= "ÿ" for sign in shown)


def test_text_is_drawn_inside_its_box() -> None:
    canvas = Canvas(200, 60, 2.0, "#ffffff")
    canvas.text(20, 10, "Sign", Style(20, "#000000", bold=True))
    ys, xs = np.nonzero(np.asarray(canvas.picture.convert("L")) < 128)
    assert xs.min() >= 38
    assert xs.max() <= 2 * (20 + canvas.width_of("Sign", Style(20, "#000000"))) + 6
    assert ys.min() >= 18
    assert ys.max() <= 2 * (10 + 20 * 1.36)


def test_a_picture_is_pasted_with_its_corners_cut() -> None:
    canvas = Canvas(100, 100, 2.0, "#ffffff")
    canvas.paste(Image.new("RGB", (100, 100), "#ff0000"), 10, 10, radius=12)
    assert canvas.picture.getpixel((70, 70)) == (255, 0, 0)
    assert canvas.picture.getpixel((20, 20)) == (255, 255, 255)
    assert canvas.picture.getpixel((119, 70)) == (255, 0, 0)
    assert canvas.picture.getpixel((120, 70)) == (255, 255, 255)


@pytest.mark.parametrize("width", [0, -3])
def test_an_empty_box_draws_nothing(width: float) -> None:
    canvas = Canvas(50, 50, 1.0, "#ffffff")
    canvas.box(10, 10, width, 20, fill="#000000")
    assert canvas.picture.getcolors() == [(2500, (255, 255, 255))]
