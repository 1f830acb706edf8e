"""What keeps a service alive: deadlines, a budget of retries, circuit breakers, and faults of the set-up."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from scripted_funnel import ANSWER, CALL, TORN, agent_script, funnel_over, is_screening, picture, query
from speceyes.engines.breaker import CircuitBreaker
from speceyes.engines.circuit import Circuit
from speceyes.engines.client import Engine
from speceyes.engines.script import Cut, Hang, Outcome, Reply, Status
from speceyes.errors import (
    ConfigError,
    DeadlineExceeded,
    EngineDown,
    EngineError,
    EngineRefused,
    EngineTimeout,
)
from speceyes.events import Answered, CircuitChanged, Event, Failed, Misconfigured
from speceyes.export import as_json
from speceyes.gating import Calibration, fingerprint
from speceyes.phases.speculate import PROMPT
from speceyes.scheduling import Fixed, Plan
from speceyes.types import ImageSizes, Query, Reason, Route


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Guard:
    """Puts a breaker around each engine; all look at one clock, and tell one list."""

    def __init__(self, failures: int = 2) -> None:
        self.clock, self.failures = Clock(), failures
        self.events: list[Event] = []
        self.made: list[CircuitBreaker] = []

    def __call__(self, engine: Engine) -> CircuitBreaker:
        circuit = Circuit(failures=self.failures, pause_s=10, clock=self.clock)
        self.made.append(CircuitBreaker(engine, circuit, listen=self.events.append, clock=self.clock))
        return self.made[-1]


# Deadlines


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Timeout]:
    """The deadlines as they are set, in order, so that a test can bring one on at the right moment."""
    made: list[asyncio.Timeout] = []

    def timeout(seconds: float | None) -> asyncio.Timeout:
        made.append(asyncio.timeout(seconds))
        return made[-1]

    monkeypatch.setattr("speceyes.scheduling.deadlines.asyncio", SimpleNamespace(timeout=timeout))
    return made


def bring_on(limit: asyncio.Timeout) -> None:
    limit.reschedule(asyncio.get_running_loop().time())


@pytest.mark.parametrize(
    ("draft", "agent", "asked", "done"),
    [
        (Reply("B"), lambda r, n: Hang(), (0, 1), "screen took .* s and was not finished$"),
        (Hang(), agent_script(), (1, 1), "screen took .* s; speculate took .* s and was not finished$"),
        (Reply(tokens=TORN), agent_script(loop=(Reply(CALL), Hang())), (1, 3), "not finished, after 1 turns of the"),
    ],
    ids=["screen", "speculate", "fall_back"],
)
async def test_a_query_ends_at_its_deadline_and_says_what_was_done(
    draft: Any, agent: Any, asked: tuple[int, int], done: str, limits: list[asyncio.Timeout]
) -> None:
    events: list[Event] = []
    async with funnel_over(draft, agent, listen=events.append) as (funnel, small, large):
        task = asyncio.create_task(funnel.answer(query(), deadline_s=999))
        for server, count in zip((small, large), asked, strict=True):
            await server.wait_for(count)
        bring_on(limits[0])
        with pytest.raises(DeadlineExceeded, match=rf"no answer within 999 s .*{done}") as late:
            await task
        assert isinstance(late.value, EngineTimeout)
        await small.wait_until(lambda: small.active == 0)
        await large.wait_until(lambda: large.active == 0)
        assert (funnel.stateless.held, funnel.loops.held) == (0, 0)
    assert isinstance(events[-1], Failed)
    assert isinstance(events[-1].error, DeadlineExceeded)


async def test_waiting_for_a_turn_counts(limits: list[asyncio.Timeout]) -> None:
    agent = agent_script(helps=0.9, loop=(Hang(),))
    async with funnel_over(Reply("B"), agent, loops=1) as (funnel, _, large):
        first = asyncio.create_task(funnel.answer(query()))
        await large.wait_for(2)
        second = asyncio.create_task(funnel.answer(query(), deadline_s=999))
        await large.wait_for(3)
        while not funnel.loops.waiting:  # noqa: ASYNC110 - slots tell nobody that somebody waits
            await asyncio.sleep(0.001)
        bring_on(limits[1])
        with pytest.raises(DeadlineExceeded, match=r"screen took .* s; it waited .* s for its turn"):
            await second
        assert (funnel.loops.held, funnel.loops.waiting) == (1, 0)
        first.cancel()
        await asyncio.wait([first])


async def test_the_funnels_own_deadline_stands_where_a_query_names_none() -> None:
    async with funnel_over(Reply("B"), Hang(), deadline_s=0.1) as (funnel, _, _large):
        with pytest.raises(DeadlineExceeded):
            await funnel.answer(query())
    async with funnel_over(Reply("B"), agent_script(), deadline_s=0.000_001) as (funnel, _, _large):
        assert (await funnel.answer(query(), deadline_s=999)).text == "B"


# Retries


async def test_all_calls_of_a_query_share_its_retries() -> None:
    """Each turn fails at first: with two retries in all, the third turn's failure is the end."""
    turned: dict[int, int] = {}

    def agent(request: dict[str, Any], n: int) -> Outcome:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if is_screening(request):
            return agent_script(helps=0.9)(request, n)  # type: ignore[return-value]
        turned[turn] = turned.get(turn, 0) + 1
        return Status(500, "stumbles") if turned[turn] == 1 else Reply(CALL.replace("10, 10", f"{turn + 11}, 10"))

    async with funnel_over(Reply("B"), agent, client_retries=2, retries=2) as (funnel, _, large):
        with pytest.raises(EngineError, match="stumbles"):
            await funnel.answer(query())
    assert turned == {0: 2, 1: 2, 2: 1}
    assert len(large.completions) == 1 + 5


