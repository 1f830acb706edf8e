"""Bets: worked by hand, enumerated path by path, and run far beyond what floats could hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gating.audit import ODDS_RATIOS, Detector, Wealth, held_back, log_factors, stakes

rates = st.floats(1e-6, 0.999)


def test_one_audit_worked_by_hand():
    """At a bound of 1/2 a bet with odds ratio r multiplies by 2r / (1 + r) at a loss, by 2 less that without."""
    assert ODDS_RATIOS == (1.2, 1.5, 2.5, 5.0, 10.0, 30.0)
    hits = [12 / 11, 6 / 5, 10 / 7, 5 / 3, 20 / 11, 60 / 31]
    assert np.exp(log_factors(1.0, 0.5)) == pytest.approx(hits)
    assert np.exp(log_factors(0.0, 0.5)) == pytest.approx([2 - hit for hit in hits])
    staked = 1 - 1 / (1 + math.log(2))
    start = Wealth.start()
    assert start.log == pytest.approx(0.0, abs=1e-15)
    assert np.exp(start.log_stakes) == pytest.approx([staked / 6] * 6)
    lost, won = start.after(log_factors(1.0, 0.5)), start.after(log_factors(0.0, 0.5))
    assert math.exp(lost.log) == pytest.approx(1 - staked + staked * sum(hits) / 6)
    assert math.exp(won.log) == pytest.approx(1 - staked + staked * (2 - sum(hits) / 6))


def test_a_detector_worked_by_hand():
    hits = np.array([12 / 11, 6 / 5, 10 / 7, 5 / 3, 20 / 11, 60 / 31])
    once = Detector.start().after(log_factors(1.0, 0.5))
    assert math.exp(once.log) == pytest.approx(hits.mean() + 1)
    twice = once.after(log_factors(1.0, 0.5))
    assert math.exp(twice.log) == pytest.approx(((hits + 1) * hits).mean() + 1)


@given(rates)
def test_each_bet_is_fair_at_the_bound_and_a_likelihood_ratio(bound):
    hit, miss = np.exp(log_factors(1.0, bound)), np.exp(log_factors(0.0, bound))
    assert bound * hit + (1 - bound) * miss == pytest.approx(np.ones(6))
    assert (stakes(bound) > 0).all()
    assert (stakes(bound) * bound <= 1).all()
    best = np.array(ODDS_RATIOS) * bound / (1 - bound + np.array(ODDS_RATIOS) * bound)
    assert hit == pytest.approx(best / bound)
    assert miss == pytest.approx((1 - best) / (1 - bound), rel=1e-6)


@given(rates, st.floats(0, 1), st.floats(0.001, 1))
def test_no_bet_gains_under_the_claim_whatever_the_weight(bound, below, weight):
    rate = bound * below
    hit, miss = np.exp(log_factors(1.0, bound, weight)), np.exp(log_factors(0.0, bound, weight))
    assert (rate * hit + (1 - rate) * miss <= 1 + 1e-9).all()
    assert (hit > 0).all()
    assert (miss > 0).all()


@pytest.mark.parametrize("bound", [0.0, 1.0])
def test_bounds_at_the_ends(bound):
    """Nothing can speak against "at most always"; a single event refutes "never" as far as the bets go."""
    hit, miss = log_factors(1.0, bound), log_factors(0.0, bound)
    assert np.isfinite([hit, miss]).all()
    assert (hit.max() == 0.0) if bound == 1.0 else (miss.max() == 0.0)


def test_capital_held_back_falls_from_all_to_nothing():
    kept = [held_back(step) for step in (0, 1, 10, 10**3, 10**9)]
    assert kept[0] == 1.0
    assert kept == sorted(kept, reverse=True)
    assert 0 < kept[-1] < 0.05


def paths(length: int) -> Iterator[tuple[int, ...]]:
    return product((0, 1), repeat=length)


def chance(path: tuple[int, ...], rate: float) -> float:
    return rate ** sum(path) * (1 - rate) ** (len(path) - sum(path))


def wealths(path: tuple[int, ...], bound: float) -> list[float]:
    wealth, found = Wealth.start(), []
    for x in path:
        wealth = wealth.after(log_factors(float(x), bound))
        found.append(math.exp(wealth.log))
    return found


@pytest.mark.parametrize("bound", [0.02, 0.3, 0.7])
def test_wealth_is_a_martingale_at_the_bound_on_every_branch(bound):
    """From every node of the tree: what is owned is exactly what will be owned on average."""
    for path in paths(6):
        wealth = Wealth.start()
        for x in path:
            wealth = wealth.after(log_factors(float(x), bound))
        then = [math.exp(wealth.after(log_factors(x, bound)).log) for x in (0.0, 1.0)]
        assert (1 - bound) * then[0] + bound * then[1] == pytest.approx(math.exp(wealth.log), rel=1e-12)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_expected_wealth_over_all_paths_is_one_at_the_bound_and_less_below_it(rate):
    means = np.array([np.array(wealths(path, 0.3)) * chance(path, rate) for path in paths(8)]).sum(axis=0)
    if rate == 0.3:
        assert means == pytest.approx(np.ones(8), rel=1e-12)
    else:
        assert (means < 1).all()


@pytest.mark.parametrize("delta", [0.5, 0.2, 0.1, 0.05])
def test_the_chance_of_ever_reaching_the_line_is_exact_and_at_most_delta(delta):
    """Stopping at the best moment of each path, which is what an adversary would do."""
    reached = sum(chance(path, 0.3) for path in paths(12) if max(wealths(path, 0.3)) >= 1 / delta)
    assert 0 < reached <= delta


def test_a_detectors_capital_grows_by_one_an_audit_on_average():
    total = np.zeros(8)
    for path in paths(8):
        detector, own = Detector.start(), []
        for x in path:
            detector = detector.after(log_factors(float(x), 0.3))
            own.append(math.exp(detector.log) - 1)
        total += np.array(own) * chance(path, 0.3)
    assert total == pytest.approx(np.arange(1, 9), rel=1e-12)


def test_weights_undo_uneven_shares():
    """Two kinds of queries, all losses in the one that is audited four times as often. Over both, the rate is alpha."""
    alpha, shares = 0.1, {"hard": 0.8, "easy": 0.2}
    rates = {"hard": 2 * alpha, "easy": 0.0}

    def mean(weighted: bool) -> np.ndarray:
        total = np.zeros(6)
        for kind, share in shares.items():
            weight = 0.2 / share if weighted else 1.0
            hit, miss = (np.exp(log_factors(x, alpha, weight)) for x in (1.0, 0.0))
            audited = rates[kind] * hit + (1 - rates[kind]) * miss
            total += 0.5 * (share * audited + (1 - share))
        return total

    assert mean(weighted=True) == pytest.approx(np.ones(6), rel=1e-12)
    assert (mean(weighted=False) > 1.005).all()


@pytest.mark.parametrize("bound", [1e-6, 0.02, 0.5])
@pytest.mark.parametrize("x", [0.0, 1.0])
def test_many_equal_audits(bound, x):
    factors = log_factors(x, bound)
    wealth, detector = Wealth.start(), Detector.start()
    for _ in range(20_000):
        wealth, detector = wealth.after(factors), detector.after(factors)
    assert wealth.steps == 20_000
    assert math.isfinite(wealth.log)
    if x == 1.0:
        # The boldest bet outgrows all others, and both monitors with it
        assert wealth.log == pytest.approx(20_000 * factors.max(), rel=1e-3)
        assert detector.log >= wealth.log
    else:
        # What is held back is never lost
        assert wealth.log >= math.log(held_back(20_001))
        assert detector.log <= math.log(20_001)


def test_after_a_million_audits_nothing_is_lost_to_rounding():
    late = Wealth(1_000_000, (-3e7,) * 6)
    assert late.log == pytest.approx(math.log(held_back(1_000_001)), rel=1e-9)
    fresh = (held_back(1_000_001) - held_back(1_000_002)) / 6
    assert np.exp(late.after(log_factors(0.0, 0.02)).log_stakes) == pytest.approx([fresh] * 6, rel=1e-9)
    rich = Wealth(1_000_000, (3e6,) * 6)
    factors = log_factors(1.0, 0.02)
    assert rich.after(factors).log == pytest.approx(3e6 + math.log(np.exp(factors).sum()), abs=1e-6)
    for _ in range(400):
        late = late.after(log_factors(1.0, 0.02))
    assert late.log > math.log(1e100)


def test_false_alarms_of_an_adversary_who_sees_the_wealth():
    """The rate may change with all that was seen, as long as it stays at most alpha. Looked at after every audit."""
    rng, alpha, delta = np.random.default_rng(7), 0.1, 0.05
    streams = 2000
    factors = np.exp(np.stack([log_factors(0.0, alpha), log_factors(1.0, alpha)]))
    own, best = np.zeros((streams, 6)), np.zeros(streams)
    for step in range(1, 1501):
        wealth = own.sum(axis=1) + held_back(step - 1)
        # Plays on while it is winning; while it is losing, it waits and saves what it has
        rate = np.where(wealth > 0.9, alpha, rng.choice([0.0, alpha], streams))
        own = (own + (held_back(step - 1) - held_back(step)) / 6) * factors[(rng.random(streams) < rate).astype(int)]
        best = np.maximum(best, own.sum(axis=1) + held_back(step))
    alarms = (best >= 1 / delta).sum()
    # At most delta, with three standard errors of room
    assert 0 < alarms <= streams * delta + 3 * math.sqrt(streams * delta * (1 - delta))


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 39))
def test_one_more_loss_never_makes_either_monitor_poorer(path, index):
    index %= len(path)
    with_loss = [*path]
    with_loss[index] = True

    def ends(seen: list[bool]) -> tuple[float, float]:
        wealth, detector = Wealth.start(), Detector.start()
        for x in seen:
            wealth, detector = wealth.after(log_factors(float(x), 0.05)), detector.after(log_factors(float(x), 0.05))
        return wealth.log, detector.log

    assert all(more >= less - 1e-12 for more, less in zip(ends(with_loss), ends(path), strict=True))
