"""Resampling: the same draws for all, groups together, and the intervals of SciPy's own bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from speceyes.evals.statistics.bootstrap import Estimate, resamples
from speceyes.evals.sweeps.ranking import Ranking
from speceyes.evals.sweeps.separation import separations


def drawn(groups: list[int], replicates: int, seed: int = 0) -> np.ndarray:
    return np.concatenate(list(resamples(np.array(groups), replicates, seed)))


def test_each_resample_draws_as_many_as_there_are() -> None:
    weights = drawn(list(range(50)), 3000)
    assert weights.shape == (3000, 50)
    assert (weights.sum(axis=1) == 50).all()
    assert weights.mean() == pytest.approx(1.0)
    assert weights.var() == pytest.approx(1 - 1 / 50, rel=0.05)  # binomial


def test_a_seed_gives_the_same_draws_in_whatever_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drawn(list(range(9)), 40, seed=3)
    monkeypatch.setattr("speceyes.evals.statistics.bootstrap.CHUNK_CELLS", 30)
    assert (drawn(list(range(9)), 40, seed=3) == whole).all()
    assert not (drawn(list(range(9)), 40, seed=4) == whole).all()


def test_queries_of_one_group_are_drawn_together() -> None:
    weights = drawn([0, 1, 1, 2, 0], 200)
    assert (weights[:, 0] == weights[:, 4]).all()
    assert (weights[:, 1] == weights[:, 2]).all()
    assert (weights[:, [0, 1, 3]].sum(axis=1) == 3).all()


@pytest.mark.parametrize("groups", [[], [0], [0, 0, 0]])
def test_one_group_has_nothing_to_be_drawn_from(groups: list[int]) -> None:
    assert not list(resamples(np.array(groups, dtype=np.int64), 10, 0))


def test_the_interval_of_a_mean_is_scipys() -> None:
    values = np.random.default_rng(1).exponential(size=120)
    weights = drawn(list(range(120)), 4000)
    ours = Estimate.of(float(values.mean()), weights @ values / weights.sum(axis=1), 0.9)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=4000, confidence_level=0.9, method="percentile", rng=2
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=0.02)
    assert ours.high == pytest.approx(theirs.high, abs=0.02)


def test_percentiles_by_hand() -> None:
    found = Estimate.of(50.0, np.arange(101.0), 0.8)
    assert (found.low, found.high) == (10.0, 90.0)


def test_a_figure_without_a_bound_may_have_an_interval_without_one() -> None:
    found = Estimate.of(math.inf, np.array([2.0] * 50 + [math.inf] * 50), 0.9)
    assert (found.low, found.high) == (2.0, math.inf)
    assert found.as_json() == {"value": None, "low": 2.0, "high": None}


def test_a_figure_that_is_often_undefined_has_no_interval() -> None:
    mostly = np.where(np.arange(100) < 89, 1.0, math.nan)
    assert math.isnan(Estimate.of(1.0, mostly, 0.95).low)
    assert Estimate.of(1.0, np.append(mostly, [1.0] * 11), 0.95).low == 1.0
    assert Estimate.of(math.nan, np.ones(10), 0.95).as_json() == {"value": None, "low": None, "high": None}
    assert Estimate.of(0.5, np.empty(0), 0.95).as_json() == {"value": 0.5, "low": None, "high": None}


def test_a_gate_has_no_lead_over_itself_and_a_better_one_has_one() -> None:
    rng = np.random.default_rng(0)
    right = rng.random(400) < 0.6
    good, poor = right + rng.normal(scale=0.7, size=400), right + rng.normal(scale=3.0, size=400)
    rankings = [Ranking.of(poor), Ranking.of(good), Ranking.of(np.exp(poor))]
    first, second, same = separations(rankings, right, np.arange(400), replicates=300)
    assert (first.auroc_lead.value, first.auroc_lead.low, first.auroc_lead.high) == (0.0, 0.0, 0.0)
    assert second.auroc_lead.low > 0
    assert second.auroc_lead.value == pytest.approx(second.auroc.value - first.auroc.value)
    assert same.auroc == first.auroc
    assert first.auroc.low < first.auroc.value < first.auroc.high
