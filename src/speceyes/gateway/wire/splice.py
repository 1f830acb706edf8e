"""A request's JSON with some of its fields replaced, and every other byte as it came."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from speceyes.gateway.wire.requests import read_fields

_SPACE = rb"[ \t\r\n]*"
_KEY = re.compile(rb'%b[{,]%b"(?:[^"\\]|\\.)*"%b:%b' % (_SPACE, _SPACE, _SPACE, _SPACE), re.DOTALL)
_END = re.compile(rb"%b\}%b" % (_SPACE, _SPACE))
_COMMA = re.compile(rb"%b,%b" % (_SPACE, _SPACE))


def spliced(raw: bytes | bytearray, changed: Mapping[str, bytes | None]) -> bytes:
    """The object with these fields replaced.

    Images make requests long, so values are not read again: each is as long as the decoder has found it.

    Args:
        raw: A JSON object, checked by `read_fields` before.
        changed: New values as JSON; None takes the field out. Fields that are not there are not added.
    """
    fields = read_fields(raw)
    whole = memoryview(raw)
    pieces: list[memoryview | bytes] = []
    at = copied = 0
    for name, value in fields.items():
        key = _KEY.match(raw, at)
        if key is None:
            return _written_anew(fields, changed)
        at = key.end() + len(memoryview(value))
        if name in changed:
            new = changed[name]
            pieces += [whole[copied : key.start()]] if new is None else [whole[copied : key.end()], new]
            copied = at
    if not _END.fullmatch(raw, at):
        return _written_anew(fields, changed)
    return _opened(b"".join([*pieces, whole[copied:]]))


def _opened(written: bytes) -> bytes:
    """With the first field its brace is gone, and the comma behind it is one too many."""
    if written.lstrip()[:1] == b"{":
        return written
    comma = _COMMA.match(written)
    return b"{" + written[comma.end() if comma else 0 :]


def _written_anew(fields: Mapping[str, msgspec.Raw], changed: Mapping[str, bytes | None]) -> bytes:
    """For an object that names a field twice: of such, readers take the last."""
    kept = {name: value for name, value in fields.items() if changed.get(name, b"") is not None}
    new = {name: msgspec.Raw(value) for name, value in changed.items() if value is not None and name in fields}
    return msgspec.json.encode(kept | new)
