"""What an audit is to watch, with which guarantees, and which thresholds it may fall back to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from speceyes.errors import ConfigError
from speceyes.gating.audit.reference import Reference

Risk = Literal["excess", "disagreement", "error"]
OnChange = Literal["tighten", "warn"]
OnMissing = Literal["skip", "loss"]

_USUAL_RUN, _LEAST_RUN = 200.0, 10.0
"""Run lengths in tolerated losses. With a shorter one the detector would alarm without having seen a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """The audit's settings. Frozen: what is promised must be fixed before the first audit.

    Attributes:
        thresholds: The certified thresholds, strictly ascending. The first one is in service; each alarm moves on to
            the next, and after the last one the gate accepts nothing. Empty: it accepts nothing from the beginning.
        alpha: The claim to be watched: at most this share of the accepted queries is lost.
        delta: The greatest probability that the test ever raises a false alarm, over all levels together. Each of
            the T thresholds gets delta / T, so the sum holds whatever happened before (union bound).
        risk: What counts as a loss: `disagreement` of draft and agent; with labels also `excess` (draft wrong, agent
            right) or `error` (draft wrong).
        share: The least probability with which an accepted query is audited.
        run_length: The detector's promise: this many audits on average between false alarms, at least. None: 200 /
            alpha, so that 200 losses would be tolerated in the meantime.
        on_change: What the detector's alarm does: `tighten` as the test's, or only `warn`.
        on_missing: An audit without a result (the agent failed) never counts as a success. `skip`: it counts for
            nothing; `loss`: it counts as lost, which protects against faults that fell the agent too.
        missing_tolerance: The greatest share of audits without a result that raises no warning.
        reference: What the calibration saw, for the drift monitors. None: there are none.
        drift_delta: The greatest probability that the drift monitors ever warn without cause, all together.
        drift_tolerance: Differences of a share up to this one, beyond the reference's own uncertainty, are no drift.
        calibration: Digest of the calibration that this audits.
    """

    thresholds: tuple[float, ...]
    alpha: float
    delta: float = 0.05
    risk: Risk = "disagreement"
    share: float = 0.05
    run_length: int | None = None
    on_change: OnChange = "tighten"
    on_missing: OnMissing = "skip"
    missing_tolerance: float = 0.1
    reference: Reference | None = None
    drift_delta: float = 0.01
    drift_tolerance: float = 0.02
    calibration: str | None = None

    def __post_init__(self) -> None:
        for name in ("alpha", "delta", "missing_tolerance", "drift_delta"):
            _require(0.0 < getattr(self, name) < 1.0, f"{name} = {getattr(self, name)} is not between 0 and 1")
        _require(0.0 < self.share <= 1.0, f"share = {self.share} is not in 0..1, 0 excluded")
        _require(0.0 <= self.drift_tolerance < 1.0, f"drift_tolerance = {self.drift_tolerance} is not in 0..1")
        least = math.ceil(_LEAST_RUN / self.alpha)
        _require(self.mean_run >= least, f"run_length = {self.run_length} is too short, alpha needs at least {least}")
        for name, known in (
            ("risk", ("excess", "disagreement", "error")),
            ("on_change", ("tighten", "warn")),
            ("on_missing", ("skip", "loss")),
        ):
            value = getattr(self, name)
            _require(value in known, f"{name} = {value!r} is none of {', '.join(known)}")
        ascending = all(low < high for low, high in zip(self.thresholds, self.thresholds[1:], strict=False))
        finite = all(math.isfinite(threshold) for threshold in self.thresholds)
        _require(ascending and finite, f"thresholds must be finite and strictly ascending: {self.thresholds}")
        if self.reference is not None:
            found, levels = len(self.reference.accepted), len(self.thresholds)
            _require(found == levels, f"the reference counts accepted queries for {found} thresholds, not for {levels}")

    @property
    def log_alarm(self) -> float:
        """The test's alarm line: ln(T / delta)."""
        return math.log(max(1, len(self.thresholds)) / self.delta)

    @property
    def mean_run(self) -> int:
        """Audits between the detector's false alarms, on average at least."""
        return math.ceil(_USUAL_RUN / self.alpha) if self.run_length is None else self.run_length

    @property
    def log_change(self) -> float:
        """The detector's alarm line: ln(L + 1), as its capital holds the 1 for the next audit already."""
        return math.log(self.mean_run + 1)

    def threshold(self, level: int) -> float | None:
        """The threshold in service at a level; None: the gate accepts nothing."""
        return self.thresholds[level] if level < len(self.thresholds) else None

    def weight(self, share: float | None) -> float:
        """Weight of an audit whose query was chosen with probability `share`; None stands for the plan's own.

        A query that was twice as likely to be audited counts half, so the audited queries stand for all accepted ones
        although their kinds were audited unevenly.

        Raises:
            ConfigError: The share is less than the plan's, or more than 1.
        """
        if share is None:
            return 1.0
        _require(self.share <= share <= 1.0, f"a query was audited with share {share}, the least is {self.share}")
        return self.share / share


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ConfigError(f"This audit cannot work: {problem}.")
