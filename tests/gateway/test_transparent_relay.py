"""What passes through transparent mode, byte by byte, both ways."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from gateway_server import Running, events, image_part, running, text_part, user
from recording_upstream import Pieces, RecordingUpstream, recording, sse, whole

KEY = "upstream-secret-key"
CHUNK = b'data: {"id":"x", "choices":[ {"index":0,"delta":{"content":"\xc3\xa9\\u00e9"},"finish_reason":null}]}\n\n'
CALL = b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"z"}}]}}],"x":1.0e0}\r\n\r\n'
END = b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5}}\n\n'
DONE = b"data: [DONE]\n\n"
BODY = b'{ "choices":[{"message":{"content":"8"},"finish_reason":"stop"}],"usage":null,"odd":[1.50,"\\u0041"]}'
LATER: list[dict[str, Any]] = [
    user(image_part(), text_part("What?")),
    {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "z", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "cropped"},
]


@asynccontextmanager
async def passing(reply: tuple[str, Pieces], **settings: Any) -> AsyncIterator[tuple[Running, RecordingUpstream]]:
    async with recording(lambda body: reply) as upstream:
        chosen = {"agent.url": upstream.url, "agent.model": "large", "agent.api_key": KEY}
        async with running(settings=chosen | settings) as served:
            yield served, upstream


async def sent(served: Running, body: bytes) -> tuple[Any, bytes]:
    """The response, and its body as it came."""
    headers = {"content-type": "application/json", "authorization": "Bearer the-clients-key"}
    reply = await served.http.post(f"{served.url}/chat/completions", content=body, headers=headers)
    return reply, reply.content


def written(stream: bool = False) -> bytes:
    """A later turn, as odd as JSON allows, with fields that nobody knows."""
    messages = json.dumps(LATER, indent=1, ensure_ascii=False)
    mode = ' "stream"\t:true,' if stream else ""
    return (
        f'\n{{ "tools": [{{"type":"function"}}],{mode} "messages":{messages},\n'
        '"temperature": 1.0e-1 , "model" : "speceyes", "foo" : {"\\u0062": [1,  2.50]}, "store":true,'
        ' "speceyes": {"trace": true}, "n": 2 }\n'
    ).encode()


def as_passed(body: bytes) -> bytes:
    return body.replace(b'"model" : "speceyes"', b'"model" : "large"').replace(b', "speceyes": {"trace": true}', b"")


async def test_a_request_passes_byte_by_byte_but_for_the_models_name() -> None:
    async with passing(whole(BODY)) as (served, upstream):
        reply, body = await sent(served, written())
        assert (reply.status_code, body) == (200, BODY)
        (request,) = upstream.requests
        assert request.body == as_passed(written().replace(b' "speceyes": {"trace": true},', b""))


async def test_so_does_a_streamed_one_and_its_stream() -> None:
    pieces = (b": comment\n\n" + CHUNK[:40], CHUNK[40:] + CALL, b"event: x\n", b"id: 7\n" + END, DONE)
    async with passing(sse(*pieces)) as (served, upstream):
        reply, body = await sent(served, written(stream=True))
        assert body == b"".join(pieces)
        assert upstream.requests[0].body == as_passed(
            written(stream=True).replace(b' "speceyes": {"trace": true},', b"")
        )
        assert reply.headers["content-type"] == "text/event-stream"
        assert (reply.headers["x-speceyes-route"], reply.headers["x-speceyes-reason"]) == ("agent", "later_turn")


async def test_each_event_goes_on_as_soon_as_it_is_whole() -> None:
    async with passing(sse(CHUNK + CALL[:20], CALL[20:], END + DONE)) as (served, _):
        request = served.http.stream("POST", f"{served.url}/chat/completions", content=written(stream=True))
        async with request as reply:
            pieces = [piece async for piece in reply.aiter_raw()]
        assert b"".join(pieces) == CHUNK + CALL + END + DONE
        assert all(piece.endswith((b"\n\n", b"\r\n\r\n")) for piece in pieces), "no half events"


async def test_the_clients_key_and_headers_stay_here_and_the_servers_own_are_not_shown() -> None:
    head = (
        "x-request-id: abc\r\nx-ratelimit-remaining: 4\r\nset-cookie: a=b\r\naccess-control-allow-origin: *\r\n"
        "keep-alive: timeout=5\r\nx-hop: 1\r\nserver: them\r\nx-speceyes-route: draft\r\n"
    )
    async with passing(whole(BODY, head=head)) as (served, upstream):
        reply, _ = await sent(served, written())
        (request,) = upstream.requests
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert "the-clients-key" not in str(request.headers) + request.body.decode()
        assert (reply.headers["x-request-id"], reply.headers["x-ratelimit-remaining"]) == ("abc", "4")
        assert reply.headers["x-speceyes-route"] == "agent"
        dropped = {"set-cookie", "access-control-allow-origin", "keep-alive", "server", "transfer-encoding"}
        assert not dropped & set(reply.headers)


@pytest.mark.parametrize("status", ["400 Bad Request", "429 Too Many", "500 Oops"])
async def test_an_error_passes_in_its_own_bytes_without_our_key(status: str) -> None:
    body = b'{"error" : {"message":"no: Bearer upstream-secret-key", "code":null}, "x":1.0}'
    async with passing(whole(body, status, head="retry-after: 7\r\n")) as (served, _):
        reply, said = await sent(served, written())
        assert reply.status_code == int(status[:3])
        assert said == body.replace(KEY.encode(), b"***")
        assert reply.headers["retry-after"] == "7"


async def test_a_key_in_an_error_that_is_told_as_ours_is_masked_too() -> None:
    async with passing(whole(b'{"error":{"message":"bad key upstream-secret-key"}}', "401 No")) as (served, _):
        reply, said = await sent(served, written())
        assert reply.status_code == 502
        assert KEY.encode() not in said


CUTS: dict[str, tuple[tuple[str, Pieces], bytes, str]] = {
    "in the middle of an event": (sse(CHUNK, CALL[:30]), CHUNK, "upstream_unreachable"),
    "between events": (sse(CHUNK), CHUNK, "upstream_unreachable"),
    "garbage": (sse(CHUNK, b"data: {nonsense\n\n", END, DONE), CHUNK, "upstream_bad_reply"),
    "an error inside": (sse(CHUNK, b'data: {"error":{"message":"no memory"}}\n\n'), CHUNK, "upstream_bad_reply"),
}


@pytest.mark.parametrize("name", CUTS)
async def test_a_stream_that_is_none_ends_in_an_error_behind_whole_events(name: str) -> None:
    reply, good, code = CUTS[name]
    async with passing(reply) as (served, _):
        _, body = await sent(served, written(stream=True))
        assert body.startswith(good)
        (error,) = events(body.removeprefix(good).decode())
        assert error["error"]["code"] == code


@pytest.mark.parametrize("end", [END, DONE, END + DONE])
async def test_a_stream_is_complete_with_a_reason_or_with_its_mark(end: bytes) -> None:
    async with passing(sse(CHUNK, end)) as (served, _):
        _, body = await sent(served, written(stream=True))
        assert body == CHUNK + end


async def test_a_reply_that_does_not_stream_though_it_was_asked_to() -> None:
    async with passing(whole(BODY)) as (served, _):
        _, body = await sent(served, written(stream=True))
        assert body == BODY


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
async def test_what_is_no_completion_is_not_passed_off_as_one(kind: str) -> None:
    async with passing(whole(b"<html>hello</html>", kind=kind)) as (served, _):
        reply, body = await sent(served, written())
        assert reply.status_code == 502
        assert json.loads(body)["error"]["code"] == "upstream_bad_reply"


async def test_a_later_turn_decodes_no_image() -> None:
    """Its pictures may be anything, in any number: they are the agent's server's business."""
    broken = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [user(*[broken] * 40, text_part("What?")), *LATER[1:]]
    asked = json.dumps({"model": "speceyes", "tools": [{}], "messages": messages}).encode()
    async with passing(whole(BODY), **{"serve.max_images": 1}) as (served, _):
        reply, body = await sent(served, asked)
        assert (reply.status_code, body) == (200, BODY)
