"""Text as it arrives: all of it, once, and before the end."""

import asyncio
from typing import Any

import pytest

from speceyes.engines.client import ChatClient
from speceyes.engines.script import Cut, Outcome, Payloads, Reply, Status
from speceyes.engines.scripted import ScriptedServer
from speceyes.errors import EngineError
from speceyes.types import ChatRequest, Completion, Delta, ToolCall

REQUEST = ChatRequest(({"role": "user", "content": "?"},), 8)
PARTS = {"type": "text", "text": "A cat"}, {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}


async def hear(script: Any, request: ChatRequest = REQUEST, **options: Any) -> tuple[list[Delta], Completion]:
    heard: list[Delta] = []
    async with ScriptedServer(script) as server, ChatClient(server.url, "m", timeout_s=30, **options) as client:
        completion = await client.complete(request, on_delta=heard.append)
    return heard, completion


@pytest.mark.parametrize(
    "reply",
    [
        Reply("a cat sat on a mat"),
        Reply("a cat sat", reasoning="It looks like one."),
        Reply("a cat sat", stream=False),
        Reply("a cat sat", reasoning="hm", stream=False),
        Reply("", tool_calls=[ToolCall("1", "zoom", "{}")]),
        Reply("猫がいる", per_chunk=3),
        Payloads([{"choices": [{"delta": {"content": list(PARTS)}, "finish_reason": "stop"}]}, "[DONE]"]),
    ],
)
async def test_the_pieces_make_up_the_whole(reply: Outcome) -> None:
    heard, completion = await hear(reply)
    assert "".join(delta.text for delta in heard) == completion.text
    assert "".join(delta.reasoning for delta in heard) == completion.reasoning
    assert all(delta.text or delta.reasoning for delta in heard)


async def test_a_piece_is_heard_before_the_next_is_sent() -> None:
    heard: list[str] = []
    more = asyncio.Semaphore(1)

    def listen(delta: Delta) -> None:
        heard.append(delta.text)
        more.release()

    # Each chunk waits for the one before it to be heard; the last two carry no text.
    scripted = ScriptedServer(Reply("one two three", pace=more.acquire))
    async with scripted as server, ChatClient(server.url, "m", timeout_s=30) as client:
        task = asyncio.create_task(client.complete(REQUEST, on_delta=listen))
        await server.wait_until(lambda: server.completions != [] and server.completions[0].sent >= 3)
        more.release()
        more.release()
        await task
    assert heard == ["one", " two", " three"]


async def test_what_was_heard_is_never_said_again() -> None:
    heard: list[Delta] = []
    script = [Status(503, "busy"), Cut(Reply("one two three"), 2), Reply("one two three")]
    async with ScriptedServer(script) as server, ChatClient(server.url, "m", backoff_s=0.001) as client:
        with pytest.raises(EngineError, match="broke"):
            await client.complete(REQUEST, on_delta=heard.append)
    assert "".join(delta.text for delta in heard) == "one two"
    assert len(server.completions) == 2


async def test_a_listener_that_raises_ends_the_call() -> None:
    def listen(delta: Delta) -> None:
        raise RuntimeError("not interested")

    gate = asyncio.Semaphore(1)
    scripted = ScriptedServer(Reply("one two three", pace=gate.acquire))
    async with scripted as server, ChatClient(server.url, "m") as client:
        with pytest.raises(RuntimeError, match="not interested"):
            await client.complete(REQUEST, on_delta=listen)
        await server.wait_until(lambda: server.active == 0)
    assert server.completions[0].closed_by_client