async def test_attempts_are_on_the_trace_those_that_failed_too() -> None:
    script = iter([Status(503, "busy"), Status(500, "x"), Status(500, "x")])
    async with funnel_over(lambda r, n: next(script), agent_script(), client_retries=2) as (funnel, small, large):
        answer = await funnel.answer(query())
    assert (answer.reason, len(small.completions)) == (Reason.DRAFT_FAILED, 3)
    assert answer.trace.attempts == {"small": 3, "large": len(large.completions)}
    assert as_json(answer)["trace"]["attempts"] == {"small": 3, "large": 3}
    assert "small" not in answer.trace.usage


async def test_a_turn_that_failed_is_taken_up_again_there() -> None:
    stumble = iter([True, False])

    def agent(request: dict[str, Any], n: int) -> Outcome:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if turn == 1 and next(stumble):
            return Status(503, "busy")
        return agent_script(helps=0.9)(request, n)  # type: ignore[return-value]

    async with funnel_over(Reply("B"), agent, client_retries=1) as (funnel, _, large):
        answer = await funnel.answer(query())
    assert answer.text == "agent says"
    assert answer.trace.attempts == {"large": 4}
    turns = [sum(m["role"] == "assistant" for m in request.json["messages"]) for request in large.completions]
    assert turns == [0, 0, 1, 1]


# Breakers


async def test_a_draft_that_is_down_costs_no_call() -> None:
    guard = Guard()
    async with funnel_over(Status(500, "down"), agent_script(loop=(Reply(ANSWER),)), guard=guard) as (funnel, small, _):
        answers = [await funnel.answer(query()) for _ in range(5)]
        assert len(small.completions) == 2
        assert {(answer.text, answer.reason) for answer in answers} == {("agent says", Reason.DRAFT_FAILED)}
        assert answers[-1].trace.attempts == {"small": 0, "large": 2}
        assert "EngineDown" in answers[-1].trace.notes[0]
        assert guard.made[0].state == "open"
    assert [(event.model, event.state) for event in guard.events if isinstance(event, CircuitChanged)] == [
        ("small", "open")
    ]


async def test_a_draft_that_is_back_is_used_again() -> None:
    guard, broken = Guard(), [True]

    def draft(request: dict[str, Any], n: int) -> Outcome:
        return Cut() if broken else Reply("B")

    async with funnel_over(draft, agent_script(), guard=guard) as (funnel, _, _large):
        for _ in range(3):
            await funnel.answer(query())
        broken.clear()
        assert (await funnel.answer(query())).reason is Reason.DRAFT_FAILED
        guard.clock.now += 10
        assert (await funnel.answer(query())).reason is Reason.ACCEPTED
    assert guard.made[0].state == "closed"


