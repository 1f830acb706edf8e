"""Ranking: equal scores stand and fall together."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from speceyes.evals.sweeps.ranking import Ranking

scores = st.lists(st.one_of(st.just(math.nan), st.integers(-3, 3).map(float), st.floats(-5, 5)), max_size=40)


def test_by_hand() -> None:
    ranking = Ranking.of(np.array([1.0, 3.0, math.nan, 1.0, 2.0]))
    assert ranking.order.tolist() == [1, 4, 0, 3]
    assert ranking.thresholds.tolist() == [math.inf, 3.0, 2.0, 1.0]
    assert ranking.ends.tolist() == [1, 2, 4]
    assert ranking.totals(np.array([10.0, 1.0, 100.0, 20.0, 5.0])).tolist() == [0.0, 1.0, 6.0, 36.0]


def test_nothing_to_rank_accepts_nothing() -> None:
    for values in (np.array([]), np.array([math.nan, math.nan])):
        ranking = Ranking.of(values)
        assert ranking.thresholds.tolist() == [math.inf]
        assert ranking.totals(np.ones((2, values.size))).tolist() == [[0.0], [0.0]]


@given(scores)
def test_each_threshold_accepts_what_is_at_least_as_large(values: list[float]) -> None:
    array = np.array(values, dtype=np.float64)
    ranking = Ranking.of(array)
    ones = ranking.totals(np.ones(array.size))
    assert ones.tolist() == [float((array >= threshold).sum()) for threshold in ranking.thresholds]
    assert (np.diff(ranking.thresholds) < 0).all()
