"""What one query costs its servers, over all of its calls: requests, time, and slots that are kept for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from speceyes.engines.client import Engine, OnDelta, was_sent
from speceyes.engines.server_clock import ServerClock, Stay
from speceyes.errors import EngineError
from speceyes.types import ChatRequest, Completion


class _Owner:
    """What a query's calls name as theirs: the slots that are kept for it are free when this is gone."""

    __slots__ = ("__weakref__",)


class Attempts:
    """The attempts of one query, counted by model, and the retries that are left to it.

    A call's client retries on its own. Without this, a query of eight calls on a server that stumbles would retry in
    each of them anew.

    Args:
        retries: Retries that all calls together may make. None: as many as their clients do.

    Attributes:
        made: Requests sent by model name, those that failed or were broken off included.
        answered_as: By model name, another name that its server gave for who answered. It may be the same model under
            its full name, or an alias that points elsewhere by now.
        owner: What the query's calls name as their `affinity`. None: it is closed.
    """

    def __init__(self, retries: int | None = None) -> None:
        self.made: Counter[str] = Counter()
        self.answered_as: dict[str, str] = {}
        self.owner: _Owner | None = _Owner()
        self._retries_left = retries

    @property
    def for_next_call(self) -> int | None:
        """Attempts that the next call may take. A first one is always free."""
        return None if self._retries_left is None else 1 + self._retries_left

    def book(self, model: str, attempts: int) -> None:
        """Take down a call that is over and took so many attempts."""
        self.made[model] += attempts
        if self._retries_left is not None:
            self._retries_left = max(0, self._retries_left - max(0, attempts - 1))

    def close(self) -> None:
        """The query is over: no slot is kept for it any longer. A second time does nothing.

        Its pictures may be kept alive after it, by an answer that somebody holds or by an error whose traceback leads
        to them; a slot must not be.
        """
        self.owner = None


class CountedEngine:
    """An engine whose calls go into one query's `Attempts`.

    Args:
        engine: The engine.
        attempts: The query's.
        clock: Counts how many calls its server has at a time. None: nobody does.

    Attributes:
        stay: How long its calls were at the server.
    """

    def __init__(self, engine: Engine, attempts: Attempts, clock: ServerClock | None = None) -> None:
        self._engine = engine
        self._attempts = attempts
        self._clock = clock or ServerClock()
        self.stay = Stay()

    @property
    def model(self) -> str:
        """As the engine has it."""
        return self._engine.model

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        """As the engine does it, with no more attempts than the query has left."""
        owner = None if request.affinity is None else self._attempts.owner
        allowed = replace(request, max_attempts=self._attempts.for_next_call, affinity=owner)
        try:
            with self._clock.timing(self.stay):
                completion = await self._engine.complete(allowed, on_delta=on_delta)
        except EngineError as error:
            self._attempts.book(self.model, error.attempts)
            raise
        except asyncio.CancelledError as error:
            self._attempts.book(self.model, int(was_sent(error)))
            raise
        self._attempts.book(self.model, max(1, completion.usage.calls))
        if completion.model not in ("", self.model):
            self._attempts.answered_as[self.model] = completion.model
        return completion
