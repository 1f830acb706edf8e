"""A further question on the same images: the new run begins where the last one ended.

The core knows single questions only. A conversation is a dialect whose opening messages are the history, and the new
question behind it; the server's prefix cache serves all that was said before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from speceyes.agents.dialects.base import Dialect, Message
from speceyes.engines.client import Engine, OnDelta
from speceyes.imaging.view import View
from speceyes.types import ChatRequest, Completion, Query

if TYPE_CHECKING:
    from speceyes.wiring.agent.answer import AgentAnswer


class Remembering:
    """An engine that remembers the last exchange."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.messages: tuple[Message, ...] = ()
        self.completion: Completion | None = None

    @property
    def model(self) -> str:
        return self._engine.model

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        completion = await self._engine.complete(request, on_delta=on_delta)
        self.messages, self.completion = request.messages, completion
        return completion

    def history(self, dialect: Dialect) -> tuple[Message, ...]:
        """All that was said, the last turn included."""
        last = dialect.assistant_messages(self.completion) if self.completion else ()
        return (*self.messages, *last)


def continued(dialect: Dialect, answer: AgentAnswer) -> Dialect:
    """The dialect, for a question that follows an answer."""
    return cast(Dialect, _Continued(dialect, answer.history))


class _Continued:
    """Everything is the dialect's, but for the opening messages."""

    def __init__(self, dialect: Dialect, history: Sequence[Message]) -> None:
        self._dialect, self._history = dialect, history

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)

    def opening_messages(self, query: Query, views: Sequence[View], *, screening: bool = False) -> tuple[Message, ...]:
        alone = self._dialect.opening_messages(replace(query, images=()), (), screening=screening)
        return (*self._history, *(message for message in alone if message["role"] != "system"))
