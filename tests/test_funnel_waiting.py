"""Who is answered first where not all can be at once, and how many agent loops run where that is found out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from scripted_funnel import ANSWER, THRESHOLD, agent_script, funnel_over, is_screening, picture, query
from speceyes import logbook
from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.config import load_settings
from speceyes.engines.client import OnDelta
from speceyes.engines.script import Hang, Outcome, Reply, Status
from speceyes.engines.scripted import ScriptedServer
from speceyes.errors import EngineOverloaded
from speceyes.evals.datasets.samples import make_samples
from speceyes.evals.matching import is_right
from speceyes.events import Answered, Event
from speceyes.funnel import Funnel
from speceyes.imaging.resize import QWEN2_5_VL
from speceyes.phases import AgentModel, DraftModel
from speceyes.scheduling import AdaptiveLimit, Auto, kind_of
from speceyes.types import Answer, ChatRequest, Completion, Query, Reason, Route, Token, Usage
from speceyes.wiring import open_funnel

# Who is next


@asynccontextmanager
async def one_loop_busy(**options: Any) -> AsyncIterator[tuple[Funnel, ScriptedServer, asyncio.Event]]:
    """A funnel with one place for a loop, which is held until the event."""
    leave = asyncio.Event()

    async def agent(request: dict[str, Any], n: int) -> Outcome:
        if not is_screening(request) and "hold" in asked(request):
            await leave.wait()
        return agent_script(0.9, (Reply(ANSWER),))(request, n)  # type: ignore[return-value]

    async with funnel_over(Reply("B"), agent, loops=1, stateless=32, **options) as (funnel, _, large):
        holder = asyncio.create_task(funnel.answer(named("hold")))
        await large.wait_until(lambda: len(loops(large)) == 1)
        yield funnel, large, leave
        await holder


def named(name: str, **fields: Any) -> Query:
    return replace(query(name, **fields), question=f"{name}?")


def asked(request: dict[str, Any]) -> str:
    parts = request["messages"][1]["content"]
    text: str = next(part["text"] for part in parts if part["type"] == "text")
    return text.split("?")[0]


def loops(large: ScriptedServer) -> list[str]:
    """The questions whose loops have begun, in that order."""
    return [asked(request.json) for request in large.completions if not is_screening(request.json)]


async def all_wait(funnel: Funnel, count: int) -> None:
    async with asyncio.timeout(60):
        while funnel.loops.waiting < count:  # noqa: ASYNC110 - slots tell nobody that somebody waits
            await asyncio.sleep(0.001)


async def test_a_lower_priority_number_is_served_first() -> None:
    async with one_loop_busy() as (funnel, large, leave):
        tasks = []
        for i, priority in enumerate((5, 0, -5, 0)):
            tasks.append(asyncio.create_task(funnel.answer(named(f"{priority} {i}", priority=priority))))
            await all_wait(funnel, i + 1)
        leave.set()
        await asyncio.gather(*tasks)
        assert loops(large) == ["hold", "-5 2", "0 1", "0 3", "5 0"]


async def test_what_is_expected_to_be_short_is_served_first() -> None:
    large_picture = picture(2240, 2240)
    async with one_loop_busy() as (funnel, large, leave):
        for size, seconds in (((560, 280), 1.0), ((2240, 2240), 30.0)):
            for _ in range(50):
                funnel.run_times.add(kind_of([size], "?"), Reason.TOOL_WOULD_HELP, seconds)
        tasks = []
        for i, name in enumerate(("long", "short", "long as well", "short too")):
            one = named(name) if "short" in name else replace(named(name), images=(large_picture,))
            tasks.append(asyncio.create_task(funnel.answer(one)))
            await all_wait(funnel, i + 1)
        leave.set()
        await asyncio.gather(*tasks)
        assert loops(large) == ["hold", "short", "short too", "long", "long as well"]


async def test_in_danger_of_its_deadline_a_query_is_served_first() -> None:
    async with one_loop_busy() as (funnel, large, leave):
        for _ in range(50):
            funnel.run_times.add(kind_of([(560, 280)], "?"), Reason.TOOL_WOULD_HELP, 4096.0)
        tasks = []
        for i, limit_s in enumerate((None, 100_000.0, 6000.0)):
            tasks.append(asyncio.create_task(funnel.answer(named(f"within {limit_s}"), deadline_s=limit_s)))
            await all_wait(funnel, i + 1)
        leave.set()
        await asyncio.gather(*tasks)
        assert loops(large) == ["hold", "within 6000.0", "within None", "within 100000.0"]


async def test_runs_are_learned_from_by_kind_and_reason() -> None:
    async with funnel_over(Reply("B"), agent_script(0.9)) as (funnel, _, _large):
        answer = await funnel.answer(query())
        assert answer.trace.run is not None
        kind = kind_of([(560, 280)], "What is it?")
        expected = funnel.run_times.expected(kind, Reason.TOOL_WOULD_HELP)
    assert expected is not None
    assert expected / 1.5 < answer.trace.run.seconds < expected * 1.5, "to the nearest power of two"


# What is forced


class Strict(Auto):
    """A planner that must not be asked."""

    def choose(self, *_: Any) -> Any:
        pytest.fail("a plan was made")

    def learn(self, *_: Any) -> None:
        pytest.fail("something was learned")


@pytest.mark.parametrize("by", [Route.AGENT, Route.DRAFT, Reason.NEEDS_AGENT])
async def test_what_is_forced_is_neither_planned_nor_learned_from(by: Route | Reason) -> None:
    async with funnel_over(Reply("B"), agent_script(), planner=Strict()) as (funnel, _, _large):
        answer = await funnel.answer(query(), by=by)
        found = await funnel.decide(query(), by=by)
    trace = found.trace if isinstance(found, Answer) else found
    assert (answer.trace.plan, answer.trace.plan_why) == (trace.plan, trace.plan_why) == ("", "")


@pytest.mark.parametrize("by", [None, Route.AGENT])
async def test_a_querys_kind_is_found_out_once(by: Route | None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(*given: Any) -> str:
        nonlocal calls
        calls += 1
        return kind_of(*given)

    monkeypatch.setattr(logbook, "kind_of", counted)
    async with funnel_over(Reply("B"), agent_script(0.9), planner=Auto()) as (funnel, _, _large):
        await funnel.answer(query(), by=by)
    assert calls == 1


# How many loops


async def test_a_server_that_says_it_is_too_much_gets_fewer_loops_at_once() -> None:
    limit = AdaptiveLimit(20)
    agent = agent_script(0.9, (Status(429, "busy"),))
    async with funnel_over(Reply("B"), agent, loops=limit) as (funnel, _, _large):
        with pytest.raises(EngineOverloaded):
            await funnel.answer(query())
        assert (funnel.loops.capacity, limit.cuts) == (16, 1)


async def test_a_429_that_a_retry_survives_counts_too() -> None:
    limit, refused = AdaptiveLimit(20), 0

    def agent(request: dict[str, Any], n: int) -> Outcome:
        nonlocal refused
        if not is_screening(request) and not refused:
            refused += 1
            return Status(429, "busy")
        return agent_script(0.9)(request, n)  # type: ignore[return-value]

    async with funnel_over(Reply("B"), agent, loops=limit, client_retries=2) as (funnel, _, _large):
        assert (await funnel.answer(query())).text == "agent says"
    assert (limit.current, limit.cuts) == (16, 1)


async def test_a_failed_screening_says_nothing_about_the_loops() -> None:
    limit = AdaptiveLimit(20)

    def agent(request: dict[str, Any], n: int) -> Outcome:
        return Status(429, "busy") if is_screening(request) else Reply(ANSWER)

    async with funnel_over(Reply("B"), agent, loops=limit) as (funnel, _, _large):
        assert (await funnel.answer(query())).reason is Reason.SCREEN_FAILED
    assert (limit.current, limit.cuts) == (20, 0)


async def test_what_is_given_up_frees_its_place_under_an_adaptive_limit() -> None:
    agent = agent_script(0.9, (Hang(),))
    async with funnel_over(Reply("B"), agent, loops=AdaptiveLimit(2)) as (funnel, _, large):
        tasks = [asyncio.create_task(funnel.answer(query(str(i)))) for i in range(6)]
        await all_wait(funnel, 4)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (funnel.loops.held, funnel.loops.waiting) == (0, 0)
        await large.wait_until(lambda: large.active == 0)


async def test_the_nano_agent_answers_a_crowd_while_the_number_of_loops_is_found_out() -> None:
    chosen = load_settings(env={}, overrides={"funnel.loops": "auto", "funnel.max_loops": 6, "agent.parallel": 3})
    samples, allowed = make_samples(24, 5), set()
    async with open_funnel(chosen) as funnel:
        limit = funnel.loops.limit
        assert limit is not None
        assert (limit.least, limit.most, limit.current) == (1, 6, 6)

        def listen(event: Event) -> None:
            allowed.add(funnel.loops.capacity)

        asking = [funnel.answer(sample.query(), by=Route.AGENT, listen=listen) for sample in samples]
        answers = await asyncio.gather(*asking)
        assert (funnel.loops.held, funnel.loops.waiting) == (0, 0)
        assert limit.cuts == 0
        assert 1 <= limit.current <= 6
    assert len(allowed) > 1, "it has been tried what another number does"
    assert allowed <= set(range(1, 7))
    right = [is_right(answer.text, one.gold, one.options) for answer, one in zip(answers, samples, strict=True)]
    assert sum(right) >= 16
    assert {answer.reason for answer in answers} == {Reason.FORCED_AGENT}


# Thousands of queries


class Quick:
    """A model in this process that needs no time: what remains is the funnel's own work."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.under_way = self.most = 0

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        usage = Usage(100, 10, calls=1)
        if request.top_logprobs and request.max_tokens == 1:  # screening: no
            return Completion("yes", "length", (Token("yes", -0.1, (-0.1, -3.0), ("yes", "no")),), usage)
        return Completion(ANSWER, "stop", usage=usage)


