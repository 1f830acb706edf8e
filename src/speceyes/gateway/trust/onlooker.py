"""Observe: phases I to III beside the agent, whose answer waits for none of it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import replace

from speceyes.errors import EngineError, SpecEyesError
from speceyes.events import Decided, Event, PhaseEnded
from speceyes.funnel import Funnel
from speceyes.gateway.observe import Observation
from speceyes.gateway.observe.observation import total_attempts, total_usage
from speceyes.gateway.trust.background import Background
from speceyes.gateway.trust.standing import REFUSED_BY_SCREENING, Standing
from speceyes.types import Answer, Query, Route, Trace

_log = logging.getLogger(__name__)

WAITING = 32
"""Queries that may wait for a place beside those that have one. Each holds its images in memory."""


class Onlooker:
    """Finds out what the gate would have said.

    Args:
        beside: A funnel with places and breakers of its own.
        standing: Whose drift monitors look at it, if any.
        deadline_s: Seconds that one query may take, waiting included.

    Attributes:
        lost: Queries that were not observed, by cause: `busy` (no place), `failed`.
    """

    def __init__(self, beside: Funnel, standing: Standing | None, *, deadline_s: float) -> None:
        self.lost = Counter({"busy": 0, "failed": 0})
        self._beside, self._standing, self._deadline_s = beside, standing, deadline_s
        self._tasks = Background(beside.stateless.capacity + WAITING)

    @property
    def under_way(self) -> int:
        """Queries that are being observed, or wait for it."""
        return self._tasks.under_way

    def begin(self, query: Query, seen: Observation) -> asyncio.Task[Trace | None] | None:
        """Begin to observe a query. None where there is no room; the task's result is None where it failed."""
        task = self._tasks.start(lambda: self._observe(query, seen))
        self.lost["busy"] += task is None
        return task

    async def close(self, wait_s: float) -> None:
        """Wait so long for what is under way, and give up the rest."""
        await self._tasks.close(wait_s)

    async def _observe(self, query: Query, seen: Observation) -> Trace | None:
        def hear(event: Event) -> None:
            # The rest of what is told would be taken for the agent's own
            if isinstance(event, PhaseEnded | Decided):
                seen.listener(event)
            if isinstance(event, Decided) and self._standing is not None:
                self._standing.served(event.verdict, gated=False)

        try:
            async with asyncio.timeout(self._deadline_s):
                found = await self._beside.decide(query, listen=hear)
                if isinstance(found, Answer):
                    return found.trace
                return await self._with_draft(query, seen, found)
        except (SpecEyesError, TimeoutError) as error:
            self.lost["failed"] += 1
            _log.info("request %s was not observed: %r", query.id, error)
            return None

    async def _with_draft(self, query: Query, seen: Observation, found: Trace) -> Trace:
        """What was found out, with a draft also where screening refuses one.

        Without it a record of the traffic would hold a draft only for what the present screening lets through, and
        nothing else could be tried or calibrated on it.
        """
        if found.reason not in REFUSED_BY_SCREENING:
            return found

        def hear(event: Event) -> None:
            if isinstance(event, PhaseEnded):
                seen.listener(event)

        try:
            drafted = (await self._beside.answer(query, by=Route.DRAFT, listen=hear)).trace
        except EngineError as error:
            return replace(found, notes=(*found.notes, f"{type(error).__name__}: {error}"))
        return replace(
            found,
            draft=drafted.draft,
            phase_seconds={**found.phase_seconds, **drafted.phase_seconds},
            usage=total_usage(found, drafted),
            attempts=total_attempts(found, drafted),
        )
