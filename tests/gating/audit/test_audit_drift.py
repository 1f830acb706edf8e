"""Drift monitors: quiet where the traffic is the calibration's, awake where it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import ConfigError, InputError
from speceyes.gating.audit import DriftMonitor, Reference, Wealth

ALARM = math.log(300)


def monitor(*counts: int, n: int, watched: str = "score", tolerance: float = 0.0) -> DriftMonitor:
    return DriftMonitor.start(watched, counts, n, confidence=0.99, tolerance=tolerance)  # type: ignore[arg-type]


def seen(watch: DriftMonitor, classes: np.ndarray) -> DriftMonitor:
    for one in classes:
        watch = watch.after([index == one for index in range(len(watch.ranges))], log_alarm=ALARM, at=None)
    return watch


@pytest.mark.parametrize(("rate", "direction"), [(0.85, "up"), (0.15, "down")])
def test_a_share_that_moved_is_found_with_its_direction(rate, direction):
    rng = np.random.default_rng(3)
    watch = monitor(500, n=1000, watched="acceptance")
    watch = seen(watch, np.where(rng.random(400) < rate, 0, 1))
    assert watch.found is not None
    assert watch.found.direction == direction
    assert watch.found.interval is None
    assert watch.found.expected == watch.ranges[0]
    assert watch.n < 100
    assert seen(watch, np.zeros(10)) == watch


def test_false_warnings_stay_under_delta_although_the_reference_is_an_estimate():
    """Reference and traffic from one source, 1,000 queries each, ten classes, at a line of 1 in 20."""
    rng, found = np.random.default_rng(5), 0
    for _ in range(60):
        counts = rng.multinomial(1000, [0.1] * 10)
        watch = DriftMonitor.start("score", counts.tolist(), 1000, confidence=0.99, tolerance=0.0)
        for one in rng.integers(10, size=1000):
            watch = watch.after([index == one for index in range(10)], log_alarm=math.log(20), at=None)
        found += watch.found is not None
    assert found <= 0.05 * 60 + 3 * math.sqrt(60 * 0.05 * 0.95)


def test_the_class_that_grew_is_named():
    rng = np.random.default_rng(4)
    watch = seen(monitor(*[100] * 10, n=1000), np.where(rng.random(500) < 0.4, 7, rng.integers(10, size=500)))
    assert watch.found is not None
    assert (watch.found.interval, watch.found.direction) == (7, "up")


def test_differences_within_the_tolerance_are_no_drift():
    """50 % where 56 % were expected: found with a large reference, not with a small one, nor with a tolerance."""
    half = np.arange(4000) % 2
    assert seen(monitor(56, n=100), half).found is None
    assert seen(monitor(56_000, n=100_000), half).found is not None
    assert seen(monitor(56_000, n=100_000, tolerance=0.05), half).found is None


@pytest.mark.parametrize("count", [0, 1000])
def test_shares_at_the_ends(count):
    watch = monitor(count, n=1000, watched="screening")
    steady = [0 if count else 1] * 2000
    assert seen(watch, np.array(steady)).found is None
    assert seen(watch, np.array([1 if count else 0] * 20)).found is not None


def test_wealth_and_ranges_must_fit():
    with pytest.raises(ConfigError, match="cannot be"):
        DriftMonitor("score", ((0.1, 0.2),), Wealth.start(3), (0,))


def test_a_reference_counted_by_hand():
    scores = [1.0, 2.0, 3.0, 4.0, math.nan, 9.0]
    made = Reference.of(scores, [True, True, True, True, True, False], (2.0, 4.0), bins=2)
    assert made == Reference(n=6, screened=5, accepted=(3, 1), score_edges=(3.0,), score_counts=(2, 2, 1))
    assert [made.interval(score) for score in (0.0, 2.9, 3.0, 100.0, None)] == [0, 0, 1, 1, 2]


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 2.5, 7.0, math.nan]), min_size=1, max_size=200), st.integers(1, 12))
def test_references_count_every_draft_once_however_many_are_tied(scores, bins):
    made = Reference.of(scores, [True] * len(scores), (), bins=bins)
    assert sum(made.score_counts) == made.screened == len(scores)
    counted = [0] * len(made.score_counts)
    for score in scores:
        counted[made.interval(None if math.isnan(score) else score)] += 1
    assert tuple(counted) == made.score_counts
    assert len(made.score_edges) < bins or bins == 1


def test_references_that_cannot_be():
    with pytest.raises(InputError, match="one length"):
        Reference.of([1.0], [True, False], ())
    with pytest.raises(InputError, match="one length"):
        Reference.of([], [], ())
    with pytest.raises(ConfigError, match="two more"):
        Reference(n=1, screened=1, accepted=(), score_edges=(), score_counts=(1,))
    with pytest.raises(ConfigError, match="between 0"):
        Reference(n=1, screened=2, accepted=(), score_edges=(), score_counts=(1, 0))
    with pytest.raises(ConfigError, match="ascending"):
        Reference(n=3, screened=3, accepted=(), score_edges=(2.0, 1.0), score_counts=(1, 1, 1, 0))
