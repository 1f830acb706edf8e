"""What an audit sees, and what it says about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Monitor = Literal["test", "detector"]
Watched = Literal["screening", "acceptance", "score"]
Direction = Literal["up", "down"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """An accepted query went to the agent as well. To be given in the order in which the queries were accepted.

    Attributes:
        loss: Whether the draft lost (disagreement, or excess where the right answer is known); None where the audit
            has no result, because the agent failed.
        level: The audit's level when the query was accepted.
        share: The probability with which this query was chosen; None for the plan's share. It may depend on the
            query's kind and on all that came before, never on the draft being right.
        at: A time stamp, copied into alarms.
    """

    loss: bool | None
    level: int
    share: float | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A query was served. The drift monitors read it.

    Attributes:
        accepted: Whether its draft became the answer; None where the gate's threshold did not decide (a forced
            route, observation only).
        level: The audit's level when that was decided.
        screened: Whether phase I let it through; None where phase I did not run, or ran for chosen queries only.
        drafted: Whether a draft is there to be scored, of a query that phase I let through.
        score: That draft's score; None where it has none.
        at: A time stamp, copied into warnings.
    """

    accepted: bool | None
    level: int
    screened: bool | None = None
    drafted: bool = False
    score: float | None = None
    at: str | None = None


Observation = Audited | Served


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """The claim about the loss rate no longer stands.

    Attributes:
        monitor: `test`: false with probability delta at most, ever. `detector`: false once in the plan's run length.
        level: The level at which it was raised.
        threshold: The threshold that was in service.
        audited: Audits with a result at that level.
        losses: Of these, lost.
        missing: Audits without a result at that level.
        at: The time stamp of the audit that raised it.
    """

    monitor: Monitor
    level: int
    threshold: float
    audited: int
    losses: int
    missing: int
    at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tightened:
    """The gate has to use another threshold from now on; None: it accepts nothing."""

    level: int
    threshold: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditsMissing:
    """More audits than tolerated have no result: the audit is going blind. Said once a level."""

    missing: int
    audited: int
    at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted:
    """The traffic is no longer what the calibration saw. A warning, said once; it changes no threshold.

    Attributes:
        watched: What has changed.
        direction: Whether its share rose or fell.
        expected: The range of shares that the reference allows.
        interval: For scores: which interval of the reference.
        at: The time stamp of the query that showed it.
    """

    watched: Watched
    direction: Direction
    expected: tuple[float, float]
    interval: int | None
    at: str | None


AuditEvent = Alarm | Tightened | AuditsMissing | Drifted
