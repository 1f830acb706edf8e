"""Requests without an image: the model's own server answers, with all fields that it knows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gateway_server import events, running

from speceyes.engines.scripted import Cut, Hang, Payloads, Reply, Status

HI = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "x", "model": "large", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


async def test_the_messages_go_to_the_agent_as_they_are() -> None:
    async with running(agent=Reply("Hello.")) as served:
        fields = {"n": 1, "response_format": {"type": "json_object"}, "chat_template_kwargs": {"a": [1, None]}}
        reply = await served.ask(messages=HI, speceyes={"trace": True}, **fields)
        body = reply.json()
        (call,) = served.agent.completions
        assert call.json == {"model": "large", "messages": HI, **fields}, "our own field is for us"
        assert served.draft.completions == []
        assert body["choices"][0]["message"]["content"] == "Hello."
        assert body["model"] == "speceyes"
        told = body["speceyes"]
        assert (told["route"], told["reason"], told["score"]) == ("agent", "no_image", None)
        assert told["usage_by_model"]["large"]["completion_tokens"] == body["usage"]["completion_tokens"]
        assert reply.headers["x-speceyes-reason"] == "no_image"


@pytest.mark.parametrize(("model", "reason"), [("draft", "forced_draft"), ("agent", "forced_agent")])
async def test_a_forced_route_chooses_the_server(model: str, reason: str) -> None:
    async with running(Reply("I am the draft."), Reply("I am the agent.")) as served:
        body = (await served.ask(messages=HI, model=f"speceyes/{model}")).json()
        assert body["choices"][0]["message"]["content"] == f"I am the {model}."
        assert (body["speceyes"]["route"], body["speceyes"]["reason"]) == (model, reason)


async def test_a_stream_passes_with_our_names_and_our_end() -> None:
    async with running(agent=Reply("Hello there.")) as served:
        reply = await served.ask(messages=HI, stream=True)
        *chunks, end, done = events(reply.text)
        assert "".join(one["choices"][0]["delta"].get("content", "") for one in chunks) == "Hello there."
        assert {one["model"] for one in [*chunks, end]} == {"speceyes"}
        assert (end["choices"][0]["finish_reason"], end["speceyes"]["reason"], done) == ("stop", "no_image", "[DONE]")
        assert not any("usage" in one for one in [*chunks, end])


USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
HELLO = chunk({"content": "Hello"})
END = chunk({}, "stop")
SHAPES: dict[str, list[Any]] = {
    "last, without choices": [HELLO, END, {"choices": [], "usage": USAGE}, "[DONE]"],
    "twice": [HELLO, END, {"choices": [], "usage": USAGE}, {"choices": [], "usage": USAGE}, "[DONE]"],
    "on each chunk": [chunk({"content": "Hello"}, usage=USAGE), chunk({}, "stop", usage=USAGE), "[DONE]"],
    "with the end": [HELLO, chunk({}, "stop", usage=USAGE), "[DONE]"],
    "behind an empty first chunk": [{"choices": []}, HELLO, END, {"choices": [], "usage": USAGE}, "[DONE]"],
    "without [DONE]": [HELLO, END, {"choices": [], "usage": USAGE}],
    "never": [HELLO, END, "[DONE]"],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("asked_for", [True, False])
async def test_token_counts_come_once_whatever_the_server_does(shape: str, asked_for: bool) -> None:
    """CASES: the last chunk has no choices, or has some; counts on each chunk, twice, or never."""
    async with running(agent=Payloads(SHAPES[shape])) as served:
        reply = await served.ask(messages=HI, stream=True, stream_options={"include_usage": asked_for})
        *found, done = events(reply.text)
        counted = [one for one in found if "usage" in one]
        assert done == "[DONE]"
        assert [one["choices"] for one in counted] == ([[]] if asked_for else [])
        if asked_for:
            assert counted[0]["usage"] == (None if shape == "never" else USAGE)
        with_choices = [one for one in found if one["choices"]]
        assert [one["choices"][0]["finish_reason"] for one in with_choices] == [None, "stop"]
        assert served.agent.completions[0].json["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("outcome", "status", "code"),
    [
        (Status(400, {"error": {"message": "unknown field foo"}}), 400, "upstream_refused"),
        (Status(429, "", {"retry-after": "7"}), 429, "upstream_overloaded"),
        (Status(500, "<html>"), 502, "upstream_bad_reply"),
        (Payloads([{"error": {"message": "no memory", "code": 500}}]), 502, "upstream_bad_reply"),
        (Cut(), 503, "upstream_unreachable"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_errors_keep_their_status(outcome: Any, status: int, code: str, stream: bool) -> None:
    if isinstance(outcome, Payloads) and not stream:
        outcome = Status(200, dict(outcome.events[0]))  # type: ignore[arg-type]
    async with running(agent=outcome) as served:
        reply = await served.ask(messages=HI, stream=stream, foo=1)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        assert reply.headers.get("retry-after") == ("7" if status == 429 else None)
        assert "x-should-retry" not in reply.headers  # nobody has retried yet


async def test_a_stream_that_breaks_off_ends_with_an_error_event() -> None:
    async with running(agent=Cut(Reply("one two three"), chunks=2)) as served:
        *before, last = events((await served.ask(messages=HI, stream=True)).text)
        assert len(before) == 2
        assert last["error"]["code"] == "upstream_unreachable"


@pytest.mark.parametrize("stream", [False, True])
async def test_who_hangs_up_closes_the_passage(stream: bool) -> None:
    async with running(agent=Hang(Reply("one two three"), chunks=1 if stream else 0)) as served:
        asking = asyncio.create_task(served.ask(messages=HI, stream=stream))
        await served.agent.wait_until(lambda: len(served.agent.completions) == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await served.agent.wait_until(lambda: served.agent.completions[0].done)
        assert served.agent.completions[0].closed_by_client


async def test_a_server_that_is_down_is_not_asked() -> None:
    async with running(agent=Status(500, "no"), settings={"breaker.failures": 2}) as served:
        statuses = [(await served.ask(messages=HI)).status_code for _ in range(4)]
        assert statuses == [502, 502, 503, 503]
        assert len(served.agent.completions) == 2
        last = await served.ask(messages=HI)
        assert int(last.headers["retry-after"]) >= 1


async def test_what_no_json_reader_takes_is_mended() -> None:
    odd = chunk({"content": "\ud800"}, "stop", odd=float("nan"))
    whole = {"choices": [{"index": 0, "message": {"content": "\ud800"}, "finish_reason": "stop"}], "odd": float("nan")}
    async with running(
        agent=lambda request, turn: Payloads([odd]) if request.get("stream") else Status(200, whole)
    ) as served:
        for stream in (False, True):
            reply = await served.ask(messages=HI, stream=stream)
            body = events(reply.text)[0] if stream else reply.json()
            assert "\ufffd" in reply.content.decode("utf-8", "strict")
            assert body["odd"] is None
