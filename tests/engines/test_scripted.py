"""The scripted server itself, seen by a client that is not ours: the wire, the faults, the ledger."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from speceyes.engines.scripted import (
    Cut,
    Hang,
    Logprobs,
    Payloads,
    Reply,
    ScriptedServer,
    Status,
    token_reply,
)
from speceyes.types import ToolCall

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "What is it?"}]}
STREAM = ASK | {"stream": True, "stream_options": {"include_usage": True}}
WITH_LOGPROBS = ASK | {"logprobs": True, "top_logprobs": 5}


def http() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=10)


async def post(server: ScriptedServer, body: dict[str, Any], path: str = "/v1/chat/completions") -> httpx.Response:
    async with http() as client:
        return await client.post(server.url + path, json=body)


def events(response: httpx.Response) -> list[Any]:
    assert response.headers["content-type"] == "text/event-stream"
    payloads = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert payloads.pop() == "[DONE]"
    return [json.loads(payload) for payload in payloads]


async def test_whole_reply_and_stream() -> None:
    call = ToolCall("c1", "zoom", '{"bbox_2d": [1, 2, 3, 4]}')
    async with ScriptedServer(Reply("A black cat.", reasoning="I see", tool_calls=[call])) as server:
        whole = (await post(server, ASK)).json()
        chunks = events(await post(server, STREAM))
    message = whole["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("A black cat.", "I see")
    assert message["tool_calls"][0]["function"] == {"name": "zoom", "arguments": call.arguments}
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
    assert whole["usage"]["completion_tokens"] == 3
    assert "logprobs" not in whole["choices"][0]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert [delta["content"] for delta in deltas if "content" in delta] == ["A", " black", " cat."]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == whole["usage"]
    assert whole["model"] == chunks[0]["model"] == "m"


async def test_usage_only_where_it_was_asked_for() -> None:
    async with ScriptedServer([Reply("A"), Reply("A", usage=None), Reply("A", usage_on="each")]) as server:
        assert not any("usage" in chunk for chunk in events(await post(server, ASK | {"stream": True})))
        assert not any("usage" in chunk for chunk in events(await post(server, STREAM)))
        assert all("usage" in chunk for chunk in events(await post(server, STREAM)))


async def test_log_probs_as_asked() -> None:
    entry = token_reply(" cat", [(" dog", -3.0), (" cat", -0.1), *(-4.0 - n for n in range(9))])
    async with ScriptedServer(Reply(tokens=["A", entry])) as server:
        choice = (await post(server, WITH_LOGPROBS)).json()["choices"][0]
    assert choice["message"]["content"] == "A cat"
    first, second = choice["logprobs"]["content"]
    assert [len(first["top_logprobs"]), len(second["top_logprobs"])] == [5, 5]
    assert second["logprob"] == -0.1
    assert second["top_logprobs"][0] == {"token": " dog", "logprob": -3.0, "bytes": list(b" dog")}
    values = [rival["logprob"] for rival in first["top_logprobs"]]
    assert values[0] == max(values) == first["logprob"]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Logprobs.NULL, {"logprobs": None}),
        (Logprobs.MISSING, {}),
        (Logprobs.EMPTY, {"logprobs": {"content": []}}),
        (Logprobs.NULL_CONTENT, {"logprobs": {"content": None}}),
    ],
)
async def test_log_probs_dropped(form: Logprobs, expected: dict[str, Any]) -> None:
    async with ScriptedServer(Reply("A", logprobs=form)) as server:
        choice = (await post(server, WITH_LOGPROBS)).json()["choices"][0]
    assert {name: value for name, value in choice.items() if name == "logprobs"} == expected


async def test_log_probs_without_rivals() -> None:
    async with ScriptedServer(Reply("A", logprobs=Logprobs.NO_TOP)) as server:
        choice = (await post(server, WITH_LOGPROBS)).json()["choices"][0]
    assert choice["logprobs"]["content"][0]["top_logprobs"] == []


async def test_limit_on_log_probs() -> None:
    async with ScriptedServer([Reply("A")], max_top_logprobs=4) as server:
        refused = await post(server, WITH_LOGPROBS)
        served = await post(server, WITH_LOGPROBS | {"top_logprobs": 4})
    assert refused.status_code == 400
    assert "max allowed: 4" in refused.json()["error"]["message"]
    assert served.status_code == 200  # a refused request uses up none of the script
    async with ScriptedServer(Reply("A"), max_top_logprobs=4, above_limit="clip") as server:
        choice = (await post(server, WITH_LOGPROBS)).json()["choices"][0]
    assert len(choice["logprobs"]["content"][0]["top_logprobs"]) == 4


async def test_script_as_a_function() -> None:
    async def script(request: dict[str, Any], n: int) -> Reply | Status:
        return Reply(f"{n}: {request['messages'][0]['content']}") if n else Status(503, "busy", {"Retry-After": "7"})

    async with ScriptedServer(script) as server:
        first, second = await post(server, ASK), await post(server, ASK)
    assert (first.status_code, first.text, first.headers["retry-after"]) == (503, "busy", "7")
    assert second.json()["choices"][0]["message"]["content"] == "1: What is it?"


async def test_a_script_that_runs_out_fails_the_test() -> None:
    async def ask_twice() -> None:
        async with ScriptedServer([Reply("A")]) as server:
            await post(server, ASK)
            assert (await post(server, ASK)).status_code == 500

    with pytest.raises(IndexError, match="request 2 came, but the script has 1 answers"):
        await ask_twice()


async def test_other_paths() -> None:
    async with ScriptedServer(Reply("A"), models=("draft", "agent")) as server, http() as client:
        assert (await client.get(server.url + "/health")).json() == {"status": "ok"}
        rows = (await client.get(server.url + "/v1/models")).json()["data"]
        assert [row["id"] for row in rows] == ["draft", "agent"]
        assert (await client.get(server.url + "/v1/nope")).status_code == 404
        assert (await client.get(server.url + "/v1/chat/completions")).status_code == 404
        assert [request.path for request in server.requests][:2] == ["/health", "/v1/models"]


async def test_key() -> None:
    async with ScriptedServer(Reply("A"), api_key="right") as server, http() as client:
        url = server.url + "/v1/models"
        assert (await client.get(url)).status_code == 401
        assert (await client.get(url, headers={"Authorization": "Bearer right"})).status_code == 200


async def test_the_ledger_says_what_arrived() -> None:
    async with ScriptedServer(Reply("A")) as server, http() as client:
        for n in range(3):
            await client.post(server.url + "/v1/chat/completions", json=ASK | {"n": n}, headers={"X-Test": "yes"})
        await server.wait_until(lambda: server.active == 0)
        assert [request.json["n"] for request in server.completions] == [0, 1, 2]
        request = server.completions[0]
        assert (request.method, request.headers["x-test"], request.done) == ("POST", "yes", True)
        assert server.completions[0].when < server.completions[1].when
        assert not any(request.closed_by_client for request in server.requests)


@pytest.mark.parametrize("chunks", [0, 1])
async def test_hang_until_the_client_closes(chunks: int) -> None:
    async with ScriptedServer(Hang(Reply("A cat"), chunks)) as server:
        task = asyncio.create_task(post(server, STREAM))
        await server.wait_until(lambda: bool(server.completions) and server.completions[0].sent == chunks)
        assert (server.active, task.done()) == (1, False)
        task.cancel()
        await server.wait_until(lambda: server.active == 0)
        assert server.completions[0].closed_by_client


async def test_pace_holds_each_chunk_back() -> None:
    gate = asyncio.Semaphore(0)
    async with ScriptedServer(Reply("A black cat", pace=gate.acquire)) as server:
        task = asyncio.create_task(post(server, STREAM))
        await server.wait_for(1)
        for sent in (1, 2):
            gate.release()
            await server.wait_until(lambda sent=sent: server.completions[0].sent == sent)
        assert not task.done()
        for _ in range(3):
            gate.release()
        assert len(events(await task)) == 5  # three words, the end, the usage
        with pytest.raises(TimeoutError):
            await server.wait_for(2, timeout_s=0.01)


@pytest.mark.parametrize("cut", [Cut(), Cut(reset=True), Cut(Reply("A cat"), 1)])
async def test_cut(cut: Cut) -> None:
    async with ScriptedServer(cut) as server:
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            await post(server, STREAM)
        assert server.completions[0].sent == cut.chunks


async def test_payloads_go_out_as_they_are() -> None:
    async with ScriptedServer(Payloads(["{broken", {"error": {"message": "no"}}])) as server:
        assert (await post(server, STREAM)).text == 'data: {broken\n\ndata: {"error": {"message": "no"}}\n\n'


async def test_leaving_the_server_ends_what_is_under_way() -> None:
    async with ScriptedServer(Hang()) as server:
        task = asyncio.create_task(post(server, STREAM))
        await server.wait_for(1)
    with pytest.raises(httpx.RemoteProtocolError):
        await task
    assert server.active == 0


async def test_many_at_once_do_not_mix() -> None:
    async with ScriptedServer(lambda request, n: Reply(request["messages"][0]["content"])) as server:
        asked = [f"question {n}" for n in range(40)]
        async with http() as client:
            replies = await asyncio.gather(
                *(
                    client.post(
                        server.url + "/chat/completions",
                        json={"messages": [{"role": "user", "content": text}]},
                    )
                    for text in asked
                )
            )
    assert [reply.json()["choices"][0]["message"]["content"] for reply in replies] == asked


def test_a_server_that_does_not_run_has_no_url() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        _ = ScriptedServer(Reply("A")).url
