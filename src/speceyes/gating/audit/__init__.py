"""The standing audit: a share of the accepted queries also goes to the agent, and an alarm tightens the gate.

    plan = plan_for(calibration)             # its promise, thresholds and reference; or an AuditPlan by hand
    state = begin(plan)                      # once for each calibration
    state, events = step(state, Audited(loss=False, level=state.level))
    state.threshold                          # what the gate has to use from now on
    snapshot(state), dump(state), resume(load(text), plan)

Which guarantee each monitor carries:

| Monitor | Claim that it watches | It is wrong |
|---|---|---|
| test | loss rate <= alpha, at each audit, given the past | ever, over all levels: with probability delta at most |
| detector | the same | on average at most once in `mean_run` audits at a level |
| blindness | at most a tolerated share of audits has no result | at each level with probability delta at most |
| drift | shares of screened, accepted and scored queries are those of the reference | ever, but for the reference's \
own error: with probability `drift_delta` at most |

Plain functions on frozen data: no clock, no file, no server. NumPy and pydantic only.
"""

from speceyes.gating.audit.betting import ODDS_RATIOS, Detector, Wealth, held_back, log_factors, stakes
from speceyes.gating.audit.drift import DriftMonitor
from speceyes.gating.audit.interval import confidence_sequence
from speceyes.gating.audit.observations import (
    Alarm,
    Audited,
    AuditEvent,
    AuditsMissing,
    Drifted,
    Observation,
    Served,
    Tightened,
)
from speceyes.gating.audit.plan import AuditPlan
from speceyes.gating.audit.policy import step
from speceyes.gating.audit.promise import plan_for
from speceyes.gating.audit.reference import Reference
from speceyes.gating.audit.sampling import InOrder, is_chosen
from speceyes.gating.audit.saved import dump, load
from speceyes.gating.audit.snapshot import AuditSnapshot, DriftSnapshot, snapshot
from speceyes.gating.audit.state import AuditState, LevelState, begin, resume

__all__ = [
    "ODDS_RATIOS",
    "Alarm",
    "AuditEvent",
    "AuditPlan",
    "AuditSnapshot",
    "AuditState",
    "Audited",
    "AuditsMissing",
    "Detector",
    "DriftMonitor",
    "DriftSnapshot",
    "Drifted",
    "InOrder",
    "LevelState",
    "Observation",
    "Reference",
    "Served",
    "Tightened",
    "Wealth",
    "begin",
    "confidence_sequence",
    "dump",
    "held_back",
    "is_chosen",
    "load",
    "log_factors",
    "plan_for",
    "resume",
    "snapshot",
    "stakes",
    "step",
]
