"""What is done with a query, by mode and rollout."""

from __future__ import annotations

from typing import Any, Literal

from speceyes.events import Decided, Event, Listener
from speceyes.funnel import By, Funnel
from speceyes.gateway.observe import Observation
from speceyes.gateway.trust.auditor import Auditor
from speceyes.gateway.trust.onlooker import Onlooker
from speceyes.gateway.trust.rollout import Rollout
from speceyes.gateway.trust.standing import Standing
from speceyes.types import Answer, Query, Reason, Route

Mode = Literal["observe", "enforce", "audit"]


class Trust:
    """Runs queries down the funnel as far as drafts are trusted.

    Args:
        mode: How far.
        rollout: On which requests we speculate at all.
        funnel: Answers.
        standing: The audit; None where nothing is promised and nothing watched.

    Attributes:
        onlooker: There in the mode `observe`.
        auditor: There in the mode `audit`.
    """

    def __init__(self, mode: Mode, rollout: Rollout, funnel: Funnel, *, standing: Standing | None = None) -> None:
        self.mode: Mode = mode
        self.standing = standing
        self.onlooker: Onlooker | None = None
        self.auditor: Auditor | None = None
        self._rollout, self._funnel = rollout, funnel

    def who_answers(self, seen: Observation, route: Route | None) -> By:
        """Who answers a request, whatever the gate would say; None: the gate decides.

        Args:
            seen: The request.
            route: What the model's name forces.
        """
        if route is not None:
            return route
        if not self._rollout.includes(seen.id, key=seen.key, user=seen.user):
            return Reason.NOT_ROLLED_OUT
        return Reason.OBSERVED if self.mode == "observe" else None

    async def answer(
        self, query: Query, seen: Observation, route: Route | None, *, listen: Listener, deadline_s: float
    ) -> Answer:
        """Answer a query. As `Funnel.answer`, with the same errors.

        Args:
            query: The query.
            seen: What is noted of its request.
            route: What the model's name forces; None where the funnel decides.
            listen: Hears of what leads to the answer.
            deadline_s: Seconds that it may take.
        """
        by = self.who_answers(seen, route)
        if by is Reason.OBSERVED and self.onlooker is not None:
            return await self._observed(query, seen, self.onlooker, listen, deadline_s)

        def hear(event: Event) -> None:
            listen(event)
            seen.listener(event)
            if by is None and isinstance(event, Decided) and self.standing is not None:
                self.standing.served(event.verdict, gated=True)

        answer = await self._funnel.answer(query, listen=hear, deadline_s=deadline_s, by=by)
        if self.auditor is not None and by is None:
            self.auditor.consider(
                query, answer, seen
            )  # not after a pause: tickets are drawn in the order of acceptance
        return answer

    async def _observed(
        self, query: Query, seen: Observation, onlooker: Onlooker, listen: Listener, deadline_s: float
    ) -> Answer:
        def hear(event: Event) -> None:
            listen(event)
            if not isinstance(event, Decided):  # nothing was decided; what would have been, the onlooker tells
                seen.listener(event)

        seen.beside = onlooker.begin(query, seen)
        if seen.beside is not None:
            seen.trust = "observe"
        try:
            return await self._funnel.answer(query, listen=hear, deadline_s=deadline_s, by=Reason.OBSERVED)
        except BaseException:
            if seen.beside is not None:
                seen.beside.cancel()
            raise

    def report(self) -> dict[str, Any]:
        """Where it all stands, for `GET /v1/audit`."""
        standing, auditor = self.standing, self.auditor
        return {
            "mode": self.mode,
            "calibration": standing.state.plan.calibration if standing else None,
            "audit": standing.snapshot.as_json() if standing else None,
            "audits_under_way": auditor.under_way if auditor else 0,
            "audits_skipped": dict(auditor.skipped) if auditor else {},
            "unobserved": dict(self.onlooker.lost) if self.onlooker else {},
            "unsaved": standing.unsaved if standing else None,
        }

    async def close(self, wait_s: float) -> None:
        """Wait so long for what runs beside the requests, and give up the rest."""
        if self.onlooker is not None:
            await self.onlooker.close(wait_s)
        if self.auditor is not None:
            await self.auditor.close(wait_s)
