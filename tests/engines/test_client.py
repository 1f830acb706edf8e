"""The client against real sockets: what it sends and gets, retries, time-outs, cancelling, many calls."""

import asyncio
import math
import time
from typing import Any

import pytest

from speceyes.engines.client import ChatClient, Engine
from speceyes.engines.logprobs import answer_tokens
from speceyes.engines.scripted import (
    Cut,
    Hang,
    Logprobs,
    Outcome,
    Payloads,
    Reply,
    ScriptedServer,
    Status,
    token_reply,
)
from speceyes.engines.wire import api_base
from speceyes.errors import (
    EngineError,
    EngineOverloaded,
    EngineRefused,
    EngineTimeout,
    InputError,
)
from speceyes.types import ChatRequest, Completion, Reason, ToolCall, Usage

KEY = "sk-very-secret"
COUNTS = {"prompt_tokens": 50, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 40}}
MESSAGES = ({"role": "user", "content": "What is it?"},)


def ask(**fields: Any) -> ChatRequest:
    return ChatRequest(**{"messages": MESSAGES, "max_tokens": 16, **fields})


def client_of(server: ScriptedServer, **options: Any) -> ChatClient:
    return ChatClient(server.url, "m", **{"timeout_s": 10, "backoff_s": 0.001, **options})


async def complete(answer: Any, request: ChatRequest | None = None, **options: Any) -> Completion:
    async with ScriptedServer(answer) as server, client_of(server, **options) as client:
        return await client.complete(request or ask())


# What goes out


async def test_what_arrives_at_the_server() -> None:
    async with ScriptedServer(Reply("A"), api_key=KEY) as server:
        for url in (server.url, server.url + "/", server.url + "/v1", server.url + "/v1/"):
            async with ChatClient(url, "m", api_key=KEY) as client:
                await client.complete(ask(messages=({"role": "user", "content": "猫 \ud83d"},)))
    assert len(server.completions) == 4
    assert server.completions[0].json["messages"][0]["content"] == "猫 \ud83d"


async def test_a_proxy_in_the_environment_does_not_get_what_is_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedServer([]) as proxy, ScriptedServer(Reply("A")) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        async with client_of(server) as client:
            assert (await client.complete(ask())).text == "A"
        assert proxy.requests == []


async def test_a_request_that_is_no_json_is_the_callers_fault() -> None:
    async with ScriptedServer([]) as server, client_of(server) as client:
        for extra in ({"x": object()}, {"x": math.nan}):
            with pytest.raises(InputError, match="JSON"):
                await client.complete(ask(extra=extra))
        assert server.requests == []


# What comes back


async def test_a_completion() -> None:
    call = ToolCall("c", "zoom", '{"bbox_2d": []}')
    reply = Reply("A black cat", reasoning="I see", tool_calls=[call], usage=COUNTS, model="m-2")
    begin = time.perf_counter()
    completion = await complete(reply)
    took = time.perf_counter() - begin
    assert (completion.text, completion.reasoning, completion.model) == ("A black cat", "I see", "m-2")
    assert (completion.finish_reason, completion.tool_calls) == ("tool_calls", (call,))
    assert completion.usage == Usage(50, 3, 40, calls=1)
    assert completion.tokens == ()
    assert completion.first_token_s is not None
    assert 0 < completion.first_token_s <= completion.seconds <= took


@pytest.mark.parametrize("stream", [True, False])
async def test_k_log_probs_best_first_though_the_sampled_one_comes_first(stream: bool) -> None:
    # vLLM's list: the sampled token, then the best, cut to the number that was asked for.
    rivals = [("z", -9.0), ("a", -1.0), ("b", -2.0), ("c", -3.0), ("d", -4.0), ("e", -5.0)]
    reply = Reply(tokens=[token_reply("z", rivals)], stream=stream)
    completion = await complete(reply, ask(top_logprobs=4))
    (token,) = completion.tokens
    assert token.top_tokens == ("a", "b", "c", "d")
    assert (token.text, token.logprob) == ("z", -9.0)


async def test_fewer_log_probs_than_asked_stay_fewer() -> None:
    async with (
        ScriptedServer(Reply("A"), max_top_logprobs=20, above_limit="clip") as server,
        client_of(server) as client,
    ):
        (token,) = (await client.complete(ask(top_logprobs=64))).tokens
    assert len(token.top_logprobs) == 20


@pytest.mark.parametrize("form", [form for form in Logprobs if form is not Logprobs.GIVEN])
@pytest.mark.parametrize("stream", [True, False])
async def test_log_probs_dropped_with_a_200(form: Logprobs, stream: bool) -> None:
    completion = await complete(Reply("A cat", logprobs=form, stream=stream), ask(top_logprobs=5))
    assert completion.text == "A cat"
    assert answer_tokens(completion)[1] is Reason.LOGPROBS_MISSING


