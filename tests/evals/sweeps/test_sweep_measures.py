"""AUROC, AURC and their like: by hand, against scikit-learn, and what must hold for every ranking."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from speceyes.evals.sweeps.measures import aurc, auroc, best_aurc, excess_aurc, risk_at
from speceyes.evals.sweeps.ranking import Ranking, RightAndWrong

NAN = math.nan


def counts(scores: list[float], right: list[bool], weights: np.ndarray | None = None) -> RightAndWrong:
    return RightAndWrong.of(Ranking.of(np.array(scores, dtype=float)), np.array(right, dtype=np.bool_), weights)


def aurc_of_order(right: list[bool]) -> float:
    """The definition, word for word: the share of wrong ones among the first i, averaged over i."""
    return float(np.mean([1 - np.mean(right[: i + 1]) for i in range(len(right))]))


def test_by_hand() -> None:
    found = counts([4, 3, 2, 1], [True, False, True, False])
    # Pairs (right, wrong): 4>3, 4>1, 2<3, 2>1: three of four.
    assert auroc(found)[0] == 0.75
    # Risks: 0, 1/2, 1/3, 1/2.
    assert aurc(found)[0] == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    # The best order: 0, 0, 1/3, 1/2.
    assert best_aurc(found)[0] == pytest.approx((1 / 3 + 1 / 2) / 4)
    assert excess_aurc(found)[0] == pytest.approx(1 / 8)


def test_equal_scores_count_half_and_are_averaged_over_their_orders() -> None:
    found = counts([2, 2, 1], [True, False, False])
    assert auroc(found)[0] == 0.75
    orders = [[True, False, False], [False, True, False]]
    assert aurc(found)[0] == pytest.approx(np.mean([aurc_of_order(order) for order in orders]))


def test_a_draft_without_a_score_is_not_looked_at() -> None:
    with_gap = counts([4, NAN, 3, 2, 1], [True, False, False, True, False])
    assert auroc(with_gap)[0] == 0.75
    assert with_gap.right[0, -1] + with_gap.wrong[0, -1] == 4


@pytest.mark.parametrize("right", [True, False])
def test_all_alike_has_no_auroc(right: bool) -> None:
    found = counts([3, 2, 1], [right] * 3)
    assert np.isnan(auroc(found)[0])
    assert aurc(found)[0] == best_aurc(found)[0] == (0.0 if right else 1.0)


def test_nothing_has_no_measure() -> None:
    found = counts([NAN, NAN], [True, False])
    assert np.isnan([auroc(found)[0], aurc(found)[0], best_aurc(found)[0], excess_aurc(found)[0]]).all()
    assert np.isnan(risk_at(found, np.array([0.5]))).all()


def test_risk_at_a_coverage_by_hand() -> None:
    found = counts([4, 3, 2, 1], [True, False, True, False])
    assert risk_at(found, np.array([0.25, 0.5, 0.75, 1.0]))[0] == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])


few_scores = st.integers(0, 5).map(float)
drafts = st.lists(st.tuples(few_scores, st.booleans()), min_size=1, max_size=40)


@given(drafts)
def test_auroc_is_that_of_scikit_learn(pairs: list[tuple[float, bool]]) -> None:
    scores, right = map(list, zip(*pairs, strict=True))
    found = auroc(counts(scores, right))[0]
    if len(set(right)) == 2:
        assert found == pytest.approx(roc_auc_score(right, scores))
    else:
        assert np.isnan(found)


@given(drafts, st.sampled_from([np.exp, np.cbrt, lambda x: 3 * x - 7, lambda x: x / (1 + x)]))
def test_a_strictly_increasing_map_changes_nothing(pairs: list[tuple[float, bool]], to: object) -> None:
    scores, right = map(list, zip(*pairs, strict=True))
    mapped = to(np.array(scores)).tolist()  # type: ignore[operator]
    for measure in (auroc, aurc, excess_aurc):
        assert measure(counts(scores, right)) == pytest.approx(measure(counts(mapped, right)), nan_ok=True)


@given(drafts)
def test_turning_the_scores_round_turns_auroc_round(pairs: list[tuple[float, bool]]) -> None:
    scores, right = map(list, zip(*pairs, strict=True))
    turned = auroc(counts([-score for score in scores], right))
    assert auroc(counts(scores, right)) == pytest.approx(1 - turned, nan_ok=True)


@given(st.lists(st.tuples(st.integers(0, 2).map(float), st.booleans()), min_size=1, max_size=6))
def test_aurc_is_the_mean_over_all_orders_of_equals(pairs: list[tuple[float, bool]]) -> None:
    scores, right = map(list, zip(*pairs, strict=True))
    orders = [
        [right[i] for i in order]
        for order in itertools.permutations(range(len(pairs)))
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]
    assert aurc(counts(scores, right))[0] == pytest.approx(np.mean([aurc_of_order(order) for order in orders]))


@given(drafts)
def test_no_ranking_is_better_than_the_best(pairs: list[tuple[float, bool]]) -> None:
    scores, right = map(list, zip(*pairs, strict=True))
    found = counts(scores, right)
    assert aurc(found)[0] >= best_aurc(found)[0] - 1e-12
    perfect = counts([float(flag) for flag in right], right)
    assert aurc(perfect)[0] == pytest.approx(best_aurc(found)[0])
    assert excess_aurc(perfect)[0] == pytest.approx(0.0, abs=1e-12)


@given(drafts)
def test_a_perfect_rankings_risk_only_rises_with_coverage(pairs: list[tuple[float, bool]]) -> None:
    right = [flag for _, flag in pairs]
    found = counts([float(flag) for flag in right], right)
    risks = risk_at(found, np.linspace(0.05, 1.0, 20))[0]
    assert (np.diff(risks) >= -1e-9).all()


@given(drafts, st.integers(0, 2**32 - 1))
def test_a_weight_is_as_many_copies(pairs: list[tuple[float, bool]], seed: int) -> None:
    scores, right = map(list, zip(*pairs, strict=True))
    weights = np.random.default_rng(seed).integers(0, 4, len(pairs))
    weighted = counts(scores, right, weights[None].astype(float))
    copied = counts(np.repeat(scores, weights).tolist(), np.repeat(right, weights).tolist())
    for measure in (auroc, aurc, excess_aurc):
        assert measure(weighted) == pytest.approx(measure(copied), nan_ok=True)
