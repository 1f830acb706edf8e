"""Simulated audits: the same alarms as in service, false ones as rare as promised, delays as they must be."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from speceyes.errors import ConfigError, InputError
from speceyes.evals.audit_simulation import NEVER, World, alarm_times, delay, simulate
from speceyes.gating.audit import Alarm, Audited, AuditPlan, Detector, Wealth, begin, log_factors, step

PLAN = AuditPlan(thresholds=(1.0,), alpha=0.05)


class Recorded:
    """A generator of random numbers that notes the gaps which it drew."""

    def __init__(self, seed: int) -> None:
        self.rng, self.gaps = np.random.default_rng(seed), []

    def geometric(self, rate: float, shape: tuple[int, ...]) -> np.ndarray:
        gap = self.rng.geometric(rate, shape)
        self.gaps.append(int(gap[0]))
        return gap


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rate", [0.05, 0.12, 1.0])
def test_each_monitor_alarms_in_service_when_it_does_in_the_simulation(seed, rate):
    rng = Recorded(seed)
    times = alarm_times(PLAN, World(rate, rate), 1, 1500, rng)[:, 0].tolist()  # type: ignore[arg-type]
    # Both rates are drawn each time; with a fault from the start the second one counts
    lost = set(np.cumsum(rng.gaps[1::2]).tolist())
    wealth, detector, state = Wealth.start(), Detector.start(), begin(PLAN)
    found, first = [NEVER, NEVER], None
    for audit in range(1, 1501):
        loss = audit in lost
        factors = log_factors(float(loss), PLAN.alpha)
        wealth, detector = wealth.after(factors), detector.after(factors)
        lines = (wealth.log >= PLAN.log_alarm, detector.log >= PLAN.log_change)
        found = [audit if time == NEVER and line else time for time, line in zip(found, lines, strict=True)]
        if state.threshold is not None:
            state, events = step(state, Audited(loss=loss, level=0))
            first = audit if any(isinstance(event, Alarm) for event in events) else first
        if NEVER not in found:
            break
    assert times == found
    assert first == min((time for time in found if time != NEVER), default=None)


@pytest.mark.parametrize(("alpha", "delta", "thresholds"), [(0.02, 0.05, 1), (0.1, 0.2, 1), (0.05, 0.1, 3)])
def test_false_alarms_at_the_worst_rate_keep_both_promises(alpha, delta, thresholds):
    plan = AuditPlan(thresholds=tuple(float(i) for i in range(thresholds)), alpha=alpha, delta=delta)
    found = simulate(plan, [], healthy=alpha / 2, streams=2000, horizon=round(200 / alpha), seed=3)
    worst, healthy = found.false_alarms
    budget = delta / thresholds
    assert 0 < worst.test[0] <= budget + 3 * math.sqrt(budget * (1 - budget) / 2000)
    assert worst.run_length is not None
    assert worst.run_length >= plan.mean_run
    assert healthy.test[0] <= worst.test[0]
    assert healthy.run_length is None or healthy.run_length > 5 * worst.run_length


def test_delays_shrink_with_the_fault_and_the_detector_does_not_care_when_it_begins():
    worlds = [World(rate, 0.02, begins) for rate in (0.1, 0.2, 0.5) for begins in (0, 3000)]
    found = simulate(PLAN, worlds, healthy=0.02, streams=400, horizon=3000, seed=1)
    early, late = found.detections[0::2], found.detections[1::2]
    for side in (early, late):
        medians = [one.either.median for one in side]
        assert all(median is not None for median in medians)
        assert medians == sorted(medians, reverse=True)
        assert [one.either.found for one in side] == [1.0] * 3
    for first, then in zip(early, late, strict=True):
        # The test pays for the good time before, the detector does not
        assert then.test.median > first.test.median
        assert then.detector.median < 1.5 * first.detector.median
        assert then.either.median <= then.test.median
    # At least as many losses as an alarm needs: 1 / delta is beyond one factor of 30
    assert early[2].either.median >= 2
    assert early[2].either.median < 12
    json.dumps(found.as_json(), allow_nan=False)


def test_the_same_seed_gives_the_same_figures():
    def run(seed: int) -> object:
        return simulate(PLAN, [World(0.2, 0.0)], healthy=0.0, streams=50, horizon=500, seed=seed).as_json()

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_without_losses_there_is_no_alarm():
    times = alarm_times(PLAN, World(0.0, 0.0), 5, 10_000, np.random.default_rng(0))
    assert (times == NEVER).all()


def test_delays_in_three_numbers():
    found = delay(np.array([5, 1, 3, NEVER, 2, 4, 9, 8, 7, 6]))
    assert (found.found, found.median, found.late) == (0.9, 5.0, 9.0)
    assert delay(np.array([1, NEVER, NEVER])).median is None
    assert delay(np.array([], dtype=np.int64)).found == 0.0


def test_what_cannot_be_simulated():
    with pytest.raises(InputError, match="healthy"):
        simulate(PLAN, [], healthy=0.06)
    with pytest.raises(InputError, match="at least one stream"):
        simulate(PLAN, [], healthy=0.01, streams=0)
    with pytest.raises(InputError, match="rates between 0 and 1"):
        World(1.5, 0.0)
    with pytest.raises(ConfigError, match="alpha"):
        AuditPlan(thresholds=(1.0,), alpha=2.0)
