"""Trace headers: only well-formed ones go on, each request's to its own calls."""

import asyncio

import pytest

from speceyes.engines.client import ChatClient
from speceyes.engines.scripted import Reply, ScriptedServer
from speceyes.engines.trace_context import carry, incoming, upstream_headers
from speceyes.types import ChatRequest

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        PARENT.upper(),
        PARENT + "\r\nx-evil: 1",
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01",
        "ff" + PARENT[2:],
    ],
)
def test_what_is_no_trace_is_left_out(parent: str) -> None:
    assert incoming({"traceparent": parent, "tracestate": "a=b"}) == {}


def test_a_trace_is_taken_as_it_is() -> None:
    assert incoming({"traceparent": PARENT}) == {"traceparent": PARENT}
    assert incoming({"traceparent": PARENT, "tracestate": "a=b,c=d"})["tracestate"] == "a=b,c=d"
    assert "tracestate" not in incoming({"traceparent": PARENT, "tracestate": "a=b\nc"})
    assert "tracestate" not in incoming({"traceparent": PARENT, "tracestate": "x" * 513})


async def test_each_task_sends_its_own() -> None:
    parents = [PARENT.replace("4bf9", f"{i:04x}") for i in range(8)]

    async def ask(client: ChatClient, parent: str) -> None:
        carry({"traceparent": parent})
        await asyncio.sleep(0)
        await client.complete(ChatRequest(({"role": "user", "content": parent},), 4))

    async with ScriptedServer(Reply("A")) as server, ChatClient(server.url, "m", api_key="k") as client:
        await asyncio.gather(*(ask(client, parent) for parent in parents))
        await client.complete(ChatRequest(({"role": "user", "content": "none"},), 4))
        for call in server.completions:
            said = call.json["messages"][0]["content"]
            assert call.headers.get("traceparent", "none") == said
            assert call.headers["authorization"] == "Bearer k"
    assert upstream_headers() == {}
