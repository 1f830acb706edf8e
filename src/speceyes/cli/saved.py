"""A chat completion that somebody saved, in whatever form: what a client library dumps, or a stream's chunks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from speceyes.engines.assembly import Assembly
from speceyes.engines.sse import DONE, EventStream
from speceyes.errors import EngineError, InputError
from speceyes.types import Completion

_MOST_DIGITS = 4000
"""Python refuses to read whole numbers of more digits than 4300; JSON has no such limit."""


def read_completion(data: bytes, name: str) -> Completion | None:
    """The completion in a file's bytes, or None where they are well-formed JSON but no completion.

    Taken are one chat completion, a list of a stream's chunks, and a stream as it came over the wire (`data: {...}`
    lines). Of several choices the first counts.

    Raises:
        InputError: It is not JSON. The message calls it `name`.
    """
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"data:", b"event:", b":")):
        events = EventStream()
        payloads = [text for text in events.feed(data) + events.close() if text != DONE]
        return _streamed([_parsed(text.encode(), name) for text in payloads])
    content = _parsed(data, name)
    if isinstance(content, Sequence) and not isinstance(content, str):
        return _streamed(content)
    if not isinstance(content, Mapping):
        return None
    return _streamed([content]) if _has(content, "delta") else _whole(content)


def _parsed(data: bytes, name: str) -> object:
    try:
        return json.loads(data, parse_int=_whole_number)
    except RecursionError:
        return None  # JSON as deep as this is no completion, whatever else it is
    except ValueError as error:
        raise InputError(f"{name} is not JSON: {error}") from None


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _whole(content: Mapping[str, object]) -> Completion | None:
    if not _has(content, "message"):
        return None
    try:
        return Assembly("the saved reply", k=None, begin=0.0).whole(json.dumps(content))
    except (EngineError, RecursionError):
        return None


def _streamed(chunks: Sequence[object]) -> Completion | None:
    if not any(_has(chunk, "delta") for chunk in chunks):
        return None
    assembly = Assembly("the saved stream", k=None, begin=0.0)
    try:
        for chunk in chunks:
            assembly.add_text(json.dumps(chunk))
        return assembly.completion(done=True)
    except (EngineError, RecursionError):
        return None


def _has(content: object, part: str) -> bool:
    """Whether this looks like a completion whose first choice has this part."""
    choices = content.get("choices") if isinstance(content, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return False
    return isinstance(choices[0].get(part), Mapping)
