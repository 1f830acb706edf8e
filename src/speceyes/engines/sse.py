"""Server-sent events, as far as chat completions use them: bytes in, the payloads of `data:` fields out."""

from __future__ import annotations

from speceyes.errors import EngineProtocolError

DONE = "[DONE]"
"""The payload that closes a stream."""

MAX_EVENT_BYTES = 16 * 2**20
"""A single event larger than this is not a chat-completion chunk, whatever it is."""


class EventStream:
    """Incremental parser. Lines end in LF or CRLF; an empty line closes an event.

    Two forms that servers send outside the standard are read as well, both used for errors: a field named
    `error`, and a bare JSON object on a line of its own.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes, however they are cut; return the payloads that they complete.

        Raises:
            EngineProtocolError: A single event is larger than `MAX_EVENT_BYTES`.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        payloads = [payload for line in lines if (payload := self._line(line)) is not None]
        if len(self._rest) + sum(map(len, self._data)) > MAX_EVENT_BYTES:
            raise EngineProtocolError(f"an event in the stream is larger than {MAX_EVENT_BYTES} bytes")
        return payloads

    def close(self) -> list[str]:
        """The stream is over: return the payload of an event that no empty line closed, if there is one."""
        lines = (self._rest, b"")
        self._rest = b""
        return [payload for line in lines if (payload := self._line(line)) is not None]

    def _line(self, line: bytes) -> str | None:
        line = line.removesuffix(b"\r")
        if not line:
            return self._dispatch()
        if line.startswith(b"{"):
            return line.decode("utf-8", "replace")
        field, _, value = line.partition(b":")
        if field in (b"data", b"error"):
            self._data.append(value.removeprefix(b" "))
        return None

    def _dispatch(self) -> str | None:
        if not self._data:
            return None
        payload = b"\n".join(self._data).decode("utf-8", "replace")
        self._data.clear()
        return payload or None
