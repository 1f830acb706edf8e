"""The fitted curve of losses: finite whatever the records hold, and right where they are many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gating.certify import loss_curve

rows = st.lists(st.tuples(st.floats(-1e3, 1e3), st.booleans()), min_size=1, max_size=60)


@given(rows)
def test_chances_are_chances(pairs: list[tuple[float, bool]]) -> None:
    curve = loss_curve(np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs]))
    assert curve.shape == (len(pairs),)
    assert ((curve >= 0.0) & (curve <= 1.0)).all()


@given(rows)
def test_it_keeps_the_mean(pairs: list[tuple[float, bool]]) -> None:
    """The likelihood is greatest where the mean chance is the share lost, here with half a loss and half a win more."""
    lost = np.array([pair[1] for pair in pairs])
    curve = loss_curve(np.array([pair[0] for pair in pairs]), lost)
    assert curve.mean() == pytest.approx((lost.sum() + 0.5) / (len(lost) + 1), abs=1e-4)


def test_it_finds_the_truth_in_many_records() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(5.0, 2.0, 50_000)
    truth = 1.0 / (1.0 + np.exp(-(2.0 - 1.5 * scores)))
    assert loss_curve(scores, rng.random(50_000) < truth) == pytest.approx(truth, abs=0.02)


def test_one_score_for_all_and_no_loss() -> None:
    assert loss_curve(np.full(9, 3.0), np.zeros(9, dtype=np.bool_)) == pytest.approx(np.full(9, 0.05))
    apart = loss_curve(np.array([0.0, 0.0, 9.0, 9.0]), np.array([True, True, False, False]))
    assert apart[0] > 0.6 > 0.4 > apart[2]
