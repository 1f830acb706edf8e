"""Pictures: scales, ticks, and marks that stand where the figures say."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.evals.reporting.names import SYSTEMS, shape_of
from speceyes.evals.reporting.plots.axes import SHAPES, Scale, log_ticks, mark, padded, ticks
from speceyes.evals.reporting.plots.categories import categories_plot
from speceyes.evals.reporting.plots.curves import CONCURRENCY, curve_plot
from speceyes.evals.reporting.plots.depth import depth_plot
from speceyes.evals.reporting.plots.phases import Spent, phase_names, phases_plot
from speceyes.evals.reporting.plots.scores import scores_plot
from speceyes.evals.reporting.plots.speed import Place, speed_accuracy
from speceyes.evals.reporting.words import Ranged

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


def elements(picture: str, tag: str) -> list[ET.Element]:
    """Parses the picture, so it is well-formed too."""
    return list(ET.fromstring(picture).iter(tag))


@given(NUMBERS, st.floats(1e-3, 1e6))
def test_ticks_are_round_and_inside(low: float, width: float) -> None:
    found = ticks(low, low + width)
    step = found[1] - found[0] if len(found) > 1 else width
    assert 2 <= len(found) <= 12
    assert all(low - 1e-6 * width <= value <= low + width * (1 + 1e-6) for value in found)
    assert math.isclose(float(f"{step:.0e}"), step, rel_tol=1e-3)


@given(st.floats(1e-3, 1e3), st.floats(1.01, 1e4))
def test_log_ticks_are_inside(low: float, ratio: float) -> None:
    assert all(low * 0.99 <= value <= low * ratio * 1.01 for value in log_ticks(low, low * ratio))


def test_scales_without_a_range_have_no_ticks() -> None:
    assert ticks(1.0, 1.0) == []
    assert ticks(0.0, math.inf) == []
    assert log_ticks(0.0, 1.0) == []


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=9), st.booleans())
def test_a_scale_keeps_order_and_ends(values: list[float], log: bool) -> None:
    scale = Scale(0.005, 200.0, 50.0, 500.0, log)
    assert (scale(0.005), scale(200.0)) == (50.0, 500.0)
    assert scale(1e9) == 500.0
    places = [scale(value) for value in sorted(values)]
    assert places == sorted(places)


@given(st.lists(NUMBERS, min_size=1, max_size=9), st.floats(0.01, 10))
def test_padding_leaves_room(values: list[float], least: float) -> None:
    low, high = padded(values, least=least)
    assert low <= min(values)
    assert max(values) <= high
    assert high - low >= least * 0.99


def test_every_system_has_a_shape_of_its_own() -> None:
    assert len({shape_of(name) for name in SYSTEMS}) == len(SYSTEMS) == len(SHAPES)
    for shape in SHAPES:
        ET.fromstring(mark(shape, 10, 10))


def test_faster_is_right_and_better_is_up() -> None:
    places = [
        Place("agent", Ranged(0.8, 0.7, 0.9), Ranged(1.0)),
        Place("speceyes", Ranged(0.9, 0.8, 0.95), Ranged(2.0, 1.8, 2.2)),
        Place("oracle", Ranged(None), Ranged(3.0)),
    ]
    picture = speed_accuracy(places, "speed")
    groups = [group for group in elements(picture, "g") if group.get("class", "").startswith("s-")]
    assert [group.get("class") for group in groups] == ["s-agent", "s-speceyes"]
    assert "SpecEyes: 90.0 % (80.0 to 95.0), 2.00× (1.80 to 2.20)" in picture
    circle = groups[0].find("circle")
    triangle = groups[1].find("polygon")
    assert circle is not None
    assert triangle is not None
    x, y = (float(value) for value in triangle.get("points", "").split()[0].split(","))
    assert x > float(circle.get("cx", ""))
    assert y < float(circle.get("cy", ""))
    assert speed_accuracy([Place("agent", Ranged(None), Ranged(None))], "") == ""


def test_one_dot_a_run_and_the_line_through_the_means() -> None:
    points = [(depth, 0.5 + 0.25 * depth) for depth in (0, 1, 1, 2, 3)]
    picture = depth_plot(points, (0.5, 0.25), "depth")
    dots = [dot for dot in elements(picture, "circle") if dot.get("class") == "dot"]
    assert len(dots) == 5
    (line,) = elements(picture, "polyline")
    (_, y0), (_, y3) = (map(float, place.split(",")) for place in line.get("points", "").split())
    means = [mean for mean in elements(picture, "line") if mean.get("class") == "mean"]
    assert float(means[0].get("y1", "")) == pytest.approx(y0, abs=0.1)
    assert float(means[-1].get("y1", "")) == pytest.approx(y3, abs=0.1)
    assert depth_plot([], None, "") == ""
    assert "polyline" not in depth_plot([(1, 0.5)], None, "one depth")


def test_bars_are_as_long_as_the_time() -> None:
    bars = [Spent("agent", {"fall_back": 2.0}, 2.0), Spent("speceyes", {"screen": 0.25, "fall_back": 0.5}, 1.0)]
    widths = [float(rect.get("width", "")) for rect in elements(phases_plot(bars, "phases"), "rect")]
    assert [width / widths[0] for width in widths] == pytest.approx([1.0, 0.125, 0.25, 0.125], abs=0.01)
    assert [words for _, words in phase_names(bars)] == ["I screening", "IV agent's loop", "not told apart"]
    assert phases_plot([Spent("agent", {}, 0.0)], "") == ""


def test_scores_are_counted_above_and_below_the_line() -> None:
    scored = [(1.0, False), (1.1, False), (5.0, True), (5.1, True), (5.2, True), (math.nan, True)]
    picture = scores_plot(scored, 3.0, "scores")
    said = re.findall(r"(\d+) (right|wrong) drafts with", picture)
    assert sum(int(count) for count, kind in said if kind == "right") == 3
    assert sum(int(count) for count, kind in said if kind == "wrong") == 2
    assert "threshold 3" in picture
    assert "threshold" not in scores_plot(scored, None, "scores")
    assert elements(scores_plot([(2.0, True)], 2.0, "one"), "svg") is not None
    assert scores_plot([(math.nan, True)], 1.0, "") == ""


def test_a_curve_needs_two_points() -> None:
    assert curve_plot({"agent": [(1, 2.0)]}, CONCURRENCY, "") == ""
    picture = curve_plot({"agent": [(4, 5.0), (1, 2.0)], "draft": [(1, 90.0)]}, CONCURRENCY, "load")
    assert len(elements(picture, "polyline")) == 1
    assert "2/s at 1, 5/s at 4" in picture
    assert "questions per second (log scale)" in curve_plot(
        {"agent": [(1, 1.0), (2, 2.0)], "draft": [(1, 30.0), (2, 60.0)]}, CONCURRENCY, ""
    )


def test_names_of_categories_are_text() -> None:
    groups = {"<b>&\x00": {"agent": (3, 4), "speceyes": (4, 4)}, "other": {"agent": (0, 2)}}
    picture = categories_plot(groups, "categories")
    texts = [element.text for element in elements(picture, "text")]
    assert "<b>&\\x00" in texts
    assert len([group for group in elements(picture, "g") if group.get("class")]) == 3
    assert categories_plot({"only": {"agent": (1, 2)}}, "") == ""
