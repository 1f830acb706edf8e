"""What a scripted server answers: replies, faults, and the JSON that they become on the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from speceyes.types import ToolCall

Entry = dict[str, Any]
"""One element of `choices[].logprobs.content`."""

Pace = Callable[[], Awaitable[object]]
"""Awaited before each piece of a reply: `event.wait`, `semaphore.acquire`, or a function that sleeps."""


class Logprobs(StrEnum):
    """How a reply that was asked for log-probs carries them."""

    GIVEN = "given"
    NULL = "null"
    """`"logprobs": null`"""
    MISSING = "missing"
    """No such key."""
    EMPTY = "empty"
    """`"content": []`"""
    NULL_CONTENT = "null content"
    """`"content": null`"""
    NO_TOP = "no top"
    """Every token with `"top_logprobs": []`."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A chat completion.

    Attributes:
        text: The content. Where it is empty and `tokens` are given, they spell it.
        tokens: The tokens, as texts or as entries made by `token_reply`; None cuts the text into words. Texts
            get K log-probs of a confident model, if the request asks for them. Tokens that do not spell the
            text are sent as they are, which no real server should do.
        hidden: Tokens that come before the answer and are not in the content: reasoning, or its markers.
        reasoning: Sent as `reasoning_content`.
        tool_calls: Native tool calls.
        finish_reason: None: "tool_calls" where there are any, else "stop".
        logprobs: How log-probs are sent, if asked for.
        usage: Token counts; "counted" counts tokens and words, None sends none.
        usage_on: Which chunks of a stream carry the usage, if asked for: the last, or each.
        per_chunk: Tokens in one chunk of a stream.
        stream: False answers with one JSON object even where the request asks for a stream.
        pace: Awaited before each chunk, or before the whole JSON object.
        model: The model's name in the reply; None repeats the request's.
        fields: Further top-level fields of the last chunk or of the JSON object (`timings`, ...).
    """

    text: str = ""
    tokens: Sequence[str | Entry] | None = None
    hidden: Sequence[str | Entry] = ()
    reasoning: str = ""
    tool_calls: Sequence[ToolCall] = ()
    finish_reason: str | None = None
    logprobs: Logprobs = Logprobs.GIVEN
    usage: Mapping[str, Any] | Literal["counted"] | None = "counted"
    usage_on: Literal["last", "each"] = "last"
    per_chunk: int = 1
    stream: bool = True
    pace: Pace | None = None
    model: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """An HTTP error, or any other response that is not a completion. A mapping as body is sent as JSON."""

    code: int
    body: str | bytes | Mapping[str, Any] = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Payloads:
    """A stream of exactly these events: texts as they are, mappings as JSON. `[DONE]` is not added."""

    events: Sequence[str | Mapping[str, Any]]
    pace: Pace | None = None


@dataclass(frozen=True, slots=True)
class Hang:
    """Send this many chunks of a reply, then nothing until the client closes; for 0 not even headers."""

    reply: Reply = field(default_factory=Reply)
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """Send this many chunks of a reply, then close the connection; for 0 not even headers are sent."""

    reply: Reply = field(default_factory=Reply)
    chunks: int = 0
    reset: bool = False
    """Break the TCP connection instead of closing it."""


Fault = Status | Payloads | Hang | Cut

Outcome = Reply | Fault
"""What one request gets."""


def token_reply(
    text: str, top: Sequence[float | tuple[str, float]] | None = None, *, k: int = 64, **fields: Any
) -> Entry:
    """One token's entry in `logprobs.content`, as a server writes it.

    Args:
        text: The token. Its own log-prob is that of the same text in `top`, else of the first one.
        top: Log-probs in the order to send; bare numbers get `text` for the first and made-up texts for the
            others. None makes up `k` of them, of a model that is sure.
        k: How many to make up.
        fields: Further fields, or other values for the usual ones (`bytes`, `id`, `logprob`).
    """
    if top is None:
        top = [-0.01, *(-6.0 - 0.12 * rank - 0.9 * (rank % 3) for rank in range(1, k))][:k]
    pairs = [
        pair if isinstance(pair, tuple) else (text if rank == 0 else f"~{rank}", pair) for rank, pair in enumerate(top)
    ]
    own = next((value for name, value in pairs if name == text), pairs[0][1] if pairs else 0.0)
    rivals = [{"token": name, "logprob": value, "bytes": list(name.encode())} for name, value in pairs]
    entry = {"token": text, "logprob": own, "bytes": list(text.encode()), "top_logprobs": rivals}
    return entry | fields


def whole_reply(reply: Reply, request: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object that answers a request without a stream."""
    hidden, tokens = _tokens(reply)
    message: dict[str, Any] = {"role": "assistant", "content": _text(reply)}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_call(call) for call in reply.tool_calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    body = _envelope(reply, request, "chat.completion")
    body["choices"] = [choice | _logprobs(reply, request, [*hidden, *tokens])]
    if reply.usage is not None:
        body["usage"] = _usage(reply, request)
    return body | dict(reply.fields)


