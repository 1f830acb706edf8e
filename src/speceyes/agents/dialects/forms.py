"""The ways to write a call: a tag, and how what stands inside it is read.

Whatever the form, a call that was read is the same object, `{"name": ..., "arguments": {...}}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from speceyes.agents.dialects.literals import Reading, Unreadable, read_object
from speceyes.agents.dialects.python_code import END_OF_BLOCK, read_code

PYTHON = "python"
"""The name of the tool that runs code. Its one argument is `code`."""

TEXT_AROUND = ("text around the call",)
"""The mend of a call that holds more than itself."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """One way to write a call.

    Attributes:
        tag: The name of its tags.
        read: From the text, where the opening tag ends, and where the call ends at the latest if it does not show its
            end itself, to the call. Raises `Unreadable`.
        write: From a tool's name and arguments to what stands inside the tags: the inverse.
        bare: The call that a whole text is without its tags, or None. Raises `Unreadable`.
    """

    tag: str
    read: Callable[[str, int, int], Reading]
    write: Callable[[str, Mapping[str, Any]], str]
    bare: Callable[[str], Reading | None]


def json_call(tag: str = "tool_call") -> CallForm:
    """JSON with a name and arguments."""
    return CallForm(tag, _read_json, _write_json, lambda text: _bare_object(text, {"name", "arguments"}))


def arguments_of(tool: str, tag: str, *, field: str) -> CallForm:
    """JSON with the arguments alone, for the only tool that there is.

    Args:
        tool: Its name.
        tag: The name of the tags.
        field: Without tags, an object that has this field is such a call.
    """

    def named(reading: Reading) -> Reading:
        return Reading({"name": tool, "arguments": reading.value}, reading.end, reading.repairs)

    def bare(text: str) -> Reading | None:
        found = _bare_object(text, {field})
        return found and named(found)

    return CallForm(
        tag,
        lambda text, start, limit: named(_read_json(text, start, limit)),
        lambda name, arguments: json.dumps(arguments, ensure_ascii=False),
        bare,
    )


def code_call(tag: str = "code") -> CallForm:
    """Python code, fenced or not, for the tool `PYTHON`."""

    def named(code: str, end: int, repairs: tuple[str, ...], *, whole: bool) -> Reading:
        return Reading({"name": PYTHON, "arguments": {"code": code}}, end, repairs, whole)

    def read(text: str, start: int, limit: int) -> Reading:
        found = read_code(text, start, limit, tag)
        return named(found.code, found.end, found.repairs, whole=found.whole)

    def bare(text: str) -> Reading | None:
        block = END_OF_BLOCK.search(text)
        return block and named(block["code"].strip("\n"), len(text), (), whole=True)

    def write(name: str, arguments: Mapping[str, Any]) -> str:
        return f"\n```python\n{arguments['code']}\n```\n"

    return CallForm(tag, read, write, bare)


def _read_json(text: str, start: int, limit: int) -> Reading:
    brace = text.find("{", start, limit)
    if brace < 0:
        raise Unreadable("The call holds no JSON object.")
    found = read_object(text, brace, limit)
    before = text[start:brace].strip("` \n\t\r")
    return Reading(found.value, found.end, found.repairs + TEXT_AROUND if before not in ("", "json") else found.repairs)


def _write_json(name: str, arguments: Mapping[str, Any]) -> str:
    return "\n" + json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) + "\n"


def _bare_object(text: str, fields: set[str]) -> Reading | None:
    """The whole text is one object with these fields, fenced or not."""
    body = text.strip().removeprefix("```json").strip("` \n")
    if not body.startswith("{"):
        return None
    reading = read_object(body, 0)
    if body[reading.end :].strip("` \n") or not fields <= reading.value.keys():
        return None
    return reading
