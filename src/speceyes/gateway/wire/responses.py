"""An answer as a chat completion, with the field `speceyes` beside what OpenAI describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import msgspec

from speceyes.export import as_json, plain_number, plain_text, token_json
from speceyes.types import Answer, ImageSizes, Token, Usage, Verdict

HEADERS = ("x-speceyes-route", "x-speceyes-reason", "x-speceyes-score", "x-speceyes-threshold")


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every object of one response repeats.

    Attributes:
        request_id: Our own name for the request.
        created: Seconds since 1970.
        model: The name that was asked for.
    """

    request_id: str
    created: int
    model: str

    def of(self, kind: str) -> dict[str, Any]:
        """The common fields of a `chat.completion` or of a chunk."""
        return {"id": f"chatcmpl-{self.request_id}", "object": kind, "created": self.created, "model": self.model}


def completion(
    envelope: Envelope, answer: Answer, extension: Mapping[str, Any], *, thoughts: str = "", logprobs: Any = None
) -> bytes:
    """A whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": plain_text(answer.text)}
    if thoughts:
        message["reasoning_content"] = plain_text(thoughts)
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": answer.finish}
    body = {"choices": [choice], "usage": usage(answer.trace.usage), "speceyes": extension}
    return encode(envelope.of("chat.completion") | body)


def encode(payload: Any) -> bytes:
    """Strict JSON: null for what is no finite number, U+FFFD for half of a surrogate pair."""
    try:
        return msgspec.json.encode(payload)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(payload))


def _mended(value: Any) -> Any:
    match value:
        case str():
            return plain_text(value)
        case dict():
            return {plain_text(name): _mended(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_mended(inner) for inner in value]
    return value


def usage(spent: Mapping[str, Usage]) -> dict[str, Any] | None:
    """The sum over all models and calls. None where a server did not count: a sum with a gap is no sum."""
    total = reduce(add, spent.values(), Usage())
    prompt, written = total.prompt_tokens, total.completion_tokens
    if prompt is None or written is None:
        return None
    counts: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
    }
    if total.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": total.cached_tokens}
    return counts


def extension(request_id: str, answer: Answer, *, trace: bool, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """The field `speceyes`: how the answer came about, what it cost, and on demand all of it.

    Every answer has all fields but `trace`. Numbers that do not exist are null.
    """
    told = as_json(answer)
    run = answer.trace.run
    found = {
        "request_id": request_id,
        "route": told["route"],
        "reason": told["reason"],
        "score": told["score"],
        "threshold": told["threshold"],
        "finish": run.finish.value if run and answer.route.value == "agent" else None,
        "usage_by_model": told["usage"]["models"],
        "images": [_image(sizes) for sizes in answer.trace.images],
        "plan": answer.trace.plan,
        "seconds": told["trace"]["seconds"],
        "notes": [*told["trace"]["notes"], *notes],
    }
    return found | {"trace": told["trace"]} if trace else found


def decision(request_id: str, verdict: Verdict | None) -> dict[str, Any]:
    """What is known of the route before there is an answer: for the first chunk of a stream."""
    return {"request_id": request_id} | (verdict_json(verdict) if verdict else {})


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """Who answers, and why."""
    return {
        "route": verdict.reason.route.value,
        "reason": verdict.reason.value,
        "score": plain_number(verdict.score),
        "threshold": plain_number(verdict.threshold),
    }


def route_headers(known: Mapping[str, Any]) -> dict[str, str]:
    """The headers that say the same as the extension; what has no value has no header."""
    return {name: str(value) for name in HEADERS if (value := known.get(name.rpartition("-")[2])) is not None}


def draft_logprobs(answer: Answer, count: int) -> dict[str, Any] | None:
    """Log-probs of the draft's tokens as far as they are in the answer, each with `count` rivals at most.

    None where the draft's server sent none that spell the answer.
    """
    draft = answer.trace.answering
    if draft is None or not draft.tokens:
        return None
    kept: list[Token] = []
    length = 0
    for token in draft.tokens:
        if length >= len(answer.text):
            break
        kept.append(token)
        length += len(token.text)
    return {"content": [_logprob(token, count) for token in kept], "refusal": None}


def _logprob(token: Token, count: int) -> dict[str, Any]:
    told = token_json(token)
    rivals = [{**rival, "bytes": _bytes(rival["token"])} for rival in told["top_logprobs"][:count]]
    return told | {"bytes": _bytes(told["token"]), "top_logprobs": rivals}


def _bytes(text: str) -> list[int]:
    return list(text.encode())


def _image(sizes: ImageSizes) -> dict[str, Any]:
    shown = {"agent": sizes.agent, "draft": sizes.draft}
    tokens = {"agent_tokens": sizes.agent_tokens, "draft_tokens": sizes.draft_tokens}
    return {"size": list(sizes.original), **{who: size and list(size) for who, size in shown.items()}, **tokens}
