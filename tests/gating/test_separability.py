"""Separability: the formula by hand, what it must not depend on, and what must have no score."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from speceyes.errors import ConfigError
from speceyes.gating.separability import (
    AGGREGATES,
    EPSILON,
    aggregate,
    aggregate_answers,
    ranked,
    separability,
    squash,
    unsquash,
)

NAN = math.nan
INF = math.inf

values = st.floats(-60.0, 60.0)
"""Logits as models make them."""
rows = st.integers(3, 40).flatmap(lambda k: arrays(np.float64, k, elements=values))
anything = st.one_of(st.floats(), st.sampled_from([NAN, INF, -INF, -9999.0, -1e4, -1e30, 0.0, -1.0, 1e308, -1e308]))


def by_hand(logits, include_top=False):
    """The formula for one row, term by term."""
    first, *rivals = sorted(logits, reverse=True)
    crowd = [first, *rivals] if include_top else rivals
    mean = math.fsum(crowd) / len(crowd)
    variance = math.fsum((x - mean) ** 2 for x in crowd) / len(crowd)
    return (first - mean) / (math.sqrt(variance) + EPSILON)


def spread_out(row, least=1e-3):
    rivals = np.sort(row)[:-1]
    return rivals[-1] - rivals[0] > least


def test_a_vector_worked_out_by_hand():
    # Rivals -2, -4: mean -3, population spread 1. S = (0 + 3) / (1 + 1e-6).
    assert separability([[0.0, -2.0, -4.0]])[0] == pytest.approx(3.0 / (1.0 + 1e-6), rel=1e-15)
    # All three: mean -2, spread sqrt(8/3). S = 2 / (sqrt(8/3) + 1e-6).
    assert separability([[0.0, -2.0, -4.0]], include_top=True)[0] == pytest.approx(
        2.0 / (math.sqrt(8.0 / 3.0) + 1e-6), rel=1e-15
    )


@pytest.mark.parametrize(("k", "squashed"), [(3, 1.000), (5, 1.000), (10, 0.997), (20, 0.964), (64, 0.848)])
def test_the_same_token_scores_lower_for_larger_k(k, squashed):
    tail = [-0.05] + [-3.2 - 0.15 * i for i in range(63)]
    assert squash(separability([tail[:k]]))[0] == pytest.approx(squashed, abs=5e-4)


def test_sentinels_and_infinities_do_not_touch_the_score():
    clean = [-0.01, -5.0, -6.0, -7.0, -8.0]
    expected = separability([clean])[0]
    assert squash(expected) == pytest.approx(0.970, abs=5e-4)
    for junk in ([-9999.0] * 15, [-INF] * 15, [NAN, None], [-1e30, -3.4e38]):
        assert separability([clean + junk])[0] == expected


@given(rows, st.floats(-500.0, 500.0), st.booleans())
def test_unchanged_by_a_shift_of_all_logits(row, shift, include_top):
    assume(spread_out(row))
    here = separability(row, include_top=include_top)
    assert separability(row + shift, include_top=include_top) == pytest.approx(here, rel=1e-8)


@given(rows, st.booleans())
def test_log_probs_are_as_good_as_logits(row, include_top):
    assume(spread_out(row))
    top = row.max()
    logprobs = row - top - math.log(np.exp(row - top).sum())
    here = separability(row, include_top=include_top)
    assert abs(separability(logprobs, include_top=include_top) - here) <= 1e-9 * max(1.0, abs(here))


@given(st.data(), rows, st.booleans())
def test_unchanged_by_order_to_the_last_bit(data, row, include_top):
    shuffled = np.array(data.draw(st.permutations(row.tolist())))
    assert np.array_equal(
        separability(shuffled, include_top=include_top),
        separability(row, include_top=include_top),
        equal_nan=True,
    )


@given(rows, st.booleans())
def test_the_vectorised_form_is_the_formula(row, include_top):
    assume(spread_out(row))
    assert separability([row, row], include_top=include_top) == pytest.approx(
        [by_hand(row.tolist(), include_top)] * 2, rel=1e-9
    )


@given(rows)
def test_with_the_top_included_it_is_bounded(row):
    score = separability(row, include_top=True)
    assert np.isnan(score) or 0.0 <= score <= math.sqrt(row.size - 1)


def test_the_bound_is_nearly_reached_by_a_first_one_far_away():
    row = [0.0, *(-50.0 - 0.01 * i for i in range(63))]
    assert math.sqrt(63) - 0.01 < separability([row], include_top=True)[0] < math.sqrt(63)
    assert separability([row])[0] > 200.0


@given(rows, st.floats(0.1, 30.0))
def test_a_clearer_first_one_scores_higher(row, lead):
    assume(spread_out(row))
    raised = row.copy()
    raised[row.argmax()] += lead
    assert separability(raised) > separability(row)


@pytest.mark.parametrize("include_top", [False, True])
@pytest.mark.parametrize(
    "row",
    [
        [],
        [0.0],
        [0.0, -5.0],
        [0.0, -5.0, NAN],
        [0.0, -5.0, -9999.0, -9999.0],
        [NAN, NAN, NAN, NAN],
        [-9999.0, -9999.0, -9999.0],
        [0.0, -5.0, -5.0, -5.0],
        [0.0, -5.0, -5.0 - 1e-7],
        [-1.0, -1.0, -1.0, -1.0],
        [INF, 0.0, -1.0, -2.0, -3.0],
        [1e308, -1e308, -1e308],
    ],
)
def test_no_score(row, include_top):
    assert math.isnan(separability([row], include_top=include_top)[0])


def test_each_row_stands_for_itself():
    scores = separability([[0, -2, -4, NAN], [0, -1, NAN, NAN], [-4, NAN, 0, -2]])
    assert scores[0] == scores[2] == separability([[0.0, -2.0, -4.0]])[0]
    assert np.isnan(scores[1])


def test_shapes():
    assert separability(np.zeros((0, 5))).shape == (0,)
    assert separability(np.zeros((4, 0))).shape == (4,)
    assert separability(np.zeros((2, 3, 5))).shape == (2, 3)
    assert separability([0.0, -2.0, -4.0]).shape == ()


@given(arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(0, 8)), elements=anything), st.booleans())
def test_any_numbers_at_all(logits, include_top):
    before = logits.copy()
    scores = separability(logits, include_top=include_top)
    assert scores.shape == logits.shape[:1]
    assert not np.isinf(scores).any()
    assert (scores[~np.isnan(scores)] >= 0.0).all()
    assert np.array_equal(logits, before, equal_nan=True)


def test_ranked_keeps_the_k_largest():
    row = [-3.0, NAN, -1.0, -INF, -2.0, -9999.0]
    assert ranked(row, 2).tolist() == [-1.0, -2.0]
    padded = ranked(row, 8)
    assert padded[:3].tolist() == [-1.0, -2.0, -3.0]
    assert np.isnan(padded[3:]).all()
    assert padded.shape == (8,)


def test_ranked_puts_nothing_in_the_place_of_plus_infinity():
    two = ranked([[INF, -1.0, -2.0], [0.0, -1.0, -2.0]])
    assert np.isnan(two[0]).all()
    assert two[1].tolist() == [0.0, -1.0, -2.0]


@given(st.floats(-1e12, 1e12))
def test_squash_stays_in_range_and_is_the_sigmoid(s):
    assert 0.0 <= squash(s) <= 1.0
    if abs(s) < 50.0:
        assert squash(s) == pytest.approx(1.0 / (1.0 + math.exp(-0.6 * s)), abs=1e-15)


def test_squash_keeps_nan():
    assert math.isnan(squash(NAN))


@given(st.floats(0.001, 0.999))
def test_unsquash_undoes_squash(p):
    assert squash(unsquash(p)) == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 98.0, NAN])
def test_unsquash_refuses_what_is_no_squashed_score(p):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        unsquash(p)


def test_aggregates_by_hand():
    scores = [5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0, 10.0]
    assert aggregate(scores, "min") == 1.0
    assert aggregate(scores, "mean") == 5.5
    assert aggregate(scores, "bottom") == 1.5  # the lowest two of ten
    assert aggregate(scores[:9], "bottom") == 1.0  # the lowest one of nine
    assert aggregate([7.0], "bottom") == 7.0  # at least one
    assert aggregate([math.log(0.5), math.log(0.08)], "log") == pytest.approx(0.2)


@pytest.mark.parametrize("how", AGGREGATES)
@pytest.mark.parametrize("scores", [[], [NAN], [1.0, NAN, 2.0], [1.0, INF], [-INF, INF]])
def test_an_aggregate_needs_a_score_for_every_token(how, scores):
    assert math.isnan(aggregate(scores, how))


def test_an_unknown_aggregate_names_the_known_ones():
    with pytest.raises(ConfigError, match=r"'median'.*min, mean, bottom, log"):
        aggregate([1.0], "median")


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.one_of(st.floats(-50.0, 50.0), st.just(NAN)), max_size=12), max_size=6),
    st.sampled_from(sorted(AGGREGATES)),
)
def test_many_answers_at_once_are_one_after_the_other(answers, how):
    flat = np.array([score for answer in answers for score in answer], dtype=np.float64)
    lengths = np.array([len(answer) for answer in answers], dtype=np.int64)
    together = aggregate_answers(flat, lengths, how)
    assert together == pytest.approx([aggregate(answer, how) for answer in answers], nan_ok=True, rel=1e-12)


@given(st.lists(st.floats(-50.0, 50.0), min_size=1, max_size=30))
def test_min_bottom_and_mean_are_in_order(scores):
    low, bottom, mean = (aggregate(scores, how) for how in ("min", "bottom", "mean"))
    assert low <= bottom + 1e-9
    assert bottom <= mean + 1e-9
