"""Phases I to III over all questions, before the systems run: what the gate accepts, and how screening and drafting
gain from being many at a time.

Both phases run for every question, whatever the first says, and nobody falls back: this is the stateless front alone.
"""

from __future__ import annotations

from speceyes.evals.baselines import Models
from speceyes.evals.systems import Question, Reply
from speceyes.events import ignore
from speceyes.imaging.looks import look
from speceyes.logbook import Logbook
from speceyes.phases import gate, screen, speculate
from speceyes.types import Answer, Query

STATELESS = "stateless"
"""As whom its laps stand beside those of the systems."""


class Stateless:
    """Screen, speculate, gate."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def answer(self, query: Query, question: Question) -> Reply:
        """The draft, with screening and verdict in its trace.

        Raises:
            EngineError: One of the servers failed.
        """
        log = Logbook(query, self._models.draft, self._models.agent, ignore)
        log.agent_views = await look(query.images, self._models.agent.dialect.limits)
        with log.phase("screen"):
            log.screening = await screen(query, log.agent_views, log.agent_model)
        with log.phase("speculate"):
            log.draft_views = await look(query.images, self._models.draft.limits, like=log.agent_views)
            log.draft = await speculate(query, log.draft_views, log.draft_model)
        verdict = gate(log.draft, self._models.calibration)
        return Reply.of(Answer(log.draft.text, log.trace(verdict), query.id))
