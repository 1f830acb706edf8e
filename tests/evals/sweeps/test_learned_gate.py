"""The learned gate: its features, and that it never scores what it has seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import lifelike, run_of
from sklearn.linear_model import LogisticRegression

from speceyes.evals.sweeps.learned import LEAST, QUANTILES, cross_fit, features, token_quantiles
from speceyes.evals.sweeps.measures import auroc
from speceyes.evals.sweeps.ranking import Ranking, RightAndWrong


@given(st.lists(st.lists(st.floats(-9, 9), max_size=6), min_size=1, max_size=8))
def test_quantiles_are_numpys(answers: list[list[float]]) -> None:
    values = np.array([value for answer in answers for value in answer])
    found = token_quantiles(values, np.array([len(answer) for answer in answers]))
    for row, answer in zip(found, answers, strict=True):
        if answer:
            assert row == pytest.approx(np.quantile(answer, QUANTILES))
        else:
            assert np.isnan(row).all()


def test_a_token_without_a_score_leaves_its_answer_without_features() -> None:
    found = token_quantiles(np.array([1.0, np.nan, 2.0]), np.array([2, 1]))
    assert np.isnan(found[0]).all()
    assert (found[1] == 2.0).all()


def test_sampled_log_probs_are_not_needed() -> None:
    table = run_of([True] * 4, logprobs=[[-0.1, -2.0, -3.0, -3.5]] * 4)
    assert features(table.answers, 4).shape == (4, 1 + 4 * len(QUANTILES))
    table.answers.sampled[:] = np.nan
    table.answers._token_scores.clear()
    assert features(table.answers, 4).shape == (4, 1 + 3 * len(QUANTILES))


def test_it_learns_what_there_is_to_learn() -> None:
    table = lifelike(600, seed=2)
    scores = cross_fit(features(table.answers, 20), table.draft_right)
    assert np.isfinite(scores).all()
    assert auroc(RightAndWrong.of(Ranking.of(scores), table.draft_right))[0] > 0.8


def test_no_draft_is_scored_by_a_model_that_knew_it() -> None:
    """With noise for features there is nothing to learn, and only who has seen the answers scores well."""
    rng = np.random.default_rng(0)
    noise, right = rng.normal(size=(400, 60)), rng.random(400) < 0.5
    cheating = LogisticRegression().fit(noise, right).decision_function(noise)
    measured = [auroc(RightAndWrong.of(Ranking.of(s), right))[0] for s in (cross_fit(noise, right), cheating)]
    assert measured[0] < 0.58
    assert measured[1] > 0.7


def test_a_group_is_never_on_both_sides() -> None:
    """Pairs of equal rows with labels at random: who has seen the twin would know the label."""
    rng = np.random.default_rng(1)
    rows, right = np.repeat(np.eye(100), 2, axis=0), np.repeat(rng.random(100) < 0.5, 2)
    apart = cross_fit(rows, right, groups=np.repeat(np.arange(100), 2))
    leaked = cross_fit(rows, right)
    measured = [auroc(RightAndWrong.of(Ranking.of(scores), right))[0] for scores in (apart, leaked)]
    assert measured[0] < 0.65
    assert measured[1] > 0.8


def test_rows_without_features_have_no_score() -> None:
    table = lifelike(200)
    rows = features(table.answers, 20)
    rows[3] = np.nan
    scores = cross_fit(rows, table.draft_right)
    assert np.flatnonzero(np.isnan(scores)).tolist() == [3]


@pytest.mark.parametrize("wrong", [0, LEAST - 1])
def test_too_few_of_one_kind_teach_nothing(wrong: int) -> None:
    right = np.array([False] * wrong + [True] * 100)
    assert np.isnan(cross_fit(np.random.default_rng(0).normal(size=(right.size, 2)), right)).all()


def test_fewer_groups_than_folds_teach_nothing() -> None:
    right = np.arange(100) % 2 == 0
    assert np.isnan(cross_fit(np.ones((100, 1)), right, groups=np.arange(100) // 30)).all()
