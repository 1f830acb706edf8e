"""The three ways to answer that are compared: the agent alone, the draft alone, and SpecEyes over the two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from speceyes.errors import SpecEyesError
from speceyes.events import Answered, Event, Failed
from speceyes.funnel import Funnel
from speceyes.gating import Calibration
from speceyes.imaging.looks import look
from speceyes.phases import AgentModel, DraftModel, fall_back, speculate
from speceyes.scheduling import Slots
from speceyes.types import AgentRun, Answer, Draft, Query, Usage

UNKNOWN = Usage(prompt_tokens=None, completion_tokens=None)


class SystemName(StrEnum):
    """Who answers."""

    AGENT = "agent"
    DRAFT = "draft"
    SPECEYES = "speceyes"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a system said to one query.

    Attributes:
        text: The answer; empty where there is none.
        seconds: Wall time of the query's own work, waiting for a slot left out. None where it failed.
        usage: Tokens of all model calls. Unknown where it failed.
        answer: The full answer with its trace, from SpecEyes only.
        error: Why there is no answer.
    """

    text: str
    seconds: float | None
    usage: Usage
    answer: Answer | None = None
    error: str | None = None


Done = Callable[[], None]
"""Is called whenever a query is finished."""


class System(Protocol):
    """Answers a crowd of queries, some at a time. A query that fails has a reply with an error in its place."""

    @property
    def name(self) -> SystemName: ...

    async def answer_many(self, queries: Sequence[Query], done: Done) -> list[Reply]: ...


class AgentAlone:
    """Each query goes straight into the agent's tool loop; no screening, no draft."""

    name = SystemName.AGENT

    def __init__(self, agent: AgentModel, concurrency: int) -> None:
        self.agent = agent
        self._slots = Slots(concurrency)

    async def answer_many(self, queries: Sequence[Query], done: Done) -> list[Reply]:
        return await _each(self._answer, queries, self._slots, done)

    async def _answer(self, query: Query) -> AgentRun:
        return await fall_back(query, await look(query.images, self.agent.dialect.limits), self.agent)


class DraftAlone:
    """The draft model's answer stands, whatever its score."""

    name = SystemName.DRAFT

    def __init__(self, draft: DraftModel, concurrency: int) -> None:
        self.draft = draft
        self._slots = Slots(concurrency)

    async def answer_many(self, queries: Sequence[Query], done: Done) -> list[Reply]:
        return await _each(self._answer, queries, self._slots, done)

    async def _answer(self, query: Query) -> Draft:
        return await speculate(query, await look(query.images, self.draft.limits), self.draft)


class SpecEyes:
    """The funnel, with as many slots for its stateless phases and for its agent loops as the others have."""

    name = SystemName.SPECEYES

    def __init__(self, draft: DraftModel, agent: AgentModel, calibration: Calibration, concurrency: int) -> None:
        self.funnel = Funnel(draft, agent, calibration, stateless=concurrency, loops=concurrency, listen=self._listen)
        self._done: Done = _nothing

    async def answer_many(self, queries: Sequence[Query], done: Done) -> list[Reply]:
        self._done = done
        outcomes = await self.funnel.answer_many(queries, return_exceptions=True)
        return [self._reply(outcome) for outcome in outcomes]

    def _listen(self, event: Event) -> None:
        if isinstance(event, Answered | Failed):
            self._done()

    @staticmethod
    def _reply(outcome: Answer | SpecEyesError) -> Reply:
        if isinstance(outcome, SpecEyesError):
            return _failed(outcome)
        trace = outcome.trace
        usage = sum(trace.usage.values(), Usage())
        return Reply(outcome.text, sum(trace.phase_seconds.values()), usage, outcome)


async def _each(
    answer: Callable[[Query], Awaitable[AgentRun | Draft]], queries: Sequence[Query], slots: Slots, done: Done
) -> list[Reply]:
    async def one(query: Query) -> Reply:
        async with slots:
            began = time.monotonic()
            try:
                said = await answer(query)
            except SpecEyesError as error:
                return _failed(error)
            finally:
                done()
            return Reply(said.text, time.monotonic() - began, said.usage)

    return await asyncio.gather(*map(one, queries))


def _failed(error: SpecEyesError) -> Reply:
    return Reply("", None, UNKNOWN, error=f"{type(error).__name__}: {error}")


def _nothing() -> None: ...
