"""Intervals of differences and of means."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.evals.reporting.intervals import adjusted_difference, mean_of, widened
from speceyes.evals.reporting.words import Ranged

COUNTS = st.tuples(st.integers(0, 200), st.integers(0, 200), st.integers(0, 2000))


@given(COUNTS)
def test_the_other_way_round_is_the_mirror_image(counts: tuple[int, int, int]) -> None:
    first, second, rest = counts
    low, high = adjusted_difference(first, second, first + second + rest)
    assert -1.0 <= low <= high <= 1.0
    assert adjusted_difference(second, first, first + second + rest) == pytest.approx((-high, -low))


def test_more_questions_say_more() -> None:
    widths = [high - low for low, high in (adjusted_difference(0, 0, n) for n in (10, 40, 400, 4000))]
    assert widths == sorted(widths, reverse=True)
    assert adjusted_difference(0, 0, 0) == (-1.0, 1.0)
    # (b, c, n) = (3, 1, 30), by hand: p = 4/32, q = 2/32, half = 1.95996 * sqrt((6/32 - (2/32)^2) / 32)
    half = 1.959964 * math.sqrt((6 / 32 - (2 / 32) ** 2) / 32)
    assert adjusted_difference(3, 1, 30) == pytest.approx((2 / 32 - half, 2 / 32 + half))


@given(COUNTS, st.floats(-0.2, 0.0), st.floats(0.0, 0.2))
def test_the_wider_end_counts(counts: tuple[int, int, int], down: float, up: float) -> None:
    first, second, rest = counts
    n = max(1, first + second + rest)
    value = (first - second) / n
    found = widened(Ranged(value, value + down, value + up), first, second, n)
    low, high = adjusted_difference(first, second, n)
    assert found.value == value
    assert found.low == min(low, value + down)
    assert found.high == max(high, value + up, value)
    assert widened(Ranged(None), first, second, n) == Ranged(None)


def test_a_mean_of_equal_parts() -> None:
    mean = mean_of([Ranged(0.8, 0.7, 0.85)] * 4)
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.8, 0.75, 0.825))


@given(st.lists(st.tuples(st.floats(0.2, 0.8), st.floats(0, 0.2), st.floats(0, 0.2)), min_size=1, max_size=7))
def test_a_mean_is_narrower_than_its_widest_part(parts: list[tuple[float, float, float]]) -> None:
    mean = mean_of([Ranged(value, value - down, value + up) for value, down, up in parts])
    assert mean.value is not None
    assert mean.low is not None
    assert mean.high is not None
    assert mean.low <= mean.value <= mean.high
    assert mean.value - mean.low <= max(down for _, down, _ in parts) + 1e-9
    assert mean.high - mean.value <= max(up for _, _, up in parts) + 1e-9


def test_what_is_missing_is_missing_in_the_mean() -> None:
    assert mean_of([]) == Ranged(None)
    assert mean_of([Ranged(0.5, 0.4, 0.6), Ranged(None)]) == Ranged(None)
    assert mean_of([Ranged(1.0), Ranged(1.0)]) == Ranged(1.0)