async def test_values_that_strict_json_does_not_know() -> None:
    entry = token_reply("A", [-0.1, -math.inf, math.nan, -9999.0])
    (token,) = (await complete(Reply(tokens=[entry]), ask(top_logprobs=4))).tokens
    assert token.top_logprobs[:2] == (-0.1, -9999.0)
    assert sorted(map(str, token.top_logprobs[2:])) == ["-inf", "nan"]


async def test_a_server_that_does_not_stream() -> None:
    completion = await complete(Reply("A cat", stream=False, usage=COUNTS), ask(top_logprobs=3))
    assert (completion.text, completion.finish_reason) == ("A cat", "stop")
    assert completion.usage == Usage(50, 3, 40, calls=1)
    assert completion.first_token_s is None
    assert answer_tokens(completion)[1] is None


async def test_a_stream_under_another_content_type() -> None:
    body = 'data: {"choices": [{"delta": {"content": "A"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    assert (await complete(Status(200, body))).text == "A"


async def test_llama_cpps_timings_tell_what_was_cached() -> None:
    reply = Reply("A", usage=None, fields={"timings": {"cache_n": 90, "prompt_n": 10, "predicted_n": 1}})
    assert (await complete(reply)).usage == Usage(100, 1, 90, calls=1)


CHUNK = {"choices": [{"delta": {"content": "A"}}]}
END = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


async def test_a_stream_without_done_is_whole_when_it_gave_its_reason() -> None:
    assert (await complete(Payloads([CHUNK, END]))).text == "A"


async def test_a_connection_that_breaks_before_the_usage_has_still_answered() -> None:
    completion = await complete(Cut(Reply("A cat"), chunks=3))
    assert (completion.text, completion.usage) == ("A cat", Usage(None, None, None, calls=1))


async def test_models() -> None:
    async with ScriptedServer([], models=("draft", "agent")) as server, client_of(server) as client:
        assert await client.models() == ["draft", "agent"]


# Retries


@pytest.mark.parametrize(
    "fault",
    [
        Status(503),
        Status(429, "", {"Retry-After": "0"}),
        Status(500),
        Cut(),
        Payloads([]),
        Payloads(["{broken"]),
        Status(200, {"error": "no slot"}),
        Status(200, "<html>try again</html>"),
    ],
)
async def test_retried_until_it_works(fault: Outcome) -> None:
    async with ScriptedServer([fault, fault, Reply("A")]) as server, client_of(server, retries=2) as client:
        completion = await client.complete(ask())
        assert len(server.completions) == 3
        assert server.completions[0].json == server.completions[2].json
    assert completion.text == "A"
    assert completion.usage.calls == 3


async def test_no_more_attempts_than_allowed() -> None:
    async with ScriptedServer(Status(503, "busy")) as server, client_of(server, retries=2) as client:
        with pytest.raises(EngineOverloaded, match=r"\(attempt 3\): HTTP 503: busy"):
            await client.complete(ask())
        assert len(server.completions) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 422, 307])
async def test_a_wrong_request_is_not_retried(status: int) -> None:
    async with ScriptedServer(Status(status)) as server, client_of(server, retries=5) as client:
        with pytest.raises(EngineRefused):
            await client.complete(ask())
        assert len(server.completions) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Cut(Reply("A cat"), chunks=1),
        Cut(Reply(reasoning="I see"), chunks=1),
        Cut(Reply(tool_calls=[ToolCall("c", "zoom", "{}")]), chunks=1),
        Payloads([CHUNK]),
        Payloads([CHUNK, {"error": {"message": "no"}}]),
        Payloads([CHUNK, "{broken"]),
        Status(200, '{"choices": [{"message": {"content": "A"'),
        Status(200, '{"choices": [', {"Content-Length": "500"}),
    ],
)
async def test_never_again_after_the_first_token(fault: Outcome) -> None:
    async with ScriptedServer(fault) as server, client_of(server, retries=5) as client:
        with pytest.raises(EngineError):
            await client.complete(ask())
        assert len(server.completions) == 1


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        (Status(429, "", {"Retry-After": "5"}), {"timeout_s": 4}),
        (Status(500), {"timeout_s": 4, "backoff_s": 20}),
    ],
)
async def test_a_pause_that_would_break_the_time_limit_is_not_begun(fault: Status, options: dict[str, float]) -> None:
    # Begun, the pause would end in an EngineTimeout, which knows of no status.
    async with ScriptedServer(fault) as server, client_of(server, **options) as client:
        with pytest.raises(EngineError, match=f"HTTP {fault.code}"):
            await client.complete(ask())


