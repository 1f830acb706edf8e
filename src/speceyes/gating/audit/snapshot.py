"""An audit's state in numbers that people and dashboards read."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from speceyes.gating.audit.betting import log_factors
from speceyes.gating.audit.drift import DriftMonitor
from speceyes.gating.audit.interval import confidence_sequence
from speceyes.gating.audit.observations import Alarm, Drifted, Watched
from speceyes.gating.audit.plan import Risk
from speceyes.gating.audit.state import DRIFT_MONITORS, AuditState

_MOST_LOSSES = 1000
"""Nobody waits for more losses in a row than this."""


@dataclass(frozen=True, slots=True)
class DriftSnapshot:
    """One drift monitor. `shares` and `ranges` hold one entry for each class that it watches."""

    watched: Watched
    n: int
    shares: tuple[float, ...]
    ranges: tuple[tuple[float, float], ...]
    wealth: float
    alarm_at: float
    found: Drifted | None


@dataclass(frozen=True, slots=True)
class AuditSnapshot:
    """Where an audit stands.

    Attributes:
        level: How often the gate was tightened.
        levels: Thresholds that there are; at `level == levels` the gate accepts nothing.
        threshold: In service now; None: the gate accepts nothing.
        risk: What counts as a loss.
        alpha: The greatest loss rate that was promised.
        delta: The greatest probability that the test ever raises a false alarm.
        audited: Audits with a result at this level.
        losses: Of these, lost.
        missing: Audits without a result at this level.
        stale: Audits of queries that were accepted at an earlier level, in all.
        rate: Loss rate of the accepted queries, estimated from the audits; None before the first one.
        interval: Where it lies with probability `confidence`, at all times at once, whatever the missing audits would
            have shown. None where queries were audited unevenly: then `rate` is weighted, and this would not fit it.
        confidence: Of the interval.
        wealth: The test's wealth: 1 in the beginning.
        alarm_at: The wealth that raises the alarm.
        detector: The detector's capital.
        detector_alarm_at: The capital that raises its alarm.
        losses_to_alarm: How many losses in a row would raise an alarm now; None where nothing is accepted, or where it
            takes more than a thousand.
        change_suspected: The detector has raised its alarm, and was told only to warn.
        blind: More audits than tolerated have no result.
        alarms: Those that tightened the gate, oldest first.
        drift: The drift monitors; none where the plan has no reference.
    """

    level: int
    levels: int
    threshold: float | None
    risk: Risk
    alpha: float
    delta: float
    audited: int
    losses: int
    missing: int
    stale: int
    rate: float | None
    interval: tuple[float, float] | None
    confidence: float
    wealth: float
    alarm_at: float
    detector: float
    detector_alarm_at: float
    losses_to_alarm: int | None
    change_suspected: bool
    blind: bool
    alarms: tuple[Alarm, ...]
    drift: tuple[DriftSnapshot, ...]

    def as_json(self) -> dict[str, Any]:
        """The same as a dictionary for strict JSON."""
        return asdict(self)


def snapshot(state: AuditState, confidence: float = 0.95) -> AuditSnapshot:
    """Read an audit's state. Changes nothing.

    Raises:
        InputError: The confidence is not between 0 and 1.
    """
    plan, seen = state.plan, state.current
    even = math.isclose(seen.weight, seen.audited, abs_tol=1e-9)
    monitors = (state.screening, state.acceptance, state.scores)
    return AuditSnapshot(
        level=state.level,
        levels=len(plan.thresholds),
        threshold=state.threshold,
        risk=plan.risk,
        alpha=plan.alpha,
        delta=plan.delta,
        audited=seen.audited,
        losses=seen.losses,
        missing=seen.missing,
        stale=state.stale,
        rate=seen.weighted_losses / seen.weight if seen.audited else None,
        interval=_interval(seen.losses, seen.missing, seen.audited, confidence) if even else None,
        confidence=confidence,
        wealth=_exp(seen.test.log),
        alarm_at=_exp(plan.log_alarm),
        detector=_exp(seen.detector.log),
        detector_alarm_at=_exp(plan.log_change),
        losses_to_alarm=_losses_to_alarm(state),
        change_suspected=seen.change_suspected,
        blind=seen.blind,
        alarms=state.alarms,
        drift=tuple(_drift(monitor, plan.drift_delta) for monitor in monitors if monitor is not None),
    )


def _interval(losses: int, missing: int, audited: int, confidence: float) -> tuple[float, float]:
    n = audited + missing
    return confidence_sequence(losses, n, confidence)[0], confidence_sequence(losses + missing, n, confidence)[1]


def _losses_to_alarm(state: AuditState) -> int | None:
    if state.threshold is None:
        return None
    plan, test, detector = state.plan, state.current.test, state.current.detector
    factors = log_factors(1.0, plan.alpha)
    for count in range(1, _MOST_LOSSES + 1):
        test, detector = test.after(factors), detector.after(factors)
        changed = detector.log >= plan.log_change and not state.current.change_suspected
        if test.log >= plan.log_alarm or changed:
            return count
    return None


def _drift(monitor: DriftMonitor, delta: float) -> DriftSnapshot:
    shares = tuple(count / monitor.n for count in monitor.counts) if monitor.n else ()
    wealth, alarm_at = _exp(monitor.wealth.log), DRIFT_MONITORS / delta
    return DriftSnapshot(monitor.watched, monitor.n, shares, monitor.ranges, wealth, alarm_at, monitor.found)


def _exp(log: float) -> float:
    # What has grown beyond all floats is still no infinity, which JSON does not know
    return math.exp(min(log, 700.0))
