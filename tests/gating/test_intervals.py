"""Wilson's interval against its definition and known values."""

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import InputError
from speceyes.gating import wilson

trials = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def test_known_values():
    # n = 10, none: high = z^2 / (n + z^2).
    z2 = 1.959963984540054**2
    assert wilson(0, 10) == (0.0, pytest.approx(z2 / (10 + z2), rel=1e-12))
    # Newcombe (1998), table I: 81 of 263 and 15 of 148.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)


def test_no_trials_say_nothing():
    assert wilson(0, 0) == (0.0, 1.0)


@given(trials, st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_the_ends_solve_the_score_equation(case, confidence):
    successes, n = case
    low, high = wilson(successes, n, confidence)
    assert 0.0 <= low <= successes / n <= high <= 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    for end in (low, high):
        if 0.0 < end < 1.0:
            distance = abs(successes / n - end)
            assert distance == pytest.approx(z * math.sqrt(end * (1 - end) / n), rel=1e-6, abs=1e-9)


@given(trials)
def test_failures_mirror_successes(case):
    successes, n = case
    low, high = wilson(successes, n)
    assert wilson(n - successes, n) == (pytest.approx(1 - high, abs=1e-12), pytest.approx(1 - low, abs=1e-12))


@given(trials)
def test_more_trials_and_less_confidence_narrow_it(case):
    successes, n = case
    low, high = wilson(successes, n)
    more = wilson(4 * successes, 4 * n)
    less = wilson(successes, n, 0.8)
    assert more[1] - more[0] < high - low
    assert less[1] - less[0] < high - low


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (0, -1)])
def test_impossible_counts(successes, n):
    with pytest.raises(InputError, match="successes"):
        wilson(successes, n)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, math.nan])
def test_impossible_confidence(confidence):
    with pytest.raises(InputError, match="confidence"):
        wilson(1, 5, confidence)
