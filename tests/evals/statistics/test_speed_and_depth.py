"""Speedups over blocks, and the line of latency over depth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from speceyes.errors import InputError
from speceyes.evals.statistics.depth import fit_depth
from speceyes.evals.statistics.speed import seconds_a_query, speedup

SECONDS = st.floats(0.01, 100.0)


def test_a_speedup_divides_the_sums_over_common_blocks() -> None:
    found = speedup({0: 4.0, 1: 6.0, 2: 100.0}, {0: 2.0, 1: 2.0, 3: 1.0})
    assert found.times.value == 2.5
    assert found.blocks == 2
    assert 2.0 <= found.times.low <= found.times.high <= 3.0


def test_without_common_blocks_there_is_none() -> None:
    assert speedup({0: 1.0}, {1: 1.0}).as_json() == {"value": None, "low": None, "high": None, "blocks": 0}


def test_one_block_has_no_interval() -> None:
    assert speedup({0: 3.0}, {0: 1.5}).as_json() == {"value": 2.0, "low": None, "high": None, "blocks": 1}


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=2, max_size=12))
def test_a_speedup_lies_between_its_blocks(pairs: list[tuple[float, float]]) -> None:
    slow, fast = ({block: pair[side] for block, pair in enumerate(pairs)} for side in (0, 1))
    found = speedup(slow, fast).times
    ratios = [a / b for a, b in pairs]
    assert min(ratios) * 0.999 <= found.low <= found.high <= max(ratios) * 1.001
    assert min(ratios) * 0.999 <= found.value <= max(ratios) * 1.001
    assert speedup(fast, slow).times.value == pytest.approx(1 / found.value)


@given(st.lists(st.tuples(SECONDS, st.floats(0.2, 5.0)), min_size=2, max_size=8))
def test_what_slows_both_does_not_change_it(blocks: list[tuple[float, float]]) -> None:
    """A machine that is slow for a while: the ratio in each block stays, and so does its interval's range."""
    slow = {block: 2.0 * seconds * drift for block, (seconds, drift) in enumerate(blocks)}
    fast = {block: seconds * drift for block, (seconds, drift) in enumerate(blocks)}
    found = speedup(slow, fast).times
    assert (found.value, found.low, found.high) == (pytest.approx(2.0),) * 3


def test_seconds_a_query() -> None:
    found = seconds_a_query(np.array([2.0, 4.0]), np.array([10.0, 10.0]))
    assert found.value == pytest.approx(0.3)
    assert math.isnan(seconds_a_query(np.array([]), np.array([])).value)
    with pytest.raises(InputError, match="do not belong"):
        seconds_a_query(np.array([1.0]), np.array([]))


def test_a_line_without_noise_is_found() -> None:
    depths = np.array([0, 1, 1, 2, 3])
    found = fit_depth(depths, 0.5 + 0.25 * depths, np.arange(5))
    assert found.base.value == pytest.approx(0.5)
    assert found.per_call.value == pytest.approx(0.25)
    assert found.r_squared == pytest.approx(1.0)
    assert found.as_json()["depths"][1] == {"depth": 1, "n": 2, "seconds": 0.75}


@given(st.lists(st.tuples(st.integers(0, 6), SECONDS), min_size=2, max_size=40))
def test_the_line_is_that_of_least_squares(runs: list[tuple[int, float]]) -> None:
    depths, seconds = np.array([d for d, _ in runs]), np.array([s for _, s in runs])
    assume(len(set(depths.tolist())) > 1)
    found = fit_depth(depths, seconds, np.arange(len(runs)))
    theirs = scipy.stats.linregress(depths, seconds)
    assert found.per_call.value == pytest.approx(theirs.slope, rel=1e-6, abs=1e-6)
    assert found.base.value == pytest.approx(theirs.intercept, rel=1e-6, abs=1e-6)
    if found.per_call.as_json()["low"] is not None:
        assert found.per_call.low <= found.per_call.high
    assert sum(n for n, _ in found.means.values()) == len(runs)


def test_one_depth_is_no_line() -> None:
    found = fit_depth(np.array([2, 2, 2]), np.array([1.0, 2.0, 3.0]), np.arange(3))
    assert found.as_json()["per_call"] == {"value": None, "low": None, "high": None}
    assert found.means == {2: (3, 2.0)}
    with pytest.raises(InputError, match="fit together"):
        fit_depth(np.array([1]), np.array([1.0, 2.0]), np.arange(1))


def test_the_slopes_interval_covers() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for seed in range(150):
        depths = rng.integers(0, 4, 80)
        seconds = 1.0 + 0.5 * depths + rng.exponential(0.1 * (1 + depths))
        found = fit_depth(depths, seconds, np.arange(80), seed=seed).per_call
        covered += found.low <= 0.6 <= found.high  # the noise's own mean grows by 0.1 with the depth
    assert 0.87 <= covered / 150 <= 1.0
