"""Counting what thresholds accept and lose, and what a loss is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import ConfigError, InputError
from speceyes.gating.certify import Limit, Outcomes, Risk, losses_of

scores = st.one_of(st.just(float("nan")), st.sampled_from([0.0, 1.0, 2.0]), st.floats(-5.0, 5.0))
queries = st.lists(st.tuples(scores, st.booleans(), st.booleans()), max_size=40)


def outcomes_of(rows: list[tuple[float, bool, bool]]) -> Outcomes:
    return Outcomes(
        np.array([row[0] for row in rows], dtype=np.float64),
        np.array([[row[1] for row in rows], [row[2] for row in rows]], dtype=np.bool_),
    )


def test_by_hand() -> None:
    outcomes = outcomes_of([(3.0, False, False), (1.0, True, True), (float("nan"), True, True), (1.0, False, True)])
    accepted, lost = outcomes.count([4.0, 3.0, 2.0, 1.0])
    assert accepted.tolist() == [0, 1, 1, 3]
    assert lost.tolist() == [[0, 0, 0, 1], [0, 0, 0, 2]]
    assert outcomes.candidates.tolist() == [3.0, 1.0, 1.0]
    assert len(outcomes.part(np.array([True, False, True, False]))) == 2


@given(queries, st.lists(st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(-6.0, 6.0)), max_size=8))
def test_counting_is_comparing_one_by_one(rows: list[tuple[float, bool, bool]], thresholds: list[float]) -> None:
    accepted, lost = outcomes_of(rows).count(thresholds)
    for i, threshold in enumerate(thresholds):
        passing = [row for row in rows if row[0] >= threshold]
        assert accepted[i] == len(passing)
        assert lost[:, i].tolist() == [sum(row[1] for row in passing), sum(row[2] for row in passing)]


@pytest.mark.parametrize(("scores", "losses"), [((3,), (1, 4)), ((3,), (3,)), ((3, 1), (1, 3))])
def test_shapes_that_do_not_fit(scores: tuple[int, ...], losses: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="shape"):
        Outcomes(np.zeros(scores), np.zeros(losses, dtype=np.bool_))


@pytest.mark.parametrize(
    ("draft", "agent", "same", "lost"),
    [
        (True, True, True, set()),
        (True, False, False, {Risk.DISAGREEMENT}),
        (False, True, False, {Risk.EXCESS, Risk.DISAGREEMENT, Risk.ERROR}),
        (False, False, False, {Risk.DISAGREEMENT, Risk.ERROR}),
        (False, False, True, {Risk.ERROR}),
    ],
)
def test_what_a_loss_is(draft: bool, agent: bool, same: bool, lost: set[Risk]) -> None:
    known = {"draft_right": np.array([draft]), "agent_right": np.array([agent]), "agrees": np.array([same])}
    assert {risk for risk in Risk if losses_of(risk, **known)[0]} == lost


def test_limits_from_text() -> None:
    assert Limit.parse("excess", 0.02) == Limit(Risk.EXCESS, 0.02)
    assert Limit.parse("error:0.1", 0.02) == Limit(Risk.ERROR, 0.1)
    assert [risk.needs_labels for risk in Risk] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("loss", "no risk 'loss'.*excess, disagreement, error"),
        ("excess:", "no number"),
        ("excess:two", "no number"),
        ("excess:0", "between 0 and 1"),
        ("excess:1", "between 0 and 1"),
        ("excess:nan", "between 0 and 1"),
    ],
)
def test_limits_that_are_none(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Limit.parse(text, 0.02)
