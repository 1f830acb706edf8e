"""Sequences of thresholds: fixed for all, or chosen on records that do not certify."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import ConfigError, InputError
from speceyes.gating import SCORES
from speceyes.gating.certify import (
    Limit,
    Outcomes,
    Risk,
    ThresholdSequence,
    absolute_grid,
    least_clean,
    split_at_random,
    thresholds_at,
    tuned,
)

LIMITS = [Limit(Risk.EXCESS, 0.05)]


@pytest.mark.parametrize("name", SCORES)
def test_the_grid_is_the_same_doubts_in_every_score(name: str) -> None:
    grid = absolute_grid(SCORES[name])
    doubt = 1.0 - SCORES[name].squash(grid.thresholds)
    assert doubt[[0, -1]] == pytest.approx([2.0**-16, 2.0**-0.25], rel=1e-3)
    assert doubt[1:] / doubt[:-1] == pytest.approx(2.0**0.25, rel=1e-3)
    assert grid.weights.sum() == pytest.approx(1.0)
    assert (grid.weights > 0).sum() == 5


def test_what_the_grid_costs() -> None:
    """As its documentation says."""
    level = 0.05 * absolute_grid(SCORES["margin"]).weights.max()
    assert [least_clean(alpha, level) for alpha in (0.05, 0.02, 0.01)] == [90, 228, 459]


def test_one_start() -> None:
    sequence = ThresholdSequence.from_start([1.0, 3.0, 2.0, 3.0])
    assert sequence.thresholds.tolist() == [3.0, 2.0, 1.0]
    assert sequence.weights.tolist() == [1.0, 0.0, 0.0]
    assert len(ThresholdSequence.from_start([]).thresholds) == 0


@pytest.mark.parametrize(
    ("thresholds", "weights"),
    [
        ([1.0, 2.0], [1.0, 0.0]),
        ([1.0, 1.0], [1.0, 0.0]),
        ([np.nan], [1.0]),
        ([np.inf], [1.0]),
        ([2.0, 1.0], [0.6, 0.6]),
        ([2.0, 1.0], [1.5, -0.5]),
        ([2.0, 1.0], [1.0]),
    ],
)
def test_what_is_no_sequence(thresholds: list[float], weights: list[float]) -> None:
    with pytest.raises(ConfigError):
        ThresholdSequence(np.array(thresholds), np.array(weights))


def test_shares_by_hand() -> None:
    candidates = np.array([9.0, 8.0, 7.0, 7.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0])
    assert thresholds_at(candidates, [0.1, 0.2, 0.3, 0.4, 1.0]).tolist() == [9.0, 8.0, 7.0, 2.0]
    assert thresholds_at(np.empty(0), [0.5]).tolist() == []


@given(st.lists(st.integers(0, 8), min_size=1, max_size=60), st.floats(0.01, 1.0))
def test_a_share_accepts_as_much_or_what_ties_with_it(values: list[int], share: float) -> None:
    candidates = -np.sort(-np.array(values, dtype=np.float64))
    (threshold,) = thresholds_at(candidates, [share])
    assert (candidates >= threshold).sum() >= share * len(candidates) - 1e-6
    assert (candidates > threshold).sum() < share * len(candidates)


def outcomes(n: int, bad_below: float, seed: int = 0) -> Outcomes:
    scores = np.random.default_rng(seed).random(n)
    return Outcomes(scores, (scores < bad_below)[None, :])


def test_tuning_starts_where_enough_will_be_accepted() -> None:
    """Of 300 certifying records, 59 clean ones are needed: the strictest fifth of them, and some more to be safe."""
    sequence = tuned(outcomes(100, 0.5), LIMITS, 0.05, ratio=3.0)
    assert 0.5 <= sequence.thresholds[0] < 0.8
    assert sequence.thresholds[-1] == outcomes(100, 0.5).candidates[-1]
    assert sequence.weights[0] == 1.0


def test_tuning_avoids_a_bad_top() -> None:
    """The surest tenth always loses: no start there, and none that it spoils."""
    scores = np.linspace(0.0, 1.0, 400)
    sequence = tuned(Outcomes(scores, (scores > 0.995)[None, :]), LIMITS, 0.05, ratio=1.0)
    assert sequence.thresholds[0] < 0.85


def test_tuning_heeds_every_risk() -> None:
    scores = np.linspace(0.0, 1.0, 400)
    both = Outcomes(scores, np.stack([scores < 0.2, scores > 0.98]))
    limits = [Limit(Risk.EXCESS, 0.05), Limit(Risk.ERROR, 0.05)]
    start = tuned(both, limits, 0.05, 3.0).thresholds[0]
    assert start < tuned(Outcomes(scores, both.losses[:1]), limits[:1], 0.05, 3.0).thresholds[0]


def test_tuning_on_nothing() -> None:
    nothing = Outcomes(np.full(10, np.nan), np.zeros((1, 10), dtype=np.bool_))
    assert len(tuned(nothing, LIMITS, 0.05, 1.0).thresholds) == 0


@given(st.integers(2, 200), st.floats(0.05, 0.95), st.text())
def test_a_split_is_exact_and_repeatable(n: int, share: float, seed: str) -> None:
    if not 0 < round(n * share) < n:
        with pytest.raises(InputError, match="one part would be empty"):
            split_at_random(n, share, seed)
        return
    part = split_at_random(n, share, seed)
    assert part.sum() == round(n * share)
    assert (part == split_at_random(n, share, seed)).all()


def test_splits_differ_by_their_seed_and_favour_nobody() -> None:
    parts = np.array([split_at_random(40, 0.25, f"sha256:{i}") for i in range(400)])
    assert len(np.unique(parts, axis=0)) == 400
    # each record is chosen 100 times in the mean, give or take 4.5 standard deviations
    assert (abs(parts.sum(axis=0) - 100) < 4.5 * np.sqrt(400 * 0.25 * 0.75)).all()
