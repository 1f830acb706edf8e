"""The heterogeneous parallel funnel: most queries leave by the draft, what is left runs the agent's tool loop.

Phases I to III are stateless and run for a whole crowd of queries at once; only what they do not accept enters the
stateful back end. With beta the share that phase I lets through and alpha the share of those that phase III accepts,
the agent's loop runs for 1 - beta * alpha of the queries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, overload

from speceyes.errors import ConfigError, EngineDown, EngineError, SpecEyesError
from speceyes.events import Decided, Event, Listener, ignore
from speceyes.gating import Calibration
from speceyes.imaging.looks import look
from speceyes.logbook import Logbook
from speceyes.phases import AgentModel, DraftModel, fall_back, gate, gate_screening, screen, speculate, speculate_closer
from speceyes.phases.gate import check_calibration
from speceyes.scheduling import (
    AdaptiveLimit,
    Fixed,
    MeteredEngine,
    Plan,
    Planner,
    RunTimes,
    Slots,
    clocks_of,
    deadline,
    end,
    first_refusal,
    in_order,
)
from speceyes.types import Answer, ChatRequest, Query, Reason, Route, Trace, Verdict

AHEAD = 32
"""Queries of `answer_many` that may wait for an agent loop beside those under way. Each holds its images in memory."""


By = Route | Reason | None
"""Who is to answer, whatever the gate would say; a reason means the agent. None: the funnel decides."""


class Funnel:
    """SpecEyes over one draft model and one agent.

    Args:
        draft: The small model of phase II.
        agent: The agent of phases I and IV.
        calibration: The gate's threshold and what it was made for.
        stateless: How many queries may be in phases I to III at a time.
        loops: How many agent loops may run at a time; or an adaptive limit, which finds out how many get most done.
        listen: Is told of everything that happens, as it happens.
        deadline_s: Seconds that one query may take, waiting included. None: no limit.
        retries: Retries that all calls of one query together may make. None: as many as their clients do.
        stand_in_threshold: Least score of a draft that answers where the agent is down (`Reason.AGENT_DOWN`), so
            unscreened. It cannot be under the calibration's. None: then the query fails.
        planner: Chooses each query's plan: in which order the phases run, and which of them at once. None: the paper's.
        strict: A server that is not set up as it must be is an error. A service that has to go on is not strict: the
            agent answers then, as for any other fault, and the trace's notes say why.

    Raises:
        CalibrationMismatch: The calibration was made for other models, prompts, or another K.
        ConfigError: The stand-in's threshold is not stricter than the calibration's.
    """

    def __init__(
        self,
        draft: DraftModel,
        agent: AgentModel,
        calibration: Calibration,
        *,
        stateless: int = 8,
        loops: int | AdaptiveLimit = 8,
        listen: Listener = ignore,
        deadline_s: float | None = None,
        retries: int | None = None,
        stand_in_threshold: float | None = None,
        planner: Planner | None = None,
        strict: bool = True,
    ) -> None:
        check_calibration(calibration, draft, agent)
        self.draft, self.agent, self.calibration = draft, agent, calibration
        self.listen = listen
        self.stateless, self.loops = Slots(stateless), Slots(loops)
        self.planner, self.run_times = planner or Fixed(), RunTimes()
        self.clocks = clocks_of(self.planner)
        self.deadline_s, self.retries, self.strict = deadline_s, retries, strict
        self._least_stand_in = stand_in_threshold
        self.stand_in = None if stand_in_threshold is None else _stand_in(calibration, stand_in_threshold)

    async def answer(
        self, query: Query, *, listen: Listener = ignore, deadline_s: float | None = None, by: By = None
    ) -> Answer:
        """Answer one query, by the draft if phases I and III agree, else by the agent.

        Cancelling the task closes the query's upstream requests at once.

        Args:
            query: The query.
            listen: Hears of this query only, beside the funnel's own listener.
            deadline_s: As the funnel's own, and in its place.
            by: Who is to answer, whatever the gate would say; or why the agent is. None: the funnel decides.

        Raises:
            EngineError: The agent was needed, and its server failed; or a server is not set up as it must be.
            DeadlineExceeded: The time was up.
        """
        log = self._open_book(query, listen, by, deadline_s)
        with log.broken_off_told(), self._learning_from(log):
            async with deadline(log.limit_s, log.story):
                if log.plan is Plan.HEDGED:
                    verdict = await self._hedge(query, log)  # I to IV
                else:
                    async with self.stateless.place(log.claim()):
                        verdict = await self._decide(query, log, by)  # I to III
                    log.tell(Decided(query.id, verdict))
                    if not verdict.accepted:
                        await self._fall_back(query, log, verdict.reason)  # IV
        return log.answer(verdict)

    async def decide(
        self, query: Query, asked: ChatRequest | None = None, *, listen: Listener = ignore, by: By = None
    ) -> Answer | Trace:
        """Phases I to III alone, for those who run the agent elsewhere.

        Args:
            query: The query.
            asked: The screening request, where the agent is spoken to in words that only the caller knows. None: ours.
            listen: As for `answer`.
            by: As for `answer`; a draft that is forced and fails is an error.

        Returns:
            The draft's answer where it is accepted, else what has been found out, for whoever asks the agent now.
        """
        log = self._open_book(query, listen, by)
        with log.broken_off_told(), self._learning_from(log):
            async with deadline(log.limit_s, log.story), self.stateless.place(log.claim()):
                verdict = await self._decide(query, log, by, asked)
        log.tell(Decided(query.id, verdict))
        return log.answer(verdict) if verdict.accepted else log.trace(verdict)

    async def _decide(self, query: Query, log: Logbook, by: By, asked: ChatRequest | None = None) -> Verdict:
        """Phases I to III as the plan has them. What fails on the way is a reason to ask the agent."""
        if by is Route.DRAFT:
            return replace(await self._speculate(query, log), reason=Reason.FORCED_DRAFT)
        if asked is None and not log.agent_views:  # a hedge has them already
            log.agent_views = await look(query.images, self.agent.dialect.limits)
        if (reason := self._no_speculation(query, by)) is not None:
            return Verdict(reason)
        if log.plan in (None, Plan.OFF):
            return Verdict(Reason.SPECULATION_OFF)
        verdict = await self._at_a_glance(query, log, asked)
        return verdict if verdict.accepted else await self._closer(query, log, verdict)

    async def _at_a_glance(self, query: Query, log: Logbook, asked: ChatRequest | None) -> Verdict:
        """Phases I to III on the first look, as the plan has them."""
        match log.plan:
            case Plan.PAPER:
                refused = await self._screened(query, log, asked)  # I
                return await self._drafted(query, log) if refused is None else refused  # II, III
            case Plan.DRAFT_FIRST:
                verdict = await self._drafted(query, log)
                return (await self._screened(query, log, asked) or verdict) if verdict.accepted else verdict
            case Plan.NO_SCREEN:
                return await self._drafted(query, log)
            case _:  # parallel, and hedged
                drafting = asyncio.ensure_future(self._drafted(query, log))
                return await first_refusal(self._screened(query, log, asked, drafting), drafting)

    async def _closer(self, query: Query, log: Logbook, refused: Verdict) -> Verdict:
        """Phases II and III again, while the draft model may look closer by itself. Else the refusal stands.

        Whatever the refusal's reason: which phase has refused depends on the plan, and what is accepted must not.
        """
        if refused.reason is Reason.DRAFT_FAILED:
            return refused
        for _ in range(self.draft.max_depth):
            try:
                verdict = await self._speculate_closer(query, log)
            except EngineError as error:
                log.survived(error, refused.reason)
                break
            if verdict.accepted:
                return replace(verdict, reason=Reason.ACCEPTED_CLOSER, glance=refused)
            if verdict.reason is Reason.LOOK_FAILED:
                break
        return refused

    async def _speculate_closer(self, query: Query, log: Logbook) -> Verdict:
        with log.phase("look_closer"):
            log.draft_views = log.draft_views or await look(query.images, self.draft.limits, like=log.agent_views)
            before = log.closer[-1] if log.closer else log.draft
            log.closer.append(await speculate_closer(query, log.draft_views, log.draft_model, before))
        return gate(log.closer[-1], self.calibration)

    async def _screened(
        self, query: Query, log: Logbook, asked: ChatRequest | None, drafting: asyncio.Future[Verdict] | None = None
    ) -> Verdict | None:
        """Phase I, perhaps beside II. None: it lets the query through."""
        try:
            with log.phase("screen"):
                log.screening = await screen(query, log.agent_views, log.screener, asked)
        except EngineError as error:
            return await self._without_screening(query, log, error, drafting)
        return gate_screening(log.screening, self.calibration)

    async def _drafted(self, query: Query, log: Logbook) -> Verdict:
        """Phases II and III; a draft that fails is a reason to ask the agent."""
        try:
            return await self._speculate(query, log)
        except EngineError as error:
            return log.survived(error, Reason.DRAFT_FAILED)

    async def _speculate(self, query: Query, log: Logbook, stand_in: Calibration | None = None) -> Verdict:
        """Phase II, and phase III on what it gives."""
        with log.phase("speculate"):
            log.draft_views = await look(query.images, self.draft.limits, like=log.agent_views)
            log.draft = await speculate(query, log.draft_views, log.draft_model)
        log.gated = gate(log.draft, stand_in or self.calibration)  # the one of this moment: see `use`
        return log.gated

    async def _fall_back(self, query: Query, log: Logbook, why: Reason | None = None) -> None:
        """Phase IV, for a reason; None: before there is one."""
        async with self.loops.place(log.claim(self.run_times.expected(log.kind, why))) as place:
            agent = replace(log.agent_model, engine=MeteredEngine(log.agent_model.engine, place))
            with log.phase("fall_back"):
                log.run = await fall_back(query, log.agent_views, agent, watch=log.turn, say=log.said)
        self.run_times.add(log.kind, why, log.run.seconds)

    async def _hedge(self, query: Query, log: Logbook) -> Verdict:
        """Phase IV beside I to III. An accepted draft ends it; where the agent is done first, its answer counts.

        What the agent says is held back until it is known that its answer will be the one.
        """
        log.agent_views = await look(query.images, self.agent.dialect.limits)
        log.hold_back()
        front = asyncio.ensure_future(self._front(query, log))  # first, for the loop goes on from screening's slot
        agent = asyncio.ensure_future(self._fall_back(query, log))
        try:
            await asyncio.wait((agent, front), return_when=asyncio.FIRST_COMPLETED)
            if not front.done() and agent.exception() is None:
                verdict = Verdict(Reason.AGENT_FIRST)
            else:
                verdict = await front
            log.tell(Decided(query.id, verdict))
            if not verdict.accepted:
                log.release()
                await agent
            return verdict
        finally:
            await end(agent, front)

    async def _front(self, query: Query, log: Logbook) -> Verdict:
        async with self.stateless.place(log.claim()):
            return await self._decide(query, log, None)

    async def _without_screening(
        self, query: Query, log: Logbook, error: EngineError, drafting: asyncio.Future[Verdict] | None
    ) -> Verdict:
        """The agent has not screened. If it is known to be down, and that is wanted, a draft may answer for it."""
        failed = log.survived(error, Reason.SCREEN_FAILED)
        if self.stand_in is None or not isinstance(error, EngineDown):
            return failed
        if drafting is not None and not (drafted := await asyncio.shield(drafting)).accepted:
            return drafted  # what the calibration refuses the stricter stand-in does
        try:
            verdict = gate(log.draft, self.stand_in) if log.draft else await self._speculate(query, log, self.stand_in)
        except EngineError as no_draft:
            return log.survived(no_draft, Reason.DRAFT_FAILED)
        return replace(verdict, reason=Reason.AGENT_DOWN) if verdict.accepted else verdict

    def _no_speculation(self, query: Query, by: By) -> Reason | None:
        """Why no draft is asked for, where none is."""
        if by is not None:
            return by if isinstance(by, Reason) else Reason.FORCED_AGENT
        if not query.images:
            return Reason.NO_IMAGE
        return None if self.calibration.feasible else Reason.INFEASIBLE

    def use(self, calibration: Calibration) -> None:
        """Gate with another calibration from now on, queries included whose drafts are on their way.

        Raises:
            CalibrationMismatch: It was made for other models, prompts, or another K.
        """
        check_calibration(calibration, self.draft, self.agent)
        if (least := self._least_stand_in) is not None:
            self.stand_in = _stand_in(calibration, max(least, calibration.threshold or least))
        self.calibration = calibration

    def _open_book(self, query: Query, listen: Listener, by: By, deadline_s: float | None = None) -> Logbook:
        """With a plan, unless it is settled who answers."""

        def tell(event: Event) -> None:
            self.listen(event)
            listen(event)

        limit_s = self.deadline_s if deadline_s is None else deadline_s
        log = Logbook(
            query,
            self.draft,
            self.agent,
            tell,
            choice=None,
            limit_s=limit_s,
            retries=self.retries,
            strict=self.strict,
            clocks=self.clocks,
        )
        if by is None:
            log.choice = self.planner.choose(log.kind, self.loops.load)
        return log

    @contextmanager
    def _learning_from(self, log: Logbook) -> Iterator[None]:
        """Tell the planner what a query has shown, unless it failed or had no plan."""
        yield
        if log.choice is not None:
            self.planner.learn(log.kind, log.outcome(self.calibration))

    async def answer_by(
        self, route: Route, query: Query, *, listen: Listener = ignore, deadline_s: float | None = None
    ) -> Answer:
        """Answer one query by the model of one's choice. As `answer`, but a draft that fails is an error.

        The draft's answer is scored all the same, and cut off where its tokens run out (`finish` is "length").
        """
        return await self.answer(query, listen=listen, deadline_s=deadline_s, by=route)

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
        at_once = self.stateless.most + self.loops.most + AHEAD
        return await in_order(self.answer, queries, at_once=at_once, keep_errors=return_exceptions)

    def answer_sync(self, query: Query) -> Answer:
        """`answer` for scripts without an event loop."""
        return asyncio.run(self.answer(query))


def _stand_in(calibration: Calibration, threshold: float) -> Calibration | None:
    """The same score against a higher threshold, which promises nothing. None where nothing can pass anyway."""
    if calibration.threshold is None:
        return None
    if threshold < calibration.threshold:
        raise ConfigError(
            f"where the agent is down, a draft must reach at least the calibrated threshold {calibration.threshold:g}: "
            f"draft_when_agent_down_threshold is {threshold:g}"
        )
    return Calibration.manual(
        threshold,
        score=calibration.score,
        k=calibration.k,
        aggregate=calibration.aggregate,
        notes="while the agent is down",
    )
