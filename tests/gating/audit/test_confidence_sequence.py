"""The interval that holds at all times at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import InputError
from speceyes.gating import wilson
from speceyes.gating.audit import confidence_sequence

trials = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def test_worked_by_hand():
    """One success: B(1/2, 3/2) / B(1/2, 1/2) = 1/2, so high is where 1/2 / (1 - p) = 20: p = 39/40."""
    assert confidence_sequence(0, 1) == (0.0, pytest.approx(39 / 40, rel=1e-12))
    assert confidence_sequence(1, 1) == (pytest.approx(1 / 40, rel=1e-12), 1.0)
    # Two of two: B(5/2, 1/2) / B(1/2, 1/2) = 3/8, so 3/8 / p^2 = 20
    assert confidence_sequence(2, 2) == (pytest.approx(math.sqrt(3 / 160), rel=1e-12), 1.0)


def test_no_trials_say_nothing():
    assert confidence_sequence(0, 0) == (0.0, 1.0)


@given(trials, st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_it_holds_the_rate_and_mirrors(case, confidence):
    losses, n = case
    low, high = confidence_sequence(losses, n, confidence)
    assert 0.0 <= low <= losses / n <= high <= 1.0
    assert confidence_sequence(n - losses, n, confidence) == (pytest.approx(1 - high), pytest.approx(1 - low))


@given(trials)
def test_it_is_wider_than_an_interval_for_one_look_and_narrows(case):
    losses, n = case
    low, high = confidence_sequence(losses, n)
    once = wilson(losses, n)
    assert high - low > once[1] - once[0]
    more = confidence_sequence(10 * losses, 10 * n)
    assert more[1] - more[0] < high - low


@given(trials)
def test_more_losses_move_it_up(case):
    losses, n = case
    if losses < n:
        now, worse = confidence_sequence(losses, n), confidence_sequence(losses + 1, n)
        assert worse[0] >= now[0]
        assert worse[1] >= now[1]


def test_a_million_trials():
    low, high = confidence_sequence(20_000, 1_000_000)
    assert low < 0.02 < high
    assert high - low < 0.0015


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_it_covers_at_all_times_at_once(rate):
    """Looked at after every one of 2,000 trials; the evidence against the true rate is computed as it is defined."""
    rng, streams, n = np.random.default_rng(11), 2000, np.arange(1, 2001)
    losses = (rng.random((streams, len(n))) < rate).cumsum(axis=1)
    gamma = np.array([math.lgamma(i + 0.5) for i in range(len(n) + 1)])
    log_factorial = np.array([math.lgamma(i + 1.0) for i in range(len(n) + 1)])
    mixture = gamma[losses] + gamma[n - losses] - log_factorial[n] - math.log(math.pi)
    evidence = mixture - losses * math.log(rate) - (n - losses) * math.log1p(-rate)
    missed = (evidence >= math.log(20)).any(axis=1).sum()
    assert 0 < missed <= 0.05 * streams + 3 * math.sqrt(streams * 0.05 * 0.95)
    # And the intervals are the rates at which that evidence stays under the line
    for stream in range(20):
        for trial in (1, 10, 200, 2000):
            low, high = confidence_sequence(int(losses[stream, trial - 1]), trial)
            assert (low < rate < high) == (evidence[stream, trial - 1] < math.log(20))


@pytest.mark.parametrize(("losses", "n"), [(-1, 5), (6, 5), (0, -1)])
def test_counts_that_cannot_be(losses, n):
    with pytest.raises(InputError, match="losses"):
        confidence_sequence(losses, n)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, math.nan])
def test_confidences_that_cannot_be(confidence):
    with pytest.raises(InputError, match="confidence"):
        confidence_sequence(1, 5, confidence)
