"""Walking a sequence, and the certificate that comes of it: worked by hand, and as properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import ConfigError, InputError
from speceyes.gating.certify import Limit, Outcomes, Risk, ThresholdSequence, certify, run_sequence, tail, walk

EXCESS = [Limit(Risk.EXCESS, 0.05)]


def passed(p_values: list[float], weights: list[float], delta: float = 0.05) -> list[bool]:
    return run_sequence(np.array(p_values), np.array(weights), delta)[1].tolist()


def levels(p_values: list[float], weights: list[float], delta: float = 0.05) -> list[float]:
    return run_sequence(np.array(p_values), np.array(weights), delta)[0].tolist()


def test_the_first_failure_ends_one_sequence() -> None:
    assert passed([0.01, 0.05, 0.06, 0.0], [1, 0, 0, 0]) == [True, True, False, False]
    assert levels([0.01, 0.05, 0.06, 0.0], [1, 0, 0, 0]) == [0.05, 0.05, 0.05, 0.0]


def test_a_later_start_has_its_own_budget_and_inherits() -> None:
    # the first fails at 2.5 %, the third starts anew with 2.5 %
    assert passed([0.04, 0.0, 0.02, 0.02, 0.03], [0.5, 0, 0.5, 0, 0]) == [False, False, True, True, False]
    # the first passes, so the third is tested with all of the 5 %
    assert levels([0.02, 0.02, 0.04, 0.04], [0.5, 0, 0.5, 0]) == [0.025, 0.025, 0.05, 0.05]
    assert passed([0.02, 0.02, 0.04, 0.04], [0.5, 0, 0.5, 0]) == [True] * 4


def test_no_weight_no_pass() -> None:
    assert passed([0.0, 0.0], [0, 0]) == [False, False]
    assert passed([], []) == []


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=20), st.floats(0.01, 0.5))
def test_budgets_of_true_nulls_never_exceed_delta(rows: list[tuple[float, int]], delta: float) -> None:
    """If only the failed ones are true nulls, their levels add up to delta at most: the heart of the proof."""
    total = max(1, sum(weight for _, weight in rows))
    weights = [weight / total for _, weight in rows]
    found, accepted = run_sequence(np.array([p for p, _ in rows]), np.array(weights), delta)
    assert found[~accepted].sum() <= delta * (1 + 1e-9)
    assert (found <= delta).all()


def world(n_good: int, lost_good: int, n_bad: int, lost_bad: int) -> Outcomes:
    """Good ones have the score 2, bad ones 1."""
    scores = np.array([2.0] * n_good + [1.0] * n_bad)
    lost = [True] * lost_good + [False] * (n_good - lost_good) + [True] * lost_bad + [False] * (n_bad - lost_bad)
    return Outcomes(scores, np.array([lost]))


@pytest.mark.parametrize(
    ("n", "lost", "feasible"), [(58, 0, False), (59, 0, True), (92, 1, False), (93, 1, True), (59, 1, False)]
)
def test_what_it_takes_for_five_percent(n: int, lost: int, feasible: bool) -> None:
    certificate = certify(world(n, lost, 0, 0), ThresholdSequence.from_start([2.0]), EXCESS, 0.05)
    assert (certificate.chosen is not None) == feasible


def test_a_certificate_by_hand() -> None:
    certificate = certify(world(100, 0, 100, 30), ThresholdSequence.from_start([2.0, 1.0, 0.0]), EXCESS, 0.05)
    first, second, third = certificate.steps
    assert (first.accepted, first.losses, first.passed, first.level) == (100, (0,), True, 0.05)
    assert first.p_value == pytest.approx(0.95**100)
    assert first.bounds[0] == pytest.approx(1 - 0.05 ** (1 / 100))
    assert first.intervals[0] == (0.0, pytest.approx(1 - 0.025 ** (1 / 100)))
    assert (second.accepted, second.losses, second.passed, second.tested) == (200, (30,), False, True)
    assert (third.tested, third.passed) == (False, False)
    assert certificate.chosen == first
    assert certificate.n == 200


def test_several_risks_must_all_hold() -> None:
    scores = np.full(400, 1.0)
    losses = np.zeros((2, 400), dtype=np.bool_)
    losses[0, :5], losses[1, :30] = True, True
    sequence = ThresholdSequence.from_start([1.0])
    for limit, feasible in ((0.12, True), (0.08, False)):
        limits = [Limit(Risk.EXCESS, 0.05), Limit(Risk.ERROR, limit)]
        certificate = certify(Outcomes(scores, losses), sequence, limits, 0.05)
        assert bool(certificate.certified) == feasible
        assert certificate.steps[0].p_value == max(tail(5, 400, 0.05), tail(30, 400, limit))


def test_thresholds_that_accept_nothing_more_are_left_out() -> None:
    certificate = certify(world(100, 0, 0, 0), ThresholdSequence.from_start([2.0, 1.5, 1.0]), EXCESS, 0.05)
    assert [step.passed for step in certificate.steps] == [True, True, True]
    assert [step.threshold for step in certificate.certified] == [2.0]
    assert certificate.chosen == certificate.steps[0]


def test_nothing_to_certify() -> None:
    unscored = Outcomes(np.full(5, np.nan), np.ones((1, 5), dtype=np.bool_))
    certificate = certify(unscored, ThresholdSequence.from_start([1.0]), EXCESS, 0.05)
    assert certificate.chosen is None
    assert certificate.steps[0].bounds == (1.0,)
    assert certify(unscored, ThresholdSequence.from_start([]), EXCESS, 0.05).steps == ()


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, float("nan")])
def test_delta_must_be_a_chance(delta: float) -> None:
    with pytest.raises(ConfigError, match="delta"):
        certify(world(1, 0, 0, 0), ThresholdSequence.from_start([1.0]), EXCESS, delta)


@pytest.mark.parametrize("limits", [[], [*EXCESS, Limit(Risk.ERROR, 0.1)]])
def test_each_risk_needs_its_limit(limits: list[Limit]) -> None:
    with pytest.raises(InputError, match="limits"):
        certify(world(1, 0, 0, 0), ThresholdSequence.from_start([1.0]), limits, 0.05)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=200),
    st.floats(0.01, 0.5),
    st.floats(0.01, 0.5),
)
def test_stricter_wishes_never_certify_more(rows: list[tuple[int, bool]], alpha: float, delta: float) -> None:
    outcomes = Outcomes(np.array([row[0] for row in rows], dtype=np.float64), np.array([[row[1] for row in rows]]))
    sequence = ThresholdSequence.from_start(range(6))
    found = walk(outcomes, sequence, [Limit(Risk.EXCESS, alpha)], delta).passed
    assert not (walk(outcomes, sequence, [Limit(Risk.EXCESS, alpha / 2)], delta).passed & ~found).any()
    assert not (walk(outcomes, sequence, [Limit(Risk.EXCESS, alpha)], delta / 2).passed & ~found).any()
    worse = Outcomes(outcomes.scores, outcomes.losses | (outcomes.scores > 3)[None, :])
    assert not (walk(worse, sequence, [Limit(Risk.EXCESS, alpha)], delta).passed & ~found).any()


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=200), st.floats(0.02, 0.5))
def test_certified_bounds_stay_under_their_limit(rows: list[tuple[int, bool]], alpha: float) -> None:
    outcomes = Outcomes(np.array([row[0] for row in rows], dtype=np.float64), np.array([[row[1] for row in rows]]))
    sequence = ThresholdSequence(np.arange(5.0, -1.0, -1.0), np.array([0.5, 0, 0, 0.5, 0, 0]))
    certificate = certify(outcomes, sequence, [Limit(Risk.EXCESS, alpha)], 0.1)
    assert all(step.bounds[0] <= alpha * (1 + 1e-9) for step in certificate.certified)
    assert all(step.bounds[0] > alpha * (1 - 1e-9) for step in certificate.steps if step.tested and not step.passed)