async def test_an_agent_that_is_down_fails_at_once_and_says_when_to_come_back() -> None:
    guard = Guard()
    async with funnel_over(Reply("B"), Status(503, "down"), guard=guard) as (funnel, small, large):
        with pytest.raises(EngineError):
            await funnel.answer(query())  # screening and the first turn: two failures
        with pytest.raises(EngineDown, match="large was not asked") as down:
            await funnel.answer(query())
        assert down.value.retry_after == pytest.approx(10)
        assert (len(large.completions), small.completions) == (2, [])


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        (Reply("B"), Reason.AGENT_DOWN),
        (Reply(tokens=TORN), None),
        (Status(500, "down too"), None),
        (Reply("B", finish_reason="length"), None),
    ],
)
async def test_a_draft_stands_in_for_an_agent_that_is_down_only_if_it_is_surer_than_usual(
    draft: Outcome, reason: Reason | None
) -> None:
    setup = funnel_over(draft, Status(503, "down"), guard=Guard(), stand_in_threshold=2.5)
    async with setup as (funnel, small, _):
        with pytest.raises(EngineError):
            await funnel.answer(query())  # not known to be down yet
        assert small.completions == []
        if reason is None:
            with pytest.raises(EngineDown):
                await funnel.answer(query())
        else:
            answer = await funnel.answer(query())
            assert (answer.text, answer.reason, answer.route) == ("B", reason, Route.DRAFT)
            assert answer.trace.verdict is not None
            assert answer.trace.verdict.threshold == 2.5
            assert "EngineDown" in answer.trace.notes[0]
        assert len(small.completions) == 1


async def test_the_threshold_for_a_stand_in_cannot_be_laxer() -> None:
    with pytest.raises(ConfigError, match="at least the calibrated threshold 2"):
        async with funnel_over(Reply("B"), agent_script(), stand_in_threshold=1.9):
            pass


async def test_where_no_draft_can_pass_none_stands_in() -> None:
    bound = {"draft_model": "small", "agent_model": "large", "draft_prompt": fingerprint(PROMPT), "data": "h"}
    nothing = Calibration(threshold=None, method="ltt", n=10, **bound)
    setup = funnel_over(Reply("B"), Status(503, "x"), calibration=nothing, guard=Guard(1), stand_in_threshold=9.0)
    async with setup as (funnel, small, _):
        for _ in range(3):
            with pytest.raises(EngineError):
                await funnel.answer(query())
    assert small.completions == []


@pytest.mark.parametrize("status", [401, 403, 404, 307])
async def test_a_service_goes_on_where_the_draft_is_not_set_up_right(status: int) -> None:
    guard = Guard()
    setup = funnel_over(Status(status, "wrong key"), agent_script(loop=(Reply(ANSWER),)), guard=guard, strict=False)
    async with setup as (funnel, _, _large):
        answers = [await funnel.answer(query()) for _ in range(3)]
        assert {(answer.text, answer.reason) for answer in answers} == {("agent says", Reason.DRAFT_FAILED)}
        assert isinstance(guard.made[0].misconfigured, EngineRefused)
        assert guard.made[0].state == "closed"
    assert "EngineRefused" in answers[0].trace.notes[0]
    assert [type(event) for event in guard.events] == [Misconfigured]


async def test_a_service_whose_agent_is_not_set_up_right_fails_query_by_query() -> None:
    guard = Guard()
    async with funnel_over(Reply("B"), Status(401, "wrong key"), guard=guard, strict=False) as (funnel, _, _large):
        with pytest.raises(EngineRefused, match="wrong key"):
            await funnel.answer(query())
        assert guard.made[1].misconfigured is not None


