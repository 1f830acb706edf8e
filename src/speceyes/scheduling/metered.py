"""The model calls of an agent's run, told to the place that it holds: what an adaptive limit goes by."""

from __future__ import annotations

import asyncio

from speceyes.engines.client import Engine, OnDelta
from speceyes.errors import EngineError
from speceyes.scheduling.slots import OVERLOADS, Place
from speceyes.types import ChatRequest, Completion


class MeteredEngine:
    """An engine whose calls are told to a place.

    Runs differ in their number of turns and turns in their length, so what is counted is the work of each call: the
    tokens that it has generated, and a fixed part for its prompt. An overload counts also where the client has waited
    it out and the call came to a good end.
    """

    def __init__(self, engine: Engine, place: Place) -> None:
        self._engine, self._place = engine, place

    @property
    def model(self) -> str:
        """As the engine has it."""
        return self._engine.model

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        """As the engine does it."""
        began = asyncio.get_running_loop().time()
        try:
            completion = await self._engine.complete(request, on_delta=on_delta)
        except EngineError as error:
            if isinstance(error, OVERLOADS):
                self._place.struggled(began)
            raise
        if completion.overloads:
            self._place.struggled(began)
        self._place.called(completion.usage.completion_tokens or 0)
        return completion
