"""Chunks of a streamed chat completion, or one whole JSON reply, put together into a `Completion`."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from speceyes.engines import failures
from speceyes.engines.logprobs import parse_entries
from speceyes.errors import EngineProtocolError, EngineUnreachable
from speceyes.types import Completion, Delta, ToolCall, Usage


@dataclass(slots=True)
class _CallParts:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class Assembly:
    """What has arrived of one reply.

    Args:
        where: Which server, for messages.
        k: How many log-probs a token to keep; None keeps what the server sends.
        begin: `time.perf_counter()` when the request was sent.
        on_delta: Is told each piece of text and reasoning.

    Attributes:
        started: A generated token has arrived.
        finish_reason: What the server gave as the reason for the end, "" before that.
    """

    def __init__(
        self, where: str, *, k: int | None, begin: float, on_delta: Callable[[Delta], None] | None = None
    ) -> None:
        self.started = False
        self.finish_reason = ""
        self._where = where
        self._k = k
        self._begin = begin
        self._on_delta = on_delta
        self._first_token_s: float | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._entries: list[Any] = []
        self._calls: list[_CallParts] = []
        self._call_at: dict[int, _CallParts] = {}
        self._usage: Mapping[str, Any] = {}
        self._timings: Mapping[str, Any] = {}
        self._model = ""

    def add_text(self, payload: str) -> None:
        """Take the payload of one event of the stream.

        Raises:
            EngineProtocolError: It is not JSON, not a chunk, or an error object.
            LogprobLimit: An error object about the number of log-probs.
        """
        self._add(read_json(self._where, payload), "delta")
        if self.started and self._first_token_s is None:
            self._first_token_s = time.perf_counter() - self._begin

    def whole(self, body: str) -> Completion:
        """Take a whole reply as one JSON object, from a server that does not stream.

        Raises:
            EngineProtocolError: It is not JSON, has no choice, or is an error object.
        """
        reply = read_json(self._where, body)
        self._add(reply, "message")
        if not reply.get("choices"):
            raise EngineProtocolError(f"{self._where}: the reply has no choices: {body[:200]!r}")
        return self._completion()

    def completion(self, *, done: bool) -> Completion:
        """The stream is over.

        Args:
            done: It was closed by `[DONE]`, so the server thinks that it is complete.

        Raises:
            EngineUnreachable: It broke off before the reason for the end.
            EngineProtocolError: It was closed in order, and gave no reason for the end.
        """
        if not self.finish_reason:
            if done:
                raise EngineProtocolError(f"{self._where}: the stream is complete but has no finish_reason")
            length = sum(map(len, self._text))
            raise EngineUnreachable(f"{self._where}: the stream broke off before its end, after {length} characters")
        return self._completion()

    def _completion(self) -> Completion:
        return Completion(
            text="".join(self._text),
            finish_reason=self.finish_reason,
            tokens=parse_entries(self._entries, self._k),
            usage=read_usage(self._usage, self._timings),
            seconds=time.perf_counter() - self._begin,
            first_token_s=self._first_token_s,
            reasoning="".join(self._reasoning),
            tool_calls=tuple(
                ToolCall(call.id or f"call_{index}", call.name, "".join(call.arguments))
                for index, call in enumerate(self._calls)
            ),
            model=self._model,
        )

    def _add(self, chunk: Mapping[str, Any], part_name: str) -> None:
        if chunk.get("error") or _is_bare_error(chunk):
            raise failures.from_error_object(self._where, chunk, asked=self._k + 1 if self._k else 0)
        choices = chunk.get("choices") or []
        if not isinstance(choices, list):
            raise EngineProtocolError(f"{self._where}: `choices` is not a list: {str(choices)[:200]!r}")
        self._model = _string(chunk.get("model")) or self._model
        # The last one counts: some servers send a running total on each chunk.
        self._usage = _mapping(chunk.get("usage")) or self._usage
        self._timings = _mapping(chunk.get("timings")) or self._timings
        for choice in map(_mapping, choices):
            if choice.get("index") in (0, None):
                self._add_choice(choice, part_name)

    def _add_choice(self, choice: Mapping[str, Any], part_name: str) -> None:
        part = _mapping(choice.get(part_name))
        text, thought = _content(part.get("content"))
        thought = thought or _string(part.get("reasoning_content")) or _string(part.get("reasoning"))
        entries = _mapping(choice.get("logprobs")).get("content")
        calls = part.get("tool_calls")
        self._text.append(text)
        self._reasoning.append(thought)
        if self._on_delta is not None and (text or thought):
            self._on_delta(Delta(text, thought))
        if isinstance(entries, list):
            self._entries.extend(entries)
        if isinstance(calls, list):
            for call in map(_mapping, calls):
                self._add_call(call)
        self.started = self.started or bool(text or thought or entries or calls)
        self._usage = self._usage or _mapping(choice.get("usage"))
        self.finish_reason = _string(choice.get("finish_reason")) or self.finish_reason

    def _add_call(self, call: Mapping[str, Any]) -> None:
        """One piece of a tool call: the index says of which one, but a new id always opens a new one."""
        identity, index = _string(call.get("id")), call.get("index")
        key = index if isinstance(index, int) else (len(self._calls) if identity else len(self._calls) - 1)
        known = self._call_at.get(key)
        if known is None or (identity and known.id and identity != known.id):
            known = self._call_at[key] = _CallParts()
            self._calls.append(known)
        function = _mapping(call.get("function"))
        known.id = known.id or identity
        known.name = known.name or _string(function.get("name"))
        arguments = function.get("arguments")
        known.arguments.append(json.dumps(arguments) if isinstance(arguments, Mapping | list) else _string(arguments))


def read_json(where: str, text: str) -> Mapping[str, Any]:
    """Parse a JSON object, `NaN` and `Infinity` included, which some servers write.

    Raises:
        EngineProtocolError: It is not JSON, or not an object.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise EngineProtocolError(f"{where}: broken JSON in the reply: {text[:200]!r}") from None
    if not isinstance(value, Mapping):
        raise EngineProtocolError(f"{where}: the reply holds no JSON object: {text[:200]!r}")
    return value


def _is_bare_error(chunk: Mapping[str, Any]) -> bool:
    """An error object that is not inside another one, as older servers send it."""
    says_so = chunk.get("object") == "error" or "code" in chunk
    return "choices" not in chunk and isinstance(chunk.get("message"), str) and says_so


def read_usage(usage: Mapping[str, Any], timings: Mapping[str, Any]) -> Usage:
    """Token counts from the API's `usage`, with llama.cpp's `timings` where it lacks something."""
    cached = _count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens"))
    reused, evaluated = _count(timings.get("cache_n")), _count(timings.get("prompt_n"))
    if prompt is None and reused is not None and evaluated is not None:
        prompt = reused + evaluated
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion if completion is not None else _count(timings.get("predicted_n")),
        cached_tokens=cached if cached is not None else reused,
        calls=1,
    )


def _content(content: object) -> tuple[str, str]:
    """(visible text, reasoning) of a message's content, which some servers send as a list of parts."""
    if not isinstance(content, list):
        return _string(content), ""
    parts = [_mapping(part) for part in content]
    return (
        "".join(_string(part.get("text")) for part in parts if part.get("type") == "text"),
        "".join(_content(part.get("thinking"))[0] for part in parts if part.get("type") == "thinking"),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return int(value)