def chunks(reply: Reply, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The chunks of a stream, without the closing `[DONE]`."""
    wants_usage = (request.get("stream_options") or {}).get("include_usage") and reply.usage is not None
    each = {"usage": _usage(reply, request)} if wants_usage and reply.usage_on == "each" else {}
    for delta, entries in _deltas(reply):
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        if entries:
            choice |= _logprobs(reply, request, entries)
        yield _envelope(reply, request, "chat.completion.chunk") | {"choices": [choice]} | each
    end = {"index": 0, "delta": {}, "finish_reason": _finish(reply)}
    last = _envelope(reply, request, "chat.completion.chunk") | {"choices": [end]} | each
    if wants_usage and reply.usage_on == "last":
        yield last
        last = last | {"choices": [], "usage": _usage(reply, request)}
    yield last | dict(reply.fields)


def _deltas(reply: Reply) -> Iterator[tuple[dict[str, Any], list[str | Entry]]]:
    """(delta, tokens) of each chunk that carries something."""
    hidden, tokens = _tokens(reply)
    if reply.reasoning or hidden:
        yield {"role": "assistant", "reasoning_content": reply.reasoning}, hidden
    text = _text(reply)
    spelled = [token if isinstance(token, str) else str(token.get("token", "")) for token in tokens]
    if "".join(spelled) != text:
        yield {"role": "assistant", "content": text}, tokens
    else:
        for start in range(0, len(tokens), reply.per_chunk):
            piece = slice(start, start + reply.per_chunk)
            yield {"content": "".join(spelled[piece])}, tokens[piece]
    for index, call in enumerate(reply.tool_calls):
        wire, half = _call(call), len(call.arguments) // 2
        opening = wire | {"index": index, "function": {"name": call.name, "arguments": call.arguments[:half]}}
        yield {"tool_calls": [opening]}, []
        yield {"tool_calls": [{"index": index, "function": {"arguments": call.arguments[half:]}}]}, []


def _tokens(reply: Reply) -> tuple[list[str | Entry], list[str | Entry]]:
    words = re.findall(r"\s*\S+\s*$|\s*\S+|\s+", reply.text) if reply.tokens is None else reply.tokens
    return list(reply.hidden), list(words)


def _text(reply: Reply) -> str:
    if reply.text or reply.tokens is None:
        return reply.text
    return "".join(token if isinstance(token, str) else str(token.get("token", "")) for token in reply.tokens)


def _logprobs(
    reply: Reply, request: Mapping[str, Any], tokens: Sequence[str | Entry]
) -> dict[str, dict[str, Any] | None]:
    """The `logprobs` key of a choice, or nothing where the request or the reply leaves it out."""
    if not request.get("logprobs") or reply.logprobs is Logprobs.MISSING:
        return {}
    if reply.logprobs is Logprobs.NULL:
        return {"logprobs": None}
    if reply.logprobs in (Logprobs.EMPTY, Logprobs.NULL_CONTENT):
        return {"logprobs": {"content": [] if reply.logprobs is Logprobs.EMPTY else None}}
    k = 0 if reply.logprobs is Logprobs.NO_TOP else int(request.get("top_logprobs") or 0)
    entries = [token_reply(token, k=k) if isinstance(token, str) else token for token in tokens]
    return {"logprobs": {"content": [_limited(entry, k) for entry in entries]}}


def _limited(entry: Entry, k: int) -> Entry:
    rivals = entry.get("top_logprobs")
    return entry | {"top_logprobs": rivals[:k]} if isinstance(rivals, list) else entry


def _usage(reply: Reply, request: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(reply.usage, Mapping):
        return dict(reply.usage)
    prompt = max(1, len(json.dumps(request.get("messages", []), ensure_ascii=False).split()))
    completion = sum(map(len, _tokens(reply)))
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _envelope(reply: Reply, request: Mapping[str, Any], kind: str) -> dict[str, Any]:
    model = request.get("model", "") if reply.model is None else reply.model
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": model}


def _finish(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
