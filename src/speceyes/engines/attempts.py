"""How many requests one query may cost its servers, over all of its calls."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from speceyes.engines.client import Engine, OnDelta
from speceyes.errors import EngineError
from speceyes.types import ChatRequest, Completion


class Attempts:
    """The attempts of one query, counted by model, and the retries that are left to it.

    A call's client retries on its own. Without this, a query of eight calls on a server that stumbles would retry in
    each of them anew.

    Args:
        retries: Retries that all calls together may make. None: as many as their clients do.

    Attributes:
        made: Requests sent by model name, those that failed included.
        answered_as: By model name, another name that its server gave for who answered. It may be the same model under
            its full name, or an alias that points elsewhere by now.
    """

    def __init__(self, retries: int | None = None) -> None:
        self.made: Counter[str] = Counter()
        self.answered_as: dict[str, str] = {}
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


class CountedEngine:
    """An engine whose calls go into one query's `Attempts`."""

    def __init__(self, engine: Engine, attempts: Attempts) -> None:
        self._engine = engine
        self._attempts = attempts

    @property
    def model(self) -> str:
        """As the engine has it."""
        return self._engine.model

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        """As the engine does it, with no more attempts than the query has left."""
        allowed = replace(request, max_attempts=self._attempts.for_next_call)
        try:
            completion = await self._engine.complete(allowed, on_delta=on_delta)
        except EngineError as error:
            self._attempts.book(self.model, error.attempts)
            raise
        self._attempts.book(self.model, max(1, completion.usage.calls))
        if completion.model not in ("", self.model):
            self._attempts.answered_as[self.model] = completion.model
        return completion
