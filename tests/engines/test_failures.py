"""What went wrong on the wire, and its error: the kind, the server's own words, and never the key."""

import asyncio
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

import pytest

from speceyes.engines.client import ChatClient
from speceyes.engines.failures import LogprobLimit, retry_after, server_message
from speceyes.engines.scripted import (
    Cut,
    Outcome,
    Payloads,
    Reply,
    ScriptedServer,
    Status,
)
from speceyes.errors import (
    ConfigError,
    EngineError,
    EngineOverloaded,
    EngineProtocolError,
    EngineRefused,
    EngineTimeout,
    EngineUnreachable,
)
from speceyes.types import ChatRequest, Completion

KEY = "sk-very-secret"
CHUNK = {"choices": [{"delta": {"content": "A"}}]}
MESSAGES = ({"role": "user", "content": "What is it?"},)


def ask(**fields: Any) -> ChatRequest:
    return ChatRequest(**{"messages": MESSAGES, "max_tokens": 16, **fields})


def client_of(server: ScriptedServer, **options: Any) -> ChatClient:
    return ChatClient(server.url, "m", **{"timeout_s": 10, "backoff_s": 0.001, **options})


async def complete(answer: Any, request: ChatRequest | None = None, **options: Any) -> Completion:
    async with ScriptedServer(answer) as server, client_of(server, **options) as client:
        return await client.complete(request or ask())


async def failure(answer: Outcome, request: ChatRequest | None = None, **options: Any) -> EngineError:
    """The error of a call that is not retried."""
    with pytest.raises(EngineError) as caught:
        await complete(answer, request, **{"retries": 0, **options})
    return caught.value


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (Status(400, {"error": {"message": "too long"}}), EngineRefused, "HTTP 400: too long"),
        (Status(400, {"object": "error", "message": "too long"}), EngineRefused, "HTTP 400: too long"),
        (Status(401, {"error": "who are you"}), EngineRefused, "HTTP 401: who are you"),
        (Status(404, {"error": {"message": "no model `m`"}}), EngineRefused, "HTTP 404: no model `m`"),
        (
            Status(422, {"detail": [{"loc": ["body", "stop"], "msg": "not a list"}]}),
            EngineRefused,
            "HTTP 422: body.stop: not a list",
        ),
        (Status(307, "", {"Location": "https://h/"}), EngineRefused, "redirects to https://h/"),
        (Status(408, "slow"), EngineTimeout, "HTTP 408: slow"),
        (Status(429, "wait\nplease"), EngineOverloaded, "HTTP 429: wait please"),
        (
            Status(503, "<html><head><title>503 Busy</title></head><body>x</body></html>"),
            EngineOverloaded,
            "HTTP 503: 503 Busy",
        ),
        (
            Status(500, {"error": {"message": '{"error": {"message": "out of memory"}}'}}),
            EngineProtocolError,
            "HTTP 500: out of memory",
        ),
        (
            Status(502, "<!DOCTYPE html><h1>Bad &amp; worse</h1>"),
            EngineProtocolError,
            "HTTP 502: Bad & worse",
        ),
        (Status(500), EngineProtocolError, "HTTP 500"),
        (Status(200, {"error": {"message": "no slot"}}), EngineProtocolError, "no slot"),
        (Status(200, {"choices": []}), EngineProtocolError, "no choices"),
        (Status(200, "<html>login</html>"), EngineProtocolError, "broken JSON"),
        (Status(200), EngineProtocolError, "broken JSON"),
        (Payloads([CHUNK, {"error": {"message": "no slot"}}]), EngineProtocolError, "no slot"),
        (Payloads([{"code": 500, "message": "it is full"}]), EngineProtocolError, "it is full"),
        (Payloads([{"object": "error", "message": "too long"}]), EngineProtocolError, "too long"),
        (Payloads([CHUNK, '{"choices": [{"del']), EngineProtocolError, "broken JSON"),
        (Payloads([CHUNK, "[DONE]"]), EngineProtocolError, "no finish_reason"),
        (Payloads([CHUNK]), EngineUnreachable, "broke off before its end, after 1 char"),
        (Payloads([]), EngineUnreachable, "broke off before its end, after 0 char"),
        (Cut(), EngineUnreachable, "the connection broke"),
        (Cut(reset=True), EngineUnreachable, "the connection broke"),
        (Cut(Reply("A cat"), chunks=1), EngineUnreachable, "the connection broke"),
    ],
)
async def test_each_fault_has_its_error(answer: Outcome, kind: type[EngineError], message: str) -> None:
    error = await failure(answer, name="draft")
    assert type(error) is kind
    assert message in str(error)
    assert str(error).startswith("draft at 127.0.0.1:")
    if isinstance(answer, Status) and answer.code != 200:
        assert error.status == answer.code


