"""What the agent's first turn and every later one find in the prompt cache, by llama.cpp's own counts, and that a query
gives its slot back however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import httpx
import pytest

from scripted_funnel import ANSWER, CALL, agent_script, funnel_over, is_screening, query
from speceyes.config import load_settings
from speceyes.engines.client import ChatClient, Engine
from speceyes.engines.script import Hang, Outcome, Reply, Status
from speceyes.engines.slot_leases import SlotLeases
from speceyes.errors import EngineError
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.imaging.looks import look
from speceyes.imaging.view import View
from speceyes.phases import AgentModel, fall_back, screen, speculate
from speceyes.scheduling import Fixed, Plan
from speceyes.types import ChatRequest, Completion, Query, Turn
from speceyes.wiring.funnel import open_agent, open_draft

SURE = Reply("B")


def client_of(engine: Engine) -> ChatClient:
    assert isinstance(engine, ChatClient)
    return engine


# On llama.cpp


def zoomed(count: int) -> list[Sample]:
    """Questions for which the agent needs its tool, each about a scene of its own."""
    return [sample for sample in make_samples(6 * count, 11) if sample.tool_helps][:count]


async def trunk(agent: AgentModel, asked: Query, views: Sequence[View]) -> int:
    """Tokens of system prompt, tools and images alone."""
    system, user = agent.dialect.opening_messages(asked, views)
    images = [part for part in user["content"] if part["type"] == "image_url"]
    bare = ChatRequest(
        (system, {"role": "user", "content": images}), 1, tools=agent.dialect.tools, extra=agent.dialect.extra
    )
    counted: Completion = await agent.engine.complete(bare)
    async with httpx.AsyncClient(trust_env=False) as http:
        root = client_of(agent.engine).url.removesuffix("/v1")
        end = {"content": "<|im_end|>\n<|im_start|>assistant\n", "parse_special": True}
        after = len((await http.post(f"{root}/tokenize", json=end)).json()["tokens"])
    assert counted.usage.prompt_tokens is not None
    return counted.usage.prompt_tokens - after


@pytest.mark.parametrize(("copies", "slots"), [(1, 4), (1, 6), (2, 2)])
async def test_every_loop_goes_on_from_its_screening_and_every_turn_from_the_one_before(
    copies: int, slots: int
) -> None:
    samples, places = zoomed(8), asyncio.Semaphore(4)
    async with open_agent(load_settings(overrides={"agent.copies": copies, "agent.parallel": slots})) as agent:
        asked = samples[0].query()
        shared = await trunk(agent, asked, await look(asked.images, agent.dialect.limits))

        async def one(sample: Sample) -> tuple[Turn, ...]:
            async with places:
                asked = sample.query()
                views = await look(asked.images, agent.dialect.limits)
                await screen(asked, views, agent)
                return (await fall_back(asked, views, agent)).turns

        runs = await asyncio.gather(*map(one, samples))
    assert sum(len(turns) > 1 for turns in runs) >= 4, "the nano agent zooms"
    for turns in runs:
        assert (turns[0].usage.cached_tokens or 0) >= shared
        for before, turn in pairwise(turns):
            assert (turn.usage.cached_tokens or 0) >= (before.usage.prompt_tokens or 0)


async def test_further_questions_about_a_picture_find_it_in_the_drafts_cache() -> None:
    samples = make_samples(4, 12)
    async with open_draft(load_settings(overrides={"draft.parallel": 4})) as draft:

        async def ask(sample: Sample, question: str) -> int:
            asked = replace(sample.query(), question=question)
            found = await speculate(asked, await look(asked.images, draft.limits), draft)
            return found.usage.cached_tokens or 0

        await asyncio.gather(*(ask(sample, sample.question) for sample in samples))
        again = await asyncio.gather(*(ask(sample, "Is there a star?") for sample in reversed(samples)))
    assert min(again) >= draft.limits.tokens((192, 192))


# However it ends


class Placed:
    """Puts slots into the client of the agent, and keeps them at hand."""

    def __init__(self, count: int) -> None:
        self.leases = SlotLeases(count)

    def __call__(self, engine: Engine) -> Engine:
        if engine.model == "large":
            client_of(engine)._leases = self.leases
        return engine


def slots_of(large: Any, *, screening: bool) -> list[int]:
    return [request.json["id_slot"] for request in large.completions if is_screening(request.json) is screening]


@pytest.mark.parametrize("plan", list(Plan))
@pytest.mark.parametrize(("draft", "helps"), [(SURE, 0.1), (SURE, 0.9), (Status(500, "no"), 0.1)])
async def test_a_query_that_is_answered_gives_its_slot_back(plan: Plan, draft: Outcome, helps: float) -> None:
    placed = Placed(3)
    options: dict[str, Any] = {"guard": placed, "planner": Fixed(plan)}
    async with funnel_over(draft, agent_script(helps), **options) as (funnel, _, large):
        await funnel.answer(query())
        await large.wait_until(lambda: large.active == 0)
        assert placed.leases.held == 0
    turns = slots_of(large, screening=False)
    if plan in (Plan.PAPER, Plan.DRAFT_FIRST) and turns:
        assert {*turns, *slots_of(large, screening=True)} == {turns[0]}


async def test_many_queries_at_once_each_stay_in_their_slot() -> None:
    placed = Placed(8)

    def agent(request: dict[str, Any], n: int) -> Any:
        return agent_script(0.9, (Reply(CALL), Reply(ANSWER)))(request, n)

    async with funnel_over(SURE, agent, guard=placed, stateless=4, loops=4) as (funnel, _, large):
        await asyncio.gather(*(funnel.answer(replace(query(str(i)), question=f"Number {i}?")) for i in range(4)))
    used: dict[str, set[int]] = {}
    for request in large.completions:
        words = request.json["messages"][1]["content"][-1]["text"].split("?")[0]
        used.setdefault(words, set()).add(request.json["id_slot"])
    assert len(used) == 4
    assert sorted(map(len, used.values())) == [1, 1, 1, 1]
    assert len({slot for slots in used.values() for slot in slots}) == 4
    assert placed.leases.held == 0


@pytest.mark.parametrize("plan", list(Plan))
@pytest.mark.parametrize("slots", [1, 2])
async def test_few_slots_hold_nobody_up(plan: Plan, slots: int) -> None:
    """Queries that keep a slot wait for a draft, a place, or their own second call, and others wait for the slot."""
    placed = Placed(slots)

    async def agent(request: dict[str, Any], n: int) -> Outcome:
        await asyncio.sleep(0)
        return agent_script(0.1 + 0.8 * (n % 2))(request, n)  # type: ignore[return-value]

    options: dict[str, Any] = {"guard": placed, "planner": Fixed(plan), "stateless": 3, "loops": 2}
    async with funnel_over(Reply("B"), agent, **options) as (funnel, _, large):
        async with asyncio.timeout(60):
            answers = await funnel.answer_many([query(str(i)) for i in range(12)])
        await large.wait_until(lambda: large.active == 0)
        assert {answer.text for answer in answers} <= {"B", "agent says"}
        assert placed.leases.held == 0


@pytest.mark.parametrize("plan", [Plan.PAPER, Plan.PARALLEL, Plan.HEDGED, Plan.OFF])
@pytest.mark.parametrize("in_loop", [False, True])
async def test_a_query_that_is_cancelled_gives_its_slot_back(plan: Plan, in_loop: bool) -> None:
    placed = Placed(1 if plan is Plan.OFF else 2)

    def agent(request: dict[str, Any], n: int) -> Any:
        hangs = not is_screening(request) or not in_loop
        return Hang() if hangs else agent_script(0.9)(request, n)

    async with funnel_over(SURE, agent, guard=placed, planner=Fixed(plan)) as (funnel, _, large):
        asking = asyncio.create_task(funnel.answer(query()))
        await large.wait_for(2 if in_loop and plan is not Plan.OFF else 1)  # a hedge's loop waits for its screening
        assert placed.leases.held > 0
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        del asking
        await large.wait_until(lambda: large.active == 0)
        assert placed.leases.held == 0


async def test_a_query_that_fails_gives_its_slot_back() -> None:
    placed = Placed(1)
    async with funnel_over(SURE, Status(400, "no"), guard=placed) as (funnel, _, _large):
        with pytest.raises(EngineError):
            await funnel.answer(query())
        assert placed.leases.held == 0
