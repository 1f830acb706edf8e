"""Audit: some of the accepted queries also go to the agent. No client waits for it; the two answers are compared."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass

from speceyes.errors import SpecEyesError
from speceyes.funnel import Funnel
from speceyes.gateway.observe import Observation, Observer
from speceyes.gateway.trust.background import Background
from speceyes.gateway.trust.budget import HourlyBudget
from speceyes.gateway.trust.standing import Standing
from speceyes.gating.agreement import same_answer
from speceyes.gating.audit import is_chosen
from speceyes.types import AgentRun, Answer, Query, Route

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Accepted:
    """An accepted draft that is audited."""

    query: Query
    draft: str
    level: int
    ticket: int
    seen: Observation
    began: float


class Auditor:
    """Draws accepted queries and runs the agent on them, within a budget.

    The draw is made by the query's id and a secret. Whether the budget has room depends on what came before, never on
    the query or its draft, so the audited ones stand for all.

    Args:
        standing: What the results are for.
        beside: A funnel with places and breakers of its own.
        observer: Is told of each audit.
        key: The secret.
        budget: How many in an hour.
        deadline_s: Seconds that one run may take.

    Attributes:
        skipped: Queries that were drawn and not audited, by cause: `busy` (too many under way, or the gateway stops),
            `budget`.
    """

    def __init__(
        self,
        standing: Standing,
        beside: Funnel,
        observer: Observer,
        *,
        key: str,
        budget: HourlyBudget,
        deadline_s: float,
    ) -> None:
        self.skipped = Counter({"busy": 0, "budget": 0})
        self._standing, self._beside, self._observer = standing, beside, observer
        self._key, self._budget, self._deadline_s = key, budget, deadline_s
        self._tasks = Background(beside.loops.capacity)

    @property
    def under_way(self) -> int:
        """Audits that are not over."""
        return self._tasks.under_way

    def consider(self, query: Query, answer: Answer, seen: Observation) -> None:
        """Audit a query that has just been answered, if its draft was accepted and it is drawn. Never waits."""
        trace, share = answer.trace, self._standing.state.plan.share
        draft = trace.answering
        if not trace.reason.by_gate or trace.verdict is None or draft is None:
            return
        level = self._standing.level_of(trace.verdict)
        if level is None or not is_chosen(query.id, share, self._key):
            return
        if self._tasks.full or not self._budget.take():
            self.skipped["busy" if self._tasks.full else "budget"] += 1
            return
        audit = _Accepted(query, draft.text, level, self._standing.open(), seen, time.monotonic())
        task = self._tasks.start(lambda: self._run(audit))
        assert task is not None, "there was room"
        # Not at the end of the task's own code: one that is cancelled before it begins has none
        task.add_done_callback(lambda task: self._over(audit, task))

    async def close(self, wait_s: float) -> None:
        """Wait so long for audits under way; those that are given up have no result."""
        await self._tasks.close(wait_s)

    async def _run(self, audit: _Accepted) -> AgentRun | None:
        try:
            answer = await self._beside.answer(audit.query, by=Route.AGENT, deadline_s=self._deadline_s)
        except SpecEyesError as error:
            _log.warning("the audit of request %s has no result: %s", audit.query.id, error)
            return None
        return answer.trace.run

    def _over(self, audit: _Accepted, task: asyncio.Task[AgentRun | None]) -> None:
        run = None if task.cancelled() or task.exception() else task.result()
        agrees = None if run is None else same_answer(audit.draft, run.text, audit.query.question)
        self._standing.close(audit.ticket, level=audit.level, agrees=agrees)
        seconds, model = time.monotonic() - audit.began, self._beside.agent.engine.model

        def report() -> None:
            self._observer.audited(audit.query.id, run, agrees=agrees, seconds=seconds, agent=model)

        # A record has to be there before an outcome can be added to it
        report() if audit.seen.done else audit.seen.afterwards.append(report)