def quick_funnel(loops: int | AdaptiveLimit) -> tuple[Funnel, Quick]:
    agent = Quick("large")
    return Funnel(DraftModel(Quick("small"), QWEN2_5_VL), AgentModel(agent, DeepEyes()), THRESHOLD, loops=loops), agent


SMALL = picture(56, 56)


async def test_two_thousand_at_once_are_answered_within_the_limit() -> None:
    limit = AdaptiveLimit(8, most=12)
    funnel, agent = quick_funnel(limit)
    asked = [Query("What is it?", (SMALL,), id=str(i), priority=i % 3) for i in range(2000)]
    answers = await asyncio.gather(*map(funnel.answer, asked))
    assert [answer.query_id for answer in answers] == [one.id for one in asked]
    assert {answer.text for answer in answers} == {"agent says"}
    assert agent.most <= 12 + 8, "loops, and screenings beside them"
    assert (funnel.stateless.held, funnel.loops.held, funnel.loops.waiting) == (0, 0, 0)


async def test_a_crowd_under_an_adaptive_limit_is_drawn_for_as_many_as_it_may_allow() -> None:
    funnel, _ = quick_funnel(AdaptiveLimit(1, most=12))
    drawn = done = most = 0

    def crowd() -> Any:
        nonlocal drawn, most
        for i in range(200):
            drawn += 1
            most = max(most, drawn - done)
            yield Query("What is it?", (SMALL,), id=str(i))

    def listen(event: Event) -> None:
        nonlocal done
        done += isinstance(event, Answered)

    funnel.listen = listen
    answers = await funnel.answer_many(crowd())
    assert [answer.query_id for answer in answers] == [str(i) for i in range(200)]
    assert most == 8 + 12 + 32
