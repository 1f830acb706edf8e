"""How many records it would have taken: by hand, by simulation, and what cannot be helped by more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gating.certify import (
    Limit,
    Outcomes,
    Risk,
    ThresholdSequence,
    accepted_needed,
    certify,
    most_allowed,
    need_for,
    tail,
    upper_bound,
)


@pytest.mark.parametrize(("alpha", "least"), [(0.05, 59), (0.02, 149), (0.01, 299)])
def test_without_losses_it_is_the_least_clean(alpha: float, least: int) -> None:
    assert accepted_needed(0.0, alpha, 0.05) == least


@given(st.floats(0.0, 0.8), st.floats(0.01, 0.3), st.floats(0.01, 0.2))
def test_it_has_the_power_that_it_says_and_fewer_losses_would_not(part: float, alpha: float, level: float) -> None:
    rate = part * alpha
    n = accepted_needed(rate, alpha, level)
    assert n is not None
    most = int(most_allowed(n, alpha, level))
    assert tail(most, n, rate) >= 0.8
    # one fewer record allows one loss fewer, and with that the chance is too small
    assert most_allowed(n - 1, alpha, level) == most - 1
    if most > 0:
        fewer = np.arange(most, n)
        least = fewer[tail(most - 1, fewer, alpha) <= level][0]
        assert tail(most - 1, least, rate) < 0.8


@pytest.mark.parametrize("rate", [0.02, 0.03, 1.0])
def test_no_number_helps_at_or_above_the_limit(rate: float) -> None:
    assert accepted_needed(rate, 0.02, 0.05) is None
    assert accepted_needed(0.02 - 1e-9, 0.02, 0.05) is None


def found(accepted: int, lost: int, of: int, alpha: float = 0.02):
    scores = np.where(np.arange(of) < accepted, 1.0, np.nan)
    outcomes = Outcomes(scores, (np.arange(of) < lost)[None, :])
    certificate = certify(outcomes, ThresholdSequence.from_start([1.0]), [Limit(Risk.EXCESS, alpha)], 0.05)
    assert certificate.chosen is None
    return need_for(certificate, 0.05)


def test_more_records_at_the_rates_seen() -> None:
    need = found(accepted=100, lost=0, of=250)
    # 149 accepted ones at 100 in 250
    assert (need.threshold, need.accepted, need.records, need.more) == (1.0, 149, 373, 123)
    assert need.carried == (pytest.approx(float(upper_bound(0, 100, 0.05))),)
    assert need.carried_at == 1.0


def test_no_number_of_records() -> None:
    need = found(accepted=100, lost=2, of=250)
    assert (need.threshold, need.accepted, need.records, need.more) == (None, None, None, None)
    assert need.carried == (pytest.approx(float(upper_bound(2, 100, 0.05))),)


def test_nothing_accepted() -> None:
    need = found(accepted=0, lost=0, of=50)
    assert (need.more, need.carried, need.carried_at) == (None, (), None)


def test_the_best_threshold_is_named() -> None:
    """Stricter: 20 of 400, clean. Looser: 140 of 400, 1 lost."""
    scores = np.concatenate([np.full(20, 2.0), np.full(120, 1.0), np.full(260, np.nan)])
    outcomes = Outcomes(scores, (np.arange(400) == 50)[None, :])
    certificate = certify(outcomes, ThresholdSequence.from_start([2.0, 1.0]), [Limit(Risk.EXCESS, 0.02)], 0.05)
    need = need_for(certificate, 0.05)
    looser = accepted_needed(1 / 140, 0.02, 0.05)
    assert looser is not None
    assert (need.threshold, need.accepted) == (1.0, looser)
    assert need.carried_at == 1.0
    assert looser * 400 / 140 < 149 * 400 / 20
