"""The front: nothing on it is beaten, and everything off it is."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from speceyes.evals.sweeps.pareto import pareto_front, thinned


def test_by_hand() -> None:
    speed = np.array([1.0, 2.0, 2.0, 1.5, 0.5, math.nan, 1.0])
    accuracy = np.array([0.9, 0.8, 0.7, 0.8, 0.95, 1.0, 0.9])
    assert pareto_front(speed, accuracy).tolist() == [1, 0, 4]


def test_nothing_has_an_empty_front() -> None:
    assert not pareto_front(np.array([]), np.array([])).size


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30))
def test_the_front_is_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    array = np.array(points, dtype=np.float64).reshape(-1, 2)
    front = pareto_front(array[:, 0], array[:, 1]).tolist()
    unbeaten = {
        point
        for point in points
        if not any(other != point and other[0] >= point[0] and other[1] >= point[1] for other in points)
    }
    assert {points[i] for i in front} == unbeaten
    assert len(front) == len(unbeaten)


@given(st.integers(0, 200), st.integers(2, 20))
def test_thinning_keeps_both_ends(count: int, most: int) -> None:
    kept = thinned(count, most)
    assert kept.size <= most
    assert kept.tolist() == sorted(set(kept.tolist()))
    if count:
        assert (kept[0], kept[-1]) == (0, count - 1)