async def test_in_a_storm_every_query_gets_an_answer_or_an_error_and_no_draft_passes_by_accident() -> None:
    """Faults of all kinds at both servers, in turn; each query's draft is right only where its log-probs are there."""
    kinds: list[Outcome] = [Status(500, "x"), Status(429, "x"), Cut(), Cut(Reply("B"), 1), Reply("B"), Status(400, "x")]
    events: list[Event] = []

    def draft(request: dict[str, Any], n: int) -> Outcome:
        return kinds[n % len(kinds)]

    def agent(request: dict[str, Any], n: int) -> Outcome:
        if n % 5 == 3:
            return kinds[n % 4]
        return agent_script()(request, n)  # type: ignore[return-value]

    guard = Guard(failures=4)
    setup = funnel_over(draft, agent, guard=guard, strict=False, client_retries=1, retries=2, listen=events.append)
    async with setup as (funnel, small, large):
        found = await funnel.answer_many([query(str(i)) for i in range(36)], return_exceptions=True)
        assert (small.active, large.active, funnel.stateless.held, funnel.loops.held) == (0, 0, 0, 0)
    assert len(found) == 36
    ended = [event for event in events if isinstance(event, Answered | Failed)]
    assert len(ended) == 36
    for outcome in found:
        if isinstance(outcome, EngineError):
            continue
        assert outcome.text == ("B" if outcome.reason is Reason.ACCEPTED else "agent says")  # type: ignore[union-attr]
        assert outcome.reason is not Reason.ACCEPTED or outcome.score is not None  # type: ignore[union-attr]


# The trace


async def test_the_trace_says_how_large_each_image_was_sent() -> None:
    images = (picture(500, 300), picture(50, 40))
    async with funnel_over(Reply("B"), agent_script()) as (funnel, _, _large):
        answer = await funnel.answer(Query("What is it?", images))
        refused = await funnel.answer_by(Route.AGENT, Query("What is it?", images))
    sizes = answer.trace.images
    assert [image.original for image in sizes] == [(500, 300), (50, 40)]
    assert sizes[0].agent == sizes[0].draft == (504, 308)
    assert all(side % 28 == 0 for image in sizes for side in (*(image.agent or ()), *(image.draft or ())))
    assert sizes[0].agent_tokens == sizes[0].draft_tokens == 18 * 11
    assert refused.trace.images[1] == ImageSizes((50, 40), sizes[1].agent, None, sizes[1].agent_tokens, None)
    told = json.loads(json.dumps(as_json(answer)))["trace"]["images"][1]
    tokens = {"agent_tokens": sizes[1].agent_tokens, "draft_tokens": sizes[1].draft_tokens}
    shown = {"agent": list(sizes[1].agent or ()), "draft": list(sizes[1].draft or ())}
    assert told == {"original": [50, 40], **shown, **tokens}


async def test_the_trace_says_where_a_server_gave_another_name() -> None:
    async with funnel_over(Reply("B", model="small-v2"), agent_script()) as (funnel, _, _large):
        answer = await funnel.answer(query())
    asked = funnel.draft.engine.model
    assert answer.reason is Reason.ACCEPTED
    assert answer.trace.notes == (f"{asked} was asked, and its server says that small-v2 answered",)


@pytest.mark.parametrize("plan", [Plan.PAPER, Plan.DRAFT_FIRST, Plan.PARALLEL, Plan.HEDGED])
@pytest.mark.parametrize(("draft", "stands_in"), [(Reply("B"), True), (Reply(tokens=TORN), False)])
async def test_a_stand_in_is_asked_once_under_every_plan(plan: Plan, draft: Outcome, stands_in: bool) -> None:
    planner = Fixed(plan)
    setup = funnel_over(draft, Status(503, "down"), guard=Guard(1), stand_in_threshold=2.5, planner=planner)
    async with setup as (funnel, small, _):
        with pytest.raises(EngineError):
            await funnel.answer(query())
        before = len(small.completions)
        if stands_in:
            assert (await funnel.answer(query())).reason in (Reason.AGENT_DOWN, Reason.ACCEPTED)
        else:
            with pytest.raises(EngineDown):
                await funnel.answer(query())
        assert len(small.completions) == before + 1


async def test_a_stand_in_comes_back_with_a_calibration_that_lets_drafts_pass() -> None:
    async with funnel_over(Reply("B"), agent_script(), stand_in_threshold=3.0) as (funnel, _, _large):
        usual = funnel.calibration
        for threshold, least in ((5.0, 5.0), (2.0, 3.0), (None, None), (2.0, 3.0)):
            funnel.use(usual.model_copy(update={"threshold": threshold}))
            assert (None if funnel.stand_in is None else funnel.stand_in.threshold) == least
