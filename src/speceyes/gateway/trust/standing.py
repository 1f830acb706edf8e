"""The standing audit: what it has seen, where the gate has to stand, and what there is to tell."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from speceyes.gateway.trust.keeping import StateFile
from speceyes.gateway.trust.saving import Saver
from speceyes.gateway.trust.telling import log_event
from speceyes.gating.audit import (
    Audited,
    AuditSnapshot,
    AuditState,
    InOrder,
    Observation,
    Served,
    Tightened,
    snapshot,
    step,
)
from speceyes.types import Reason, Verdict

_log = logging.getLogger(__name__)

REFUSED_BY_SCREENING = frozenset({Reason.TOOL_WOULD_HELP, Reason.SCREEN_UNREADABLE})
_SCORED = frozenset(
    {
        *(Reason.ACCEPTED, Reason.BELOW_THRESHOLD, Reason.EMPTY_ANSWER, Reason.TRUNCATED_ANSWER),
        *(Reason.REPETITIVE_ANSWER, Reason.LOGPROBS_MISSING, Reason.LOGPROBS_TOO_FEW, Reason.LOGPROBS_MISALIGNED),
        Reason.SCORE_UNDEFINED,
    }
)
"""The gate has seen a draft. Not among them is what only says that a server failed: that is no drift of the traffic."""


class Standing:
    """An audit under way. All of it happens on the event loop, and nothing in it raises.

    Args:
        state: Where it stands.
        tighten: Puts the gate at a level, at once.
        file: Keeps the state. None: it is not kept.
    """

    def __init__(self, state: AuditState, *, tighten: Callable[[int], None], file: StateFile | None = None) -> None:
        self.state = state
        self._tighten = tighten
        self._saver = None if file is None else Saver(file, lambda: self.state)
        self._order: InOrder[Audited] = InOrder()
        self._snapshot: tuple[AuditState, AuditSnapshot] | None = None

    def level_of(self, verdict: Verdict) -> int | None:
        """The level whose threshold a verdict was given by; None where it was another one's.

        A draft that was on its way when the gate was tightened may have been held against either threshold.
        """
        if verdict.threshold is None:
            return self.state.level
        thresholds = self.state.plan.thresholds
        return thresholds.index(verdict.threshold) if verdict.threshold in thresholds else None

    def served(self, verdict: Verdict, *, gated: bool) -> None:
        """A query was served.

        Args:
            verdict: What phases I to III said.
            gated: Whether that decided who answered; otherwise it was only noted.
        """
        if (level := self.level_of(verdict)) is None or not (seen := _seen(verdict, level, gated=gated)):
            return
        self._step(seen)

    def open(self) -> int:
        """A query was accepted that will be audited. Returns a ticket, which must be closed whatever happens."""
        return self._order.open()

    def close(self, ticket: int, *, level: int, agrees: bool | None) -> None:
        """An audit is over.

        Args:
            ticket: From `open`.
            level: At which its draft was accepted.
            agrees: Whether the agent gave the same answer; None where it gave none.
        """
        result = Audited(loss=None if agrees is None else not agrees, level=level, at=_now())
        for audited in self._order.close(ticket, result):
            self._step(audited)

    @property
    def snapshot(self) -> AuditSnapshot:
        """In numbers."""
        if self._snapshot is None or self._snapshot[0] is not self.state:
            self._snapshot = self.state, snapshot(self.state)
        return self._snapshot[1]

    @property
    def unsaved(self) -> str | None:
        """Why the state's file is behind; None where it is not, or there is none."""
        return None if self._saver is None else self._saver.problem

    async def aclose(self) -> None:
        """Write the state."""
        if self._saver is not None:
            await self._saver.close()

    def _step(self, seen: Observation) -> None:
        try:
            self.state, events = step(self.state, seen)
            tightened = any(isinstance(event, Tightened) for event in events)
            if tightened:
                self._tighten(self.state.level)
            for event in events:
                log_event(event, self.state.plan)
            if self._saver is not None and (events or isinstance(seen, Audited)):
                self._saver.now() if tightened else self._saver.soon()
        except Exception:  # whatever is wrong with an audit, a request is not to suffer for it
            _log.exception("the audit could not take in %s", seen)


def _seen(verdict: Verdict, level: int, *, gated: bool) -> Served | None:
    """What the drift monitors are told; None where the verdict says nothing about the traffic."""
    first, accepted = verdict.glance or verdict, verdict.accepted if gated else None
    if first.reason in REFUSED_BY_SCREENING:
        return Served(accepted=accepted, level=level, screened=False, at=_now())
    if first.reason not in _SCORED:
        return None
    return Served(accepted=accepted, level=level, screened=True, drafted=True, score=first.score, at=_now())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