async def test_a_server_that_asks_for_a_long_pause_is_not_waited_for() -> None:
    async with ScriptedServer(Status(503, "", {"Retry-After": "3600"})) as server:
        async with client_of(server, timeout_s=10_000) as client:
            with pytest.raises(EngineOverloaded) as caught:
                await client.complete(ask())
        assert len(server.completions) == 1
    assert caught.value.retry_after == 3600


async def test_retry_after_is_waited_for() -> None:
    script = [Status(503, "", {"Retry-After-Ms": "80"}), Reply("A")]
    async with ScriptedServer(script) as server, client_of(server) as client:
        await client.complete(ask())
        first, second = server.completions
    assert second.when - first.when >= 0.08


# Time-outs and cancelling


@pytest.mark.parametrize(
    ("answer", "message"),
    [(Hang(), "no token had arrived"), (Hang(Reply("A cat"), chunks=1), "the answer was begun")],
)
async def test_time_out(answer: Outcome, message: str) -> None:
    async with ScriptedServer(answer) as server, client_of(server, timeout_s=1, retries=3) as client:
        with pytest.raises(EngineTimeout, match=message):
            await client.complete(ask())
        # The slow call is gone, and it was not asked again beside it.
        await server.wait_until(lambda: server.active == 0)
        assert [request.closed_by_client for request in server.completions] == [True]


async def test_the_limit_covers_all_attempts() -> None:
    with pytest.raises(EngineTimeout, match=r"\(attempt 3\).* 1 s"):
        await complete([Status(503), Status(503), Hang()], timeout_s=1, retries=5)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Hang(), id="before the first byte"),
        pytest.param(Hang(Reply("A cat"), chunks=1), id="in the stream"),
        pytest.param(Reply("A cat", stream=False, pace=lambda: asyncio.Event().wait()), id="without a stream"),
    ],
)
async def test_a_cancel_reaches_the_server(answer: Outcome) -> None:
    chunks = answer.chunks if isinstance(answer, Hang) else 0
    async with ScriptedServer(answer) as server, client_of(server) as client:
        task = asyncio.create_task(client.complete(ask()))
        await server.wait_until(lambda: bool(server.completions) and server.completions[0].sent == chunks)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_until(lambda: server.active == 0)
        assert server.completions[0].closed_by_client


async def test_a_cancel_in_the_pause_before_a_retry() -> None:
    async with ScriptedServer(Status(503)) as server, client_of(server, backoff_s=8) as client:
        task = asyncio.create_task(client.complete(ask()))
        await server.wait_until(lambda: bool(server.completions) and server.active == 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(server.completions) == 1


# Many calls


async def test_calls_do_not_mix_and_connections_are_bounded_and_used_again() -> None:
    running = most = 0

    async def script(request: dict[str, Any], n: int) -> Reply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return Reply(request["messages"][0]["content"])

    async with ScriptedServer(script) as server, client_of(server, max_connections=4) as client:
        texts = [f"question {n}" for n in range(40)]
        completions = await asyncio.gather(
            *(client.complete(ask(messages=({"role": "user", "content": text},))) for text in texts)
        )
        addresses = {request.client for request in server.completions}
    assert [completion.text for completion in completions] == texts
    assert most <= 4
    assert len(addresses) == 4


async def test_a_call_that_waits_for_a_connection_can_be_cancelled() -> None:
    async with ScriptedServer([Hang(), Reply("A")]) as server, client_of(server, max_connections=1) as client:
        first = asyncio.create_task(client.complete(ask()))
        await server.wait_for(1)
        second, third = (asyncio.create_task(client.complete(ask())) for _ in range(2))
        await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        assert (await third).text == "A"
        assert len(server.completions) == 2


async def test_a_server_that_leaves_the_connection_open_after_done_does_not_hold_the_answer() -> None:
    gate = asyncio.Semaphore(3)
    stuck = Payloads([CHUNK, END, "[DONE]", ": never"], pace=gate.acquire)
    async with ScriptedServer(stuck) as server, client_of(server, timeout_s=5) as client:
        completion = await client.complete(ask())
        assert completion.text == "A"
        assert completion.seconds < 5
        await server.wait_until(lambda: server.active == 0)


def test_one_client_in_several_event_loops() -> None:
    client = ChatClient("http://127.0.0.1:9", "m")

    async def once() -> str:
        async with ScriptedServer(Reply("A")) as server:
            client.url = api_base(server.url)
            return (await client.complete(ask())).text

    assert [asyncio.run(once()) for _ in range(3)] == ["A", "A", "A"]


async def test_a_closed_client_can_be_used_again() -> None:
    async with ScriptedServer(Reply("A")) as server:
        client = client_of(server)
        for _ in range(2):
            assert (await client.complete(ask())).text == "A"
            await client.aclose()
        await client.aclose()


def test_it_is_an_engine() -> None:
    engine: Engine = ChatClient("http://h", "m")
    assert engine.model == "m"
