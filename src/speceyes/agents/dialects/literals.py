"""Reading a JSON object that a language model wrote: strict first, then mended, never evaluated.

Each mend is named, so that it can be counted. What cannot be read is `Unreadable`, with one line for the
model.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

MAX_CHARS = 8_000
"""Longer objects are refused unread."""

MAX_DEPTH = 16
"""Deeper nesting is refused: it is no tool call, and Python's own parsers recurse."""

MAX_INTEGER_BITS = 64

_COMMENT = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_CONSTANT = re.compile(r"\b(?:true|false|null)\b")
_PYTHON_NAMES = {"true": "True", "false": "False", "null": "None"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_PLAIN_LITERAL = re.compile(r"(?:[\s{}\[\](),:]|True|False|None|-?\.?[0-9][0-9._]*+(?:[eE][-+]?[0-9]+)?)*+")
"""All that may stand outside strings in a Python literal: no operator, prefix or name."""


class Unreadable(ValueError):
    """No object can be read. The message is one line, fit for a model to read."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An object that was read: its value, the position behind it, and what had to be mended.

    `whole` is False where what was read may be the begin of something longer, as code without its closing tag.
    """

    value: dict[str, Any]
    end: int
    repairs: tuple[str, ...] = ()
    whole: bool = True


class _Piece(NamedTuple):
    """A run of text that is one quoted string, or lies between such strings."""

    start: int
    text: str
    quoted: bool
    closed: bool = True


def read_object(text: str, start: int, limit: int | None = None) -> Reading:
    """Read the object that begins with the `{` at `start`; what follows it is left alone.

    Args:
        text: The whole text.
        start: Position of the opening brace.
        limit: Where the object ends at the latest if its braces do not close. None: at the end of the text.

    Raises:
        Unreadable: It is no object, is cut off, is too long or too deep, or holds something that is not plain
            data.
    """
    window = min(start + MAX_CHARS, len(text))
    end = _closing(text, start, window)
    border = len(text) if limit is None else limit
    if end is not None:
        try:
            return _reading(text[start:end], end)
        except Unreadable:
            if end <= border:
                raise
    if border > window:
        raise Unreadable(f"The call is longer than {MAX_CHARS} characters.")
    return _reading(_with_braces(text[start:border].rstrip()), border, "missing braces")


def _reading(body: str, end: int, *repairs: str) -> Reading:
    value, how = _read_value(body)
    if not isinstance(value, dict):
        raise Unreadable("The call is not a JSON object.")
    return Reading(value, end, (*repairs, *how))


def read_nested(value: object) -> tuple[object, list[str]]:
    """Undo double encoding: an object that was written as a JSON string, once or twice over.

    Returns the value, and the mends. A string that holds nothing readable comes back as it is; an empty
    string is an empty object. What stands around an object in a string is left out.
    """
    repairs: list[str] = []
    for _ in range(2):
        if not isinstance(value, str):
            break
        if not value.strip():
            return {}, [*repairs, "empty string for an object"]
        text = value.strip()
        try:
            value = _read_value(text)[0]
        except Unreadable:
            return _inside(text, repairs)
        repairs.append("object written as a string")
    return value, repairs


def _inside(text: str, repairs: list[str]) -> tuple[object, list[str]]:
    """The object that a text holds, where it is not the whole text or has slips at its end."""
    brace = text.find("{")
    try:
        if brace >= 0:
            reading = read_object(text, brace)
            return reading.value, [*repairs, "object written as a string", *reading.repairs, "text around the object"]
    except Unreadable:
        pass
    return text, repairs


def _pieces(text: str, start: int, stop: int) -> Iterator[_Piece]:
    """Cut text[start:stop] at its quoted strings. A quote that is not closed runs to the end."""
    begin = position = start
    while position < stop:
        quote = text[position]
        if quote not in "\"'":
            position += 1
            continue
        yield _Piece(begin, text[begin:position], quoted=False)
        begin, position = position, position + 1
        while position < stop and text[position] != quote:
            position += 2 if text[position] == "\\" else 1
        closed = position < stop
        position = min(position + 1, stop)
        yield _Piece(begin, text[begin:position], quoted=True, closed=closed)
        begin = position
    yield _Piece(begin, text[begin:stop], quoted=False)


def _closing(text: str, start: int, stop: int) -> int | None:
    """The position behind the bracket that closes the one at `start`, or None if it stays open."""
    depth = 0
    for piece in _pieces(text, start, stop):
        for offset, char in enumerate("" if piece.quoted else piece.text):
            depth += (char in "{[(") - (char in "}])")
            if depth == 0 and char in "}])":
                return piece.start + offset + 1
    return None


def _with_braces(body: str) -> str:
    """Add missing closing braces, but no bracket or quote: a list or string that was cut may lack a part."""
    stack: list[str] = []
    pieces = list(_pieces(body, 0, len(body)))
    for char in "".join(piece.text for piece in pieces if not piece.quoted):
        if char in "{[(":
            stack.append(char)
        elif char in "}])" and stack:
            stack.pop()
    if set(stack) != {"{"} or not all(piece.closed for piece in pieces) or body[-1] not in "\"'}],":
        raise Unreadable("The call breaks off before its end.")
    return body.rstrip(",") + "}" * len(stack)


def _read_value(body: str) -> tuple[object, list[str]]:
    """Parse `body` as JSON, then as JSON with slips, then as a plain Python literal."""
    if len(body) > MAX_CHARS:
        raise Unreadable(f"The call is longer than {MAX_CHARS} characters.")
    for read, mends in _READERS:
        try:
            return _checked(read(body)), list(mends)
        except Unreadable:
            raise
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    raise Unreadable("The call is not readable as JSON.")


def _mend(body: str) -> str:
    """Drop comments and trailing commas outside strings."""
    return "".join(
        piece.text if piece.quoted else _TRAILING_COMMA.sub(r"\1", _COMMENT.sub("", piece.text))
        for piece in _pieces(body, 0, len(body))
    )


def _literal(body: str) -> object:
    """Read a Python literal that holds nothing but containers, strings, numbers and constants."""
    mended = _mend(body)
    texts = []
    for piece in _pieces(mended, 0, len(mended)):
        if piece.quoted:
            texts.append(_ESCAPE.sub(_python_escape, piece.text).replace("\r", "\\r").replace("\n", "\\n"))
            continue
        code = _CONSTANT.sub(lambda found: _PYTHON_NAMES[found.group()], piece.text)
        if not _PLAIN_LITERAL.fullmatch(code):
            raise Unreadable("The call is not readable as JSON.")
        texts.append(code)
    return ast.literal_eval("".join(texts).strip())


def _python_escape(found: re.Match[str]) -> str:
    """Keep the escapes that JSON or Python knows; double the backslash of any other."""
    escaped = found.group(1)
    if escaped == "/":
        return "/"
    known = len(escaped) > 1 or escaped in "\\'\"nrtbf"
    return found.group() if known else "\\" + found.group()


def _checked(value: object, depth: int = 0) -> object:
    """Only what JSON can hold, and no more than a call needs; tuples become lists."""
    if depth > MAX_DEPTH:
        raise Unreadable(f"The call nests deeper than {MAX_DEPTH} levels.")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise Unreadable("The call has a field whose name is not text.")
        return {key: _checked(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_checked(item, depth + 1) for item in value]
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise Unreadable("The call holds a number that is too large.")
    if isinstance(value, str):
        # Half a surrogate pair ("\\ud800") could not be written to any file or socket.
        return value.encode("utf-8", "replace").decode("utf-8")
    if value is None or isinstance(value, int | float):
        return value
    raise Unreadable("The call holds something that JSON cannot hold.")


_READERS: tuple[tuple[Callable[[str], object], tuple[str, ...]], ...] = (
    (json.loads, ()),
    (lambda body: json.loads(_mend(body), strict=False), ("slips in the JSON",)),
    (_literal, ("Python literal for JSON",)),
)
