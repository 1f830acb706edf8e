"""Messages over a pipe: four bytes of length, big-endian, and JSON."""

from __future__ import annotations

import json
import os
import struct
from typing import Any

HEAD = struct.Struct(">I")


def pack(message: dict[str, Any]) -> bytes:
    """A message as it goes over a pipe."""
    body = json.dumps(message).encode("ascii")
    return HEAD.pack(len(body)) + body


def send(fd: int, message: dict[str, Any]) -> None:
    """Write a message to a pipe that blocks."""
    data = memoryview(pack(message))
    while data:
        data = data[os.write(fd, data) :]


def receive(fd: int) -> dict[str, Any] | None:
    """Read the next message, or None at the end."""
    head = _exactly(fd, HEAD.size)
    body = head and _exactly(fd, HEAD.unpack(head)[0])
    if not body:
        return None
    message: dict[str, Any] = json.loads(body)
    return message


def read_some(fd: int) -> bytes | None:
    """What can be read now from a pipe that does not block: b"" at its end, None where nothing is there."""
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return None


def _exactly(fd: int, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        piece = os.read(fd, min(count - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return data


def printable(name: str) -> str:
    """A file's name as text that any encoding can carry."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")[:120]
