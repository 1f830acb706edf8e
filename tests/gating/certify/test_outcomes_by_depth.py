"""Counting over closer looks: each query is answered by the first draft that reaches the threshold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import InputError
from speceyes.gating.certify import Limit, Outcomes, Risk, certify, thresholds_at, tuned
from speceyes.gating.certify.sequence import ThresholdSequence

scores = st.one_of(st.just(math.nan), st.sampled_from([0.0, 1.0, 2.0]), st.floats(-5.0, 5.0))
draft = st.tuples(scores, st.booleans(), st.booleans())
worlds = st.integers(0, 3).flatmap(lambda deeper: st.lists(st.tuples(*[draft] * (deeper + 1)), max_size=30))
thresholds = st.lists(st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(-6.0, 6.0)), max_size=8)
Query = tuple[tuple[float, bool, bool], ...]


def outcomes_of(queries: list[Query]) -> Outcomes:
    """One query a row: (score, lost by one risk, lost by another) of each of its drafts."""
    depths = list(zip(*queries, strict=True)) or [()]
    made = [
        Outcomes(
            np.array([one[0] for one in drafts], dtype=np.float64),
            np.array([[one[1] for one in drafts], [one[2] for one in drafts]], dtype=np.bool_),
        )
        for drafts in depths
    ]
    return Outcomes(made[0].scores, made[0].losses, tuple(made[1:]))


def first_that_reaches(query: Query, threshold: float) -> int:
    """The rule, for one query: the depth of the draft that answers it, -1 for the agent."""
    return next((depth for depth, one in enumerate(query) if one[0] >= threshold), -1)


@given(worlds, thresholds)
def test_counting_is_going_through_the_looks_one_by_one(queries: list[Query], at: list[float]) -> None:
    outcomes = outcomes_of(queries)
    accepted, lost = outcomes.count(at)
    assert lost.shape == (2, len(at))
    for i, threshold in enumerate(at):
        answered = [first_that_reaches(query, threshold) for query in queries]
        answers = [query[depth] for query, depth in zip(queries, answered, strict=True) if depth >= 0]
        assert accepted[i] == len(answers)
        assert lost[:, i].tolist() == [sum(one[1] for one in answers), sum(one[2] for one in answers)]
        found, lost_there = outcomes.answered_at(threshold)
        assert found.tolist() == answered
        assert lost_there.sum(axis=1).tolist() == lost[:, i].tolist()
        assert not lost_there[:, found < 0].any()
        for depth, drafts in enumerate(outcomes.by_depth):
            assert drafts.count(np.array([threshold]))[0][0] == answered.count(depth)


@given(worlds)
def test_candidates_are_accepted_in_the_shares_asked_for(queries: list[Query]) -> None:
    """What `thresholds_at` promises of its shares holds over all depths together."""
    outcomes = outcomes_of(queries)
    candidates = outcomes.candidates
    best = [max((one[0] for one in query if not math.isnan(one[0])), default=None) for query in queries]
    assert candidates.tolist() == sorted((score for score in best if score is not None), reverse=True)
    found = thresholds_at(candidates, [0.5, 1.0])
    if len(found):
        assert outcomes.count(found)[0][-1] == len(candidates)
        assert outcomes.count(found)[0][0] >= len(candidates) / 2


@given(worlds, thresholds, st.randoms(use_true_random=False))
def test_a_part_is_counted_as_its_queries_alone(queries: list[Query], at: list[float], rng) -> None:
    which = [rng.random() < 0.5 for _ in queries]
    part = outcomes_of(queries).part(np.array(which, dtype=np.bool_))
    alone = outcomes_of([query for query, taken in zip(queries, which, strict=True) if taken])
    for found, expected in zip(part.count(at), alone.count(at), strict=True):
        assert found.tolist() == expected.tolist()


@given(worlds, thresholds)
def test_looks_that_all_fail_change_nothing(queries: list[Query], at: list[float]) -> None:
    first = outcomes_of([query[:1] for query in queries])
    failed = Outcomes(np.full(len(first), math.nan), np.ones_like(first.losses))
    deeper = Outcomes(first.scores, first.losses, (failed, failed))
    assert deeper.candidates.tolist() == first.candidates.tolist()
    for found, expected in zip(deeper.count(at), first.count(at), strict=True):
        assert found.tolist() == expected.tolist()


def test_by_hand() -> None:
    """As the threshold falls, the sure second draft of the first query gives way to its first one, which loses."""
    outcomes = outcomes_of([((1.0, True, True), (3.0, False, False)), ((2.0, False, False), (9.0, True, True))])
    accepted, lost = outcomes.count([9.0, 3.0, 2.0, 1.0])
    assert accepted.tolist() == [1, 2, 2, 2]
    assert lost.tolist() == [[1, 1, 0, 1]] * 2
    assert outcomes.answered_at(2.5)[0].tolist() == [1, 1]
    assert outcomes.answered_at(1.0)[0].tolist() == [0, 0]


def test_one_depth_is_tuned_to_the_bit_as_without_any() -> None:
    rng = np.random.default_rng(3)
    first = Outcomes(np.where(rng.random(400) < 0.2, np.nan, rng.normal(4, 1, 400)), rng.random((2, 400)) < 0.02)
    limits = [Limit(Risk.EXCESS, 0.05), Limit(Risk.ERROR, 0.08)]
    failed = Outcomes(np.full(400, np.nan), np.ones((2, 400), dtype=np.bool_))
    plain, with_looks = (
        tuned(made, limits, 0.05, 4.0) for made in (first, Outcomes(first.scores, first.losses, (failed,)))
    )
    assert plain.thresholds.tolist() == with_looks.thresholds.tolist()


def test_looks_that_never_lose_let_the_sequence_go_on() -> None:
    """Half of the queries are unsure at a glance and sure after a look: the tuned sequence reaches for them."""
    rng = np.random.default_rng(4)
    scores = np.where(rng.random(1000) < 0.5, 6.0, 1.0) + rng.random(1000)
    lost = (scores < 3.0)[None, :]
    deeper = Outcomes(scores, lost, (Outcomes(np.full(1000, 5.0), np.zeros((1, 1000), dtype=np.bool_)),))
    limits = [Limit(Risk.EXCESS, 0.02)]
    for outcomes, share in ((Outcomes(scores, lost), 0.5), (deeper, 1.0)):
        sequence = tuned(outcomes.part(np.arange(1000) < 300), limits, 0.05, 700 / 300)
        found = certify(outcomes.part(np.arange(1000) >= 300), sequence, limits, 0.05)
        assert found.chosen is not None
        assert found.chosen.accepted / 700 == pytest.approx(share, abs=0.05)


def test_a_false_promise_is_as_rare_as_with_one_depth() -> None:
    """At a threshold where a tenth of the accepted really lose, all of them after a look, 5 % are promised."""
    rng, limits, broken = np.random.default_rng(5), [Limit(Risk.EXCESS, 0.1)], 0
    for _ in range(400):
        glance = np.where(rng.random(300) < 0.5, 5.0, 0.0)
        closer = Outcomes(np.full(300, 4.0), (rng.random(300) < 0.2)[None, :])
        outcomes = Outcomes(glance, np.zeros((1, 300), dtype=np.bool_), (closer,))
        # at 3 all are accepted, and half of them lose with chance 0.2: the true risk is just the limit
        broken += certify(outcomes, ThresholdSequence.from_start([3.0]), limits, 0.05).chosen is not None
    assert 0 < broken <= 400 * 0.05 + 4 * math.sqrt(400 * 0.05 * 0.95)


def test_shapes_that_do_not_fit() -> None:
    first = Outcomes(np.zeros(3), np.zeros((1, 3), dtype=np.bool_))
    with pytest.raises(InputError, match="same queries and risks"):
        Outcomes(first.scores, first.losses, (Outcomes(np.zeros(2), np.zeros((1, 2), dtype=np.bool_)),))
    with pytest.raises(InputError, match="no looks within looks"):
        Outcomes(first.scores, first.losses, (Outcomes(first.scores, first.losses, (first,)),))
