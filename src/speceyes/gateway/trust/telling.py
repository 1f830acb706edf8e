"""What there is to tell of a standing audit: words for the log, numbers for the metrics."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from speceyes.gateway.observe import Gauges
from speceyes.gating.audit import (
    Alarm,
    AuditEvent,
    AuditPlan,
    AuditsMissing,
    AuditSnapshot,
    AuditState,
    Drifted,
    Tightened,
)

if TYPE_CHECKING:
    from speceyes.gateway.trust.trust import Trust

LOGGER = "speceyes.audit"
_log = logging.getLogger(LOGGER)

_WATCHED = {
    "screening": "the share of requests that screening lets through",
    "acceptance": "the share of requests whose draft is accepted",
    "score": "the share of drafts in one interval of the score",
}


def log_event(event: AuditEvent, plan: AuditPlan) -> None:
    """One line: an error for what changes the gate, else a warning."""
    level = logging.ERROR if isinstance(event, Alarm | Tightened) else logging.WARNING
    _log.log(level, "%s", sentence(event, plan))


def sentence(event: AuditEvent, plan: AuditPlan) -> str:
    """An event in words for the person who runs the gateway."""
    match event:
        case Alarm():
            return (
                f"audit alarm ({event.monitor}): {event.losses} of {event.audited} audited answers differ from the "
                f"agent's at the threshold {event.threshold:g}, where at most {plan.alpha:.2%} were promised"
            )
        case Tightened(level=level, threshold=None):
            return (
                f"the gate accepts nothing any more (level {level} of {len(plan.thresholds)}): no certified threshold "
                "is left. The agent answers everything until there is a new calibration"
            )
        case Tightened(level=level, threshold=threshold):
            return f"the gate is tightened to the threshold {threshold:g} (level {level} of {len(plan.thresholds)})"
        case AuditsMissing(missing=missing, audited=audited):
            return f"the audit is going blind: {missing} of {missing + audited} audits have no result"
        case Drifted():
            low, high = event.expected
            way = "risen" if event.direction == "up" else "fallen"
            return (
                f"the traffic has drifted: {_WATCHED[event.watched]} has {way} out of the {low:.1%} to {high:.1%} that "
                "the calibration saw. Its promise was made for other traffic: calibrate again"
            )


def log_resumed(state: AuditState) -> None:
    """Say where the gate stands, if it does not stand where the calibration has put it."""
    if state.level:
        event = Tightened(level=state.level, threshold=state.threshold)
        _log.warning("from an earlier run: %s", sentence(event, state.plan))


def watch_trust(gauges: Gauges, trust: Trust) -> None:
    """Metrics of what runs beside the requests and of the audit, read when somebody scrapes."""
    onlooker, auditor, standing = trust.onlooker, trust.auditor, trust.standing
    gauges.watch("speceyes_trust_mode", "1 for the mode of trust.", lambda: {trust.mode: 1.0}, label="mode")
    if onlooker is not None:
        lost = "Requests that were not observed."
        gauges.watch("speceyes_unobserved", lost, lambda: onlooker.lost, label="cause", counts=True)
    if auditor is not None:
        gauges.watch("speceyes_audits_under_way", "Audits that are not over.", lambda: {"": auditor.under_way})
        skipped = "Accepted requests that were drawn for an audit and not audited."
        gauges.watch("speceyes_audits_skipped", skipped, lambda: auditor.skipped, label="cause", counts=True)
    if standing is not None:
        gauges.show("audit", lambda: _numbers(standing.snapshot))
        gauges.watch(
            "speceyes_audit_drifted",
            "1 where the traffic has drifted.",
            lambda: _drifted(standing.snapshot),
            label="watched",
        )
        gauges.watch(
            "speceyes_audit_unsaved",
            "1 where the audit's state cannot be written.",
            lambda: {"": float(standing.unsaved is not None)},
        )


def _numbers(found: AuditSnapshot) -> Mapping[str, object]:
    return {field.name: getattr(found, field.name) for field in dataclasses.fields(found) if field.name != "drift"}


def _drifted(found: AuditSnapshot) -> Mapping[str, float]:
    return {monitor.watched: float(monitor.found is not None) for monitor in found.drift}