async def test_no_server() -> None:
    async with ScriptedServer([]) as server:
        url = server.url
    async with ChatClient(url, "m", retries=0) as client:
        with pytest.raises(EngineUnreachable, match="cannot connect"):
            await client.complete(ask())
        with pytest.raises(EngineUnreachable, match="cannot connect"):
            await client.models()


async def test_something_else_than_http_on_the_port() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        async with ChatClient(f"http://127.0.0.1:{port}", "m", retries=0) as client:
            with pytest.raises(EngineProtocolError, match="not readable HTTP"):
                await client.complete(ask())


@pytest.mark.parametrize("limit", [5, 20])
async def test_k_above_the_servers_limit_names_limit_and_flag(limit: int) -> None:
    async with ScriptedServer([], max_top_logprobs=limit) as server, client_of(server, retries=5) as client:
        with pytest.raises(LogprobLimit) as caught:
            await client.complete(ask(top_logprobs=64))
        assert len(server.completions) == 1  # an error in the configuration is never retried
    error = caught.value
    assert isinstance(error, EngineRefused)
    assert (error.asked, error.limit, error.status) == (65, limit, 400)
    assert f"allows {limit}, which is enough for K = {limit - 1}" in str(error)
    assert "--max-logprobs 65" in str(error)


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        ("Invalid 'top_logprobs': integer above maximum value. Expected <= 20, but got 65 instead.", 20),
        ("qwen3-2b: top_logprobs must be between 0 and 5", 5),
        ("This model does not support logprobs", None),
    ],
)
async def test_other_words_for_the_limit(said: str, limit: int | None) -> None:
    error = await failure(Status(400, {"error": {"message": said}}), ask(top_logprobs=64))
    assert isinstance(error, LogprobLimit)
    assert error.limit == limit
    assert said in str(error)


async def test_a_stream_that_vllm_begins_and_then_refuses() -> None:
    """Byte for byte what vLLM 0.32 sends, with status 200, where `top_logprobs` is above its `--max-logprobs`."""
    said = "Requested sample logprobs of 66, which is greater than max allowed: 65 (parameter=logprobs, value=66)"
    event = f'{{"error": {{"message": "{said}", "type": "BadRequestError", "param": "logprobs", "code": 400}}}}'
    async with ScriptedServer(Payloads([event, "[DONE]"])) as server, client_of(server, retries=5) as client:
        with pytest.raises(LogprobLimit) as caught:
            await client.complete(ask(top_logprobs=65))
        assert len(server.completions) == 1
    error = caught.value
    assert (error.asked, error.limit, error.status, error.misconfigured) == (66, 65, 400, True)
    assert type(await failure(Payloads([event, "[DONE]"]), ask())) is EngineProtocolError, "none were asked for"


async def test_a_400_that_only_repeats_the_request_is_not_about_log_probs() -> None:
    said = "messages: field required, input: {'top_logprobs': 65, \"logprobs\": true}"
    assert type(await failure(Status(400, said), ask(top_logprobs=64))) is EngineRefused


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: Mapping[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=1_000_000) == seconds


async def test_retry_after_reaches_the_caller() -> None:
    error = await failure(Status(429, "slow down", {"Retry-After": "7"}))
    assert (error.retry_after, error.status) == (7.0, 429)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", ""),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"{}", ""),
        (b'{"code": 5}', '{"code": 5}'),
        (b'"plain"', "plain"),
        (b"[" * 100_000, "[" * 399 + "…"),
        (b'{"error": {"error": {"message": "deep"}}}', "deep"),
        (b"a < b", "a < b"),
    ],
)
def test_messages_of_servers(body: bytes, message: str) -> None:
    assert server_message(body) == message


# The key


async def test_the_key_is_in_no_message_and_no_repr() -> None:
    for answer in (
        Status(401, f"bad header: Bearer {KEY}"),
        Status(500, {"error": {"message": f"key {KEY}"}}),
        Status(200, {"error": {"message": f"key {KEY}"}}),
        Status(307, "", {"Location": f"https://h/?key={KEY}"}),
        Status(200, f"broken {KEY}"),
        Payloads([f"broken {KEY}"]),
    ):
        error = await failure(answer, api_key=KEY)
        assert "***" in str(error)
        assert KEY not in repr(error)
    client = ChatClient("http://user:pass@h/", "m", api_key=KEY)
    assert repr(client) == "ChatClient('http://h/v1', model='m')"


@pytest.mark.parametrize("key", ["sk-a\n", "sk a", "schlüssel"])
def test_a_key_that_fits_no_header_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="API key") as caught:
        ChatClient("http://h", "m", api_key=key)
    assert key.strip() not in str(caught.value)
