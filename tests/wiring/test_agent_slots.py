"""`speceyes.Agent` before a llama.cpp server with slots: each question keeps one, and gives it up when it is over."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

from speceyes import Agent, tool
from speceyes.engines.script import Outcome, Reply
from speceyes.engines.scripted import ScriptedServer
from speceyes.errors import ConfigError

PICTURE = Image.linear_gradient("L").resize((560, 280)).convert("RGB")
ANSWER = Reply("<think>I see it.</think>\n<answer>a van")


def call(name: str, **arguments: Any) -> Reply:
    body = json.dumps({"name": name, "arguments": arguments})
    return Reply(f"<think>Closer.</think>\n<tool_call>\n{body}\n</tool_call>")


ZOOM = call("image_zoom_in_tool", bbox_2d=[10, 10, 200, 200], label="van")


def together(count: int, script: Callable[[dict[str, Any]], Outcome]) -> Callable[[dict[str, Any], int], Any]:
    """A script that holds the first requests until so many are there."""
    all_there, came = asyncio.Barrier(count), itertools.count()

    async def held(request: dict[str, Any], n: int) -> Outcome:
        if next(came) < count:
            await all_there.wait()
        return script(request)

    return held


def slots_of(server: ScriptedServer) -> list[Any]:
    return [received.json.get("id_slot") for received in server.completions]


async def test_all_turns_of_a_question_go_to_one_slot_and_questions_beside_it_to_others() -> None:
    script = together(3, lambda request: ZOOM if len(request["messages"]) == 2 else ANSWER)
    async with ScriptedServer(script) as server, Agent(server.url, "scripted", slots=3) as agent:
        answers = await asyncio.gather(*(agent.answer(f"What is number {i}?", PICTURE) for i in range(3)))
        assert agent._leases is not None
        assert agent._leases.held == 0, "though the answers, and so the pictures, are still there"
        by_question: dict[str, set[int]] = {}
        for received in server.completions:
            text = json.dumps(received.json["messages"][1])
            by_question.setdefault(text, set()).add(received.json["id_slot"])
    assert [len(answer.turns) for answer in answers] == [2, 2, 2]
    assert sorted(map(len, by_question.values())) == [1, 1, 1]
    assert set.union(*by_question.values()) == {0, 1, 2}


async def test_a_further_question_finds_the_slot_of_its_conversation() -> None:
    together = asyncio.Barrier(3)

    async def script(request: dict[str, Any], n: int) -> Outcome:
        if len(request["messages"]) == 2:  # a first question: all three are there at once
            await together.wait()
        return ANSWER

    async with ScriptedServer(script) as server, Agent(server.url, "scripted", slots=3) as agent:
        turned = [PICTURE.rotate(angle, expand=True) for angle in (0, 90, 180)]
        answers = await asyncio.gather(*(agent.answer("What is it?", picture) for picture in turned))
        firsts = [(received.json["messages"][1], received.json["id_slot"]) for received in server.completions]
        assert {slot for _, slot in firsts} == {0, 1, 2}
        for answer in answers:
            await agent.answer("And its colour?", after=answer)
            asked = server.completions[-1].json
            assert (asked["messages"][1], asked["id_slot"]) in firsts


async def test_a_question_that_is_cancelled_between_two_calls_keeps_no_slot() -> None:
    called, hold = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_for_it() -> str:
        """Wait."""
        called.set()
        await hold.wait()
        return "done"

    replies = [call("wait_for_it")]
    async with ScriptedServer(replies) as server, Agent(server.url, "m", tools=[wait_for_it], slots=2) as agent:
        asking = asyncio.ensure_future(agent.answer("What is it?", PICTURE))
        await called.wait()
        assert agent._leases is not None
        assert agent._leases.held == 1
        asking.cancel()
        kept = await asyncio.gather(asking, return_exceptions=True)  # the error, and what its traceback leads to
        assert isinstance(kept[0], asyncio.CancelledError)
        assert agent._leases.held == 0


async def test_without_slots_the_server_chooses_and_so_it_does_for_another_event_loop() -> None:
    async with ScriptedServer(ANSWER) as server:
        async with Agent(server.url, "m") as agent:
            await agent.answer("What is it?", PICTURE)
        async with Agent(server.url, "m", slots=2) as agent:
            await asyncio.to_thread(agent.answer_sync, "What is it?", PICTURE)
            await agent.answer("What is it?", PICTURE)
        assert slots_of(server)[:2] == [None, None]
        assert slots_of(server)[2] is not None


@pytest.mark.parametrize("slots", [0, -1])
def test_a_server_without_slots_is_refused(slots: int) -> None:
    with pytest.raises(ConfigError, match="slots"):
        Agent("http://127.0.0.1:9", "m", slots=slots)


async def test_the_nano_agent_has_slots_of_its_own(nano_agent_server: object) -> None:
    async with Agent.nano(parallel=3) as agent:
        assert repr(agent._leases) == "SlotLeases(3, held=0, waiting=0)"
