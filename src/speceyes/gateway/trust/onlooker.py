"""Observe: phases I to III beside the agent, whose answer waits for none of it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from speceyes.errors import SpecEyesError
from speceyes.events import Decided, Event, PhaseEnded
from speceyes.funnel import Funnel
from speceyes.gateway.observe import Observation
from speceyes.gateway.trust.background import Background
from speceyes.gateway.trust.standing import Standing
from speceyes.types import Answer, Query, Trace

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
        except (SpecEyesError, TimeoutError) as error:
            self.lost["failed"] += 1
            _log.info("request %s was not observed: %r", query.id, error)
            return None
        return found.trace if isinstance(found, Answer) else found
