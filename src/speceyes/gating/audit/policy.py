"""What an audit does with what it sees: observe, bet, and tighten the gate when the claim falls.

A pure state machine. It calls nobody, knows no clock, and never loosens: only a new calibration does (`begin`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from speceyes.errors import InputError
from speceyes.gating.audit.betting import log_factors
from speceyes.gating.audit.drift import DriftMonitor
from speceyes.gating.audit.observations import (
    Alarm,
    Audited,
    AuditEvent,
    AuditsMissing,
    Monitor,
    Observation,
    Served,
    Tightened,
)
from speceyes.gating.audit.state import DRIFT_MONITORS, AuditState, LevelState, acceptance_monitor


def step(state: AuditState, observation: Observation) -> tuple[AuditState, list[AuditEvent]]:
    """The state after an observation, and what there is to tell. The order of audits counts: see `Audited`.

    Raises:
        InputError: The observation names a level that has not been reached, or at which nothing is accepted.
        ConfigError: Its share is less than the plan's.
    """
    if not 0 <= observation.level <= state.level:
        raise InputError(f"An observation at level {observation.level}, but the audit stands at {state.level}.")
    if isinstance(observation, Served):
        return _watched(state, observation)
    if observation.level >= len(state.plan.thresholds):
        raise InputError(f"An audited query at level {observation.level}, where the gate accepts nothing.")
    if observation.level < state.level:
        return replace(state, stale=state.stale + 1), []
    return _audited(state, observation)


def _audited(state: AuditState, seen: Audited) -> tuple[AuditState, list[AuditEvent]]:
    current, events = _missing(state, seen)
    loss = True if seen.loss is None and state.plan.on_missing == "loss" else seen.loss
    if loss is not None:
        current = _bet(state, current, loss=loss, weight=state.plan.weight(seen.share))
    state = replace(state, current=current)
    if not loss:  # without a loss there is no evidence, only fresh capital
        return state, events
    if current.test.log >= state.plan.log_alarm:
        return _tightened(state, "test", seen.at, events)
    if current.detector.log >= state.plan.log_change and not current.change_suspected:
        if state.plan.on_change == "tighten":
            return _tightened(state, "detector", seen.at, events)
        events = [*events, _alarm(state, "detector", seen.at)]
        state = replace(state, current=replace(current, change_suspected=True))
    return state, events


def _missing(state: AuditState, seen: Audited) -> tuple[LevelState, list[AuditEvent]]:
    """Count an audit, and whether it has a result."""
    current, plan = state.current, state.plan
    missing = current.missing + (seen.loss is None)
    if seen.loss is not None:
        weight = plan.weight(seen.share)
        current = replace(
            current,
            audited=current.audited + 1,
            losses=current.losses + seen.loss,
            weight=current.weight + weight,
            weighted_losses=current.weighted_losses + weight * seen.loss,
        )
    blindness = current.blindness.after(log_factors(float(seen.loss is None), plan.missing_tolerance))
    blind = current.blind or blindness.log >= -math.log(plan.delta)
    events: list[AuditEvent] = []
    if blind and not current.blind:
        events.append(AuditsMissing(missing=missing, audited=current.audited, at=seen.at))
    return replace(current, missing=missing, blindness=blindness, blind=blind), events


def _bet(state: AuditState, current: LevelState, *, loss: bool, weight: float) -> LevelState:
    factors = log_factors(float(loss), state.plan.alpha, weight)
    return replace(current, test=current.test.after(factors), detector=current.detector.after(factors))


def _alarm(state: AuditState, monitor: Monitor, at: str | None) -> Alarm:
    seen = state.current
    return Alarm(
        monitor=monitor,
        level=state.level,
        threshold=state.plan.thresholds[state.level],
        audited=seen.audited,
        losses=seen.losses,
        missing=seen.missing,
        at=at,
    )


def _tightened(
    state: AuditState, monitor: Monitor, at: str | None, events: Sequence[AuditEvent]
) -> tuple[AuditState, list[AuditEvent]]:
    alarm, level = _alarm(state, monitor, at), state.level + 1
    after = replace(
        state,
        level=level,
        current=LevelState.start(),
        alarms=(*state.alarms, alarm),
        acceptance=acceptance_monitor(state.plan, level),
    )
    return after, [*events, alarm, Tightened(level=level, threshold=after.threshold)]


def _watched(state: AuditState, seen: Served) -> tuple[AuditState, list[AuditEvent]]:
    log_alarm = math.log(DRIFT_MONITORS / state.plan.drift_delta)

    def after(monitor: DriftMonitor | None, belongs: Sequence[bool]) -> DriftMonitor | None:
        return None if monitor is None else monitor.after(belongs, log_alarm=log_alarm, at=seen.at)

    screening, acceptance, scores = state.screening, state.acceptance, state.scores
    if seen.screened is not None:
        screening = after(screening, [seen.screened])
    if seen.accepted is not None and seen.level == state.level:
        acceptance = after(acceptance, [seen.accepted])
    if seen.drafted and state.plan.reference is not None:
        interval = state.plan.reference.interval(seen.score)
        scores = after(scores, [index == interval for index in range(len(state.plan.reference.score_counts))])
    pairs = ((state.screening, screening), (state.acceptance, acceptance), (state.scores, scores))
    events: list[AuditEvent] = [now.found for before, now in pairs if before and now and now.found and not before.found]
    return replace(state, screening=screening, acceptance=acceptance, scores=scores), events
