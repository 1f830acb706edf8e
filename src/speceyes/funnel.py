"""The heterogeneous parallel funnel: most queries leave by the draft, what is left runs the agent's tool loop.

Phases I to III are stateless and run for a whole crowd of queries at once; only what they do not accept enters the
stateful back end. With beta the share that phase I lets through and alpha the share of those that phase III accepts,
the agent's loop runs for 1 - beta * alpha of the queries.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterable, Sequence
from typing import Literal, overload

from speceyes.errors import EngineError, SpecEyesError
from speceyes.events import Answered, Cancelled, Decided, Failed, Listener, ignore
from speceyes.gating import Calibration
from speceyes.imaging.looks import look
from speceyes.imaging.view import View
from speceyes.logbook import Logbook
from speceyes.phases import AgentModel, DraftModel, fall_back, gate, gate_screening, screen, speculate
from speceyes.phases.gate import check_calibration
from speceyes.scheduling import Slots
from speceyes.types import Answer, Query, Reason, Verdict

AHEAD = 32
"""Queries of `answer_many` that may wait for an agent loop beside those under way. Each holds its images in memory."""


class Funnel:
    """SpecEyes over one draft model and one agent.

    Args:
        draft: The small model of phase II.
        agent: The agent of phases I and IV.
        calibration: The gate's threshold and what it was made for.
        stateless: How many queries may be in phases I to III at a time.
        loops: How many agent loops may run at a time.
        listen: Is told of everything that happens, as it happens.

    Raises:
        CalibrationMismatch: The calibration was made for other models, prompts, or another K.
    """

    def __init__(
        self,
        draft: DraftModel,
        agent: AgentModel,
        calibration: Calibration,
        *,
        stateless: int = 8,
        loops: int = 8,
        listen: Listener = ignore,
    ) -> None:
        check_calibration(calibration, draft, agent)
        self.draft, self.agent, self.calibration = draft, agent, calibration
        self.listen = listen
        self.stateless, self.loops = Slots(stateless), Slots(loops)

    async def answer(self, query: Query) -> Answer:
        """Answer one query, by the draft if phases I and III agree, else by the agent.

        Cancelling the task closes the query's upstream requests at once.

        Raises:
            EngineError: The agent was needed, and its server failed; or a server is not set up as it must be.
        """
        log = Logbook(query, self.draft.engine.model, self.agent.engine.model, self.listen)
        try:
            async with self.stateless:
                views = await look(query.images, self.agent.dialect.limits)
                verdict = await self._decide(query, views, log)
            self.listen(Decided(query.id, verdict))
            if not verdict.accepted:
                async with self.loops:
                    with log.phase("fall_back"):
                        log.run = await fall_back(query, views, self.agent, watch=log.turn)  # IV
        except SpecEyesError as error:
            self.listen(Failed(query.id, error, log.usage()))
            raise
        except asyncio.CancelledError:
            self.listen(Cancelled(query.id, log.usage()))
            raise
        answer = log.answer(verdict)
        self.listen(Answered(answer))
        return answer

    async def _decide(self, query: Query, views: Sequence[View], log: Logbook) -> Verdict:
        """Phases I to III in the paper's order. What fails on the way is a reason to ask the agent."""
        if not self.calibration.feasible:
            return Verdict(Reason.INFEASIBLE)  # no draft could pass, so none is asked for
        try:
            with log.phase("screen"):
                log.screening = await screen(query, views, self.agent)  # I
        except EngineError as error:
            return log.survived(error, Reason.SCREEN_FAILED)
        if (refused := gate_screening(log.screening, self.calibration)) is not None:
            return refused
        try:
            with log.phase("speculate"):
                views = await look(query.images, self.draft.limits, like=views)
                log.draft = await speculate(query, views, self.draft)  # II
        except EngineError as error:
            return log.survived(error, Reason.DRAFT_FAILED)
        return gate(log.draft, self.calibration)  # III

    @overload
    async def answer_many(
        self, queries: Iterable[Query], *, return_exceptions: Literal[False] = False
    ) -> list[Answer]: ...

    @overload
    async def answer_many(
        self, queries: Iterable[Query], *, return_exceptions: Literal[True]
    ) -> list[Answer | SpecEyesError]: ...

    async def answer_many(
        self, queries: Iterable[Query], *, return_exceptions: bool = False
    ) -> Sequence[Answer | SpecEyesError]:
        """Answer a crowd of queries, in their order. No barrier: each moves on as soon as it can.

        Args:
            queries: As many as there are. A generator is drawn from as places come free, so its images need not
                all be in memory.
            return_exceptions: Put an error in the place of its query's answer. Without it the first error ends the
                others and is raised.
        """
        numbered = enumerate(queries)
        found: dict[int, Answer | SpecEyesError] = {}

        async def work() -> None:
            for i, query in numbered:
                try:
                    found[i] = await self.answer(query)
                except SpecEyesError as error:
                    if not return_exceptions:
                        raise
                    found[i] = _without_locals(error)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.stateless.capacity + self.loops.capacity + AHEAD):
                    group.create_task(work())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [found[i] for i in range(len(found))]

    def answer_sync(self, query: Query) -> Answer:
        """`answer` for scripts without an event loop."""
        return asyncio.run(self.answer(query))


def _without_locals(error: SpecEyesError) -> SpecEyesError:
    """An error to keep: its traceback still says where, but no longer holds on to the query's pictures."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # the first frame is the worker's, and still in use
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    return error
