"""The funnel's phases in its order, with one of them exchanged: what the baselines with a gate have in common.

What fails on the way is a reason to ask the agent, as in the funnel. Costs are counted alike: every baseline pays for
the screening and the drafting that it does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from speceyes.errors import EngineError
from speceyes.evals.baselines.models import Models
from speceyes.evals.systems import Question, Reply, Role, SystemName
from speceyes.events import ignore
from speceyes.imaging.looks import look
from speceyes.logbook import Logbook
from speceyes.phases import fall_back, gate, gate_screening, speculate
from speceyes.types import Draft, Query, Reason, Screening, Verdict

Screen = Callable[[Query, Logbook], Awaitable[Screening]]
"""Phase I, or what stands in its place. Its views and models are the logbook's."""

Judge = Callable[[Draft, Question], Verdict]
"""Phase III, or what stands in its place."""


class Cascade:
    """Screen, speculate, judge, fall back.

    Args:
        name: As which system it stands in the results.
        models: The pair.
        screen: Phase I. None: every query goes on.
        judge: Phase III.
        screened_by: Whose tokens phase I takes.
    """

    def __init__(
        self,
        name: SystemName,
        models: Models,
        *,
        screen: Screen | None,
        judge: Judge,
        screened_by: Role = Role.AGENT,
    ) -> None:
        self.name = name
        self._models, self._screen, self._judge, self._screened_by = models, screen, judge, screened_by

    async def answer(self, query: Query, question: Question) -> Reply:
        """Answer a query."""
        log = Logbook(query, self._models.draft, self._models.agent, ignore)
        verdict = await self._decide(query, question, log)
        if not verdict.accepted:
            log.agent_views = await look(query.images, self._models.agent.dialect.limits, like=log.agent_views)
            with log.phase("fall_back"):
                log.run = await fall_back(query, log.agent_views, log.agent_model, watch=log.turn)
        return Reply.of(log.answer(verdict), screened_by=self._screened_by)

    async def _decide(self, query: Query, question: Question, log: Logbook) -> Verdict:
        if self._screen is not None:
            try:
                with log.phase("screen"):
                    log.screening = await self._screen(query, log)
            except EngineError as error:
                return log.survived(error, Reason.SCREEN_FAILED)
            if (refused := gate_screening(log.screening, self._models.calibration)) is not None:
                return refused
        try:
            with log.phase("speculate"):
                like = log.draft_views or log.agent_views
                log.draft_views = await look(query.images, self._models.draft.limits, like=like)
                log.draft = await speculate(query, log.draft_views, log.draft_model)
        except EngineError as error:
            return log.survived(error, Reason.DRAFT_FAILED)
        with log.phase("gate"):
            return self._judge(log.draft, question)

    @staticmethod
    def decided(verdict: Verdict, accepted: bool) -> Verdict:
        """The gate's verdict with its score, and another decision in its place."""
        return replace(verdict, reason=Reason.ACCEPTED if accepted else Reason.BELOW_THRESHOLD)


def by_gate(models: Models) -> Judge:
    """Phase III as it is."""
    return lambda draft, question: gate(draft, models.calibration)
