"""All that an audit knows, as frozen data: saved as it is, it goes on after a restart as if there had been none."""

from __future__ import annotations

from dataclasses import dataclass, replace

from speceyes.errors import ConfigError
from speceyes.gating.audit.betting import ODDS_RATIOS, Detector, Wealth
from speceyes.gating.audit.drift import DriftMonitor
from speceyes.gating.audit.observations import Alarm
from speceyes.gating.audit.plan import AuditPlan

DRIFT_MONITORS = 3
"""Screening, acceptance, scores: each has a third of the plan's `drift_delta`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelState:
    """What was seen since the last tightening.

    Attributes:
        audited: Audits with a result.
        losses: Of these, lost.
        missing: Audits without a result.
        weight: Sum of the weights of the audits with a result.
        weighted_losses: The same over the lost ones.
        test: The test of the claim.
        detector: The change detector.
        change_suspected: The detector has raised its alarm, and is only to warn.
        blindness: A test of the claim that at most the tolerated share of audits has no result.
        blind: It does not stand.
    """

    audited: int = 0
    losses: int = 0
    missing: int = 0
    weight: float = 0.0
    weighted_losses: float = 0.0
    test: Wealth
    detector: Detector
    change_suspected: bool = False
    blindness: Wealth
    blind: bool = False

    @classmethod
    def start(cls) -> LevelState:
        """Before the first audit."""
        return cls(test=Wealth.start(), detector=Detector.start(), blindness=Wealth.start())


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditState:
    """An audit under way.

    Attributes:
        plan: What was promised in the beginning.
        level: How often the gate was tightened; index of the threshold in service.
        current: What was seen at this level.
        alarms: Those that tightened the gate, oldest first.
        stale: Audits of queries that were accepted at an earlier level. They say nothing about this one.
        screening: Drift monitor, None where the plan has no reference; so `acceptance` and `scores`.
        acceptance: Starts anew with each level, as each threshold accepts another share.
        scores: Over the intervals of the reference.
    """

    plan: AuditPlan
    level: int
    current: LevelState
    alarms: tuple[Alarm, ...] = ()
    stale: int = 0
    screening: DriftMonitor | None = None
    acceptance: DriftMonitor | None = None
    scores: DriftMonitor | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.level <= len(self.plan.thresholds) or len(self.alarms) != self.level:
            raise ConfigError(
                f"This audit's state cannot be: level {self.level} of {len(self.plan.thresholds)}, "
                f"after {len(self.alarms)} alarms."
            )
        capitals = (self.current.test, self.current.detector, self.current.blindness)
        if any(len(capital.log_stakes) != len(ODDS_RATIOS) for capital in capitals):
            raise ConfigError(f"This audit's state cannot be: it needs {len(ODDS_RATIOS)} bets for each monitor.")

    @property
    def threshold(self) -> float | None:
        """What the gate has to use; None: it accepts nothing."""
        return self.plan.threshold(self.level)


def begin(plan: AuditPlan) -> AuditState:
    """A new audit. The only way to a looser threshold, so it takes a new calibration's plan."""
    state = AuditState(plan=plan, level=0, current=LevelState.start(), acceptance=acceptance_monitor(plan, 0))
    reference = plan.reference
    if reference is None:
        return state
    drafted = sum(reference.score_counts)
    how = {"confidence": 1.0 - plan.drift_delta, "tolerance": plan.drift_tolerance}
    return replace(
        state,
        screening=DriftMonitor.start("screening", [reference.screened], reference.n, **how),
        scores=DriftMonitor.start("score", reference.score_counts, drafted, **how),
    )


def acceptance_monitor(plan: AuditPlan, level: int) -> DriftMonitor | None:
    """The monitor of the share that is accepted at a level; None where nothing is, or nothing is known."""
    if plan.reference is None or level >= len(plan.thresholds):
        return None
    count, n = plan.reference.accepted[level], plan.reference.n
    how = {"confidence": 1.0 - plan.drift_delta, "tolerance": plan.drift_tolerance}
    return DriftMonitor.start("acceptance", [count], n, **how)


def resume(saved: AuditState, plan: AuditPlan) -> AuditState:
    """Go on with a saved audit under the plan of today.

    The same plan, or one that differs in its share only: the saved audit goes on, at its level. Another calibration:
    a new audit begins.

    Raises:
        ConfigError: The plan promises something else about the same calibration. A promise that changes with what
            was seen is none, and would loosen a gate that was tightened.
    """
    if plan.calibration != saved.plan.calibration:
        return begin(plan)
    if replace(plan, share=saved.plan.share) == saved.plan:
        return replace(saved, plan=plan)
    raise ConfigError(
        "The audit's settings have changed, but the calibration has not: its guarantee was stated for other settings, "
        f"and the gate may stand at a stricter level (now {saved.level}). Restore the settings, or calibrate again."
    )
