"""Exact binomial statements: worked by hand, against plain sums, and as properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from speceyes.gating.certify import interval, least_clean, most_allowed, tail, upper_bound

shares = st.floats(0.001, 0.999)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    n = draw(st.integers(0, 400))
    return draw(st.integers(0, n)), n


def by_sum(losses: int, n: int, share: float) -> float:
    return math.fsum(math.comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(losses + 1))


def test_by_hand() -> None:
    # three tosses of a fair coin: no heads 1/8, at most one 4/8
    assert tail(0, 3, 0.5) == pytest.approx(1 / 8)
    assert tail(1, 3, 0.5) == pytest.approx(4 / 8)
    # (1 - r)^3 = 1/8 at r = 1/2; and for one head, 1 - r^2 (3 - 2r) = 1/2 at r = 1/2
    assert upper_bound(0, 3, 1 / 8) == pytest.approx(1 / 2)
    assert upper_bound(1, 3, 1 / 2) == pytest.approx(1 / 2)


def test_nothing_seen_proves_nothing() -> None:
    assert tail(0, 0, 0.02) == 1.0
    assert upper_bound(0, 0, 0.05) == 1.0
    assert [float(end) for end in interval(0, 0, 0.95)] == [0.0, 1.0]


def test_all_lost() -> None:
    assert tail(5, 5, 0.02) == 1.0
    assert upper_bound(5, 5, 0.05) == 1.0
    assert [float(end) for end in interval(5, 5, 0.95)] == [pytest.approx(0.025 ** (1 / 5)), 1.0]


@pytest.mark.parametrize(("alpha", "least"), [(0.05, 59), (0.02, 149), (0.01, 299)])
def test_the_least_clean_samples(alpha: float, least: int) -> None:
    assert least_clean(alpha, 0.05) == least
    assert tail(0, least, alpha) <= 0.05 < tail(0, least - 1, alpha)
    assert upper_bound(0, least, 0.05) <= alpha < upper_bound(0, least - 1, 0.05)


def test_most_allowed_by_hand() -> None:
    # at 5 %: 59 clean ones, or 1 loss in 93, or 2 in 124
    assert most_allowed([0, 58, 59, 92, 93, 123, 124], 0.05, 0.05).tolist() == [-1, -1, 0, 0, 1, 1, 2]


@given(counts(), shares)
def test_the_tail_is_the_sum(count: tuple[int, int], share: float) -> None:
    assert tail(*count, share) == pytest.approx(by_sum(*count, share), rel=1e-9, abs=1e-200)


@given(counts(), shares)
def test_the_bound_solves_its_equation(count: tuple[int, int], delta: float) -> None:
    losses, n = count
    bound = float(upper_bound(losses, n, delta))
    assert (bound == 1.0) if losses == n else (by_sum(losses, n, bound) == pytest.approx(delta, rel=1e-6))


@given(counts(), shares)
def test_the_interval_is_scipys(count: tuple[int, int], confidence: float) -> None:
    losses, n = count
    low, high = interval(losses, n, confidence)
    assert 0.0 <= low <= (losses / n if n else 0.0) <= high <= 1.0
    if n:
        theirs = binomtest(losses, n).proportion_ci(confidence, "exact")
        assert [float(low), float(high)] == pytest.approx([theirs.low, theirs.high], rel=1e-6, abs=1e-12)


@given(counts(), shares, shares)
def test_test_and_bound_say_the_same(count: tuple[int, int], alpha: float, delta: float) -> None:
    bound = float(upper_bound(*count, delta))
    if not math.isclose(bound, alpha, rel_tol=1e-6):
        assert (tail(*count, alpha) <= delta) == (bound <= alpha)


@given(st.integers(1, 400), shares)
def test_more_losses_never_lower_the_bound(n: int, delta: float) -> None:
    bounds = upper_bound(np.arange(n + 1), n, delta)
    assert (np.diff(bounds) >= 0).all()


@given(st.integers(0, 40), shares)
def test_more_wins_never_raise_the_bound(losses: int, delta: float) -> None:
    assert (np.diff(upper_bound(losses, np.arange(losses, losses + 300), delta)) <= 0).all()


@given(counts(), shares)
def test_more_confidence_never_lowers_the_bound(count: tuple[int, int], delta: float) -> None:
    assert upper_bound(*count, delta / 2) >= upper_bound(*count, delta)


@given(st.integers(0, 2000), shares, shares)
def test_most_allowed_is_the_last_that_passes(n: int, alpha: float, delta: float) -> None:
    most = int(most_allowed(n, alpha, delta))
    assert -1 <= most < max(n, 1)
    assert most == -1 or tail(most, n, alpha) <= delta
    assert tail(most + 1, n, alpha) > delta


@given(shares, shares)
def test_least_clean_is_the_first_that_passes(alpha: float, delta: float) -> None:
    least = least_clean(alpha, delta)
    assert tail(0, least, alpha) <= delta
    assert least == 1 or tail(0, least - 1, alpha) > delta
