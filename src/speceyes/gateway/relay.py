"""A request passed to a model's server as it came, and the reply passed back as it comes.

Only the model's name is put in, and the field `speceyes` taken out. The reply's bytes are the server's own: a stream
goes on event by event, nothing is written anew and nothing put between. It is read along for the record. What is no
reply (broken JSON, an error under status 200, a stream that breaks off) becomes an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from speceyes.engines import failures
from speceyes.engines.assembly import read_json, read_usage
from speceyes.engines.sse import DONE, EventStream
from speceyes.errors import EngineError, EngineProtocolError, EngineUnreachable
from speceyes.gateway.exchange import Outgoing
from speceyes.gateway.observe import Observation
from speceyes.gateway.upstream import Upstream
from speceyes.gateway.wire.errors import ApiError, from_single_call
from speceyes.gateway.wire.splice import spliced
from speceyes.types import Usage

_DROPPED = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
        # The body has been unpacked, and gets its own length.
        *("content-length", "content-encoding"),
        # Between that server and us.
        *("server", "date", "set-cookie", "www-authenticate", "alt-svc", "strict-transport-security"),
    }
)
_DROPPED_FAMILIES = ("access-control-", "x-speceyes-")


class Relay:
    """One request on its way through.

    Args:
        upstream: Whose server answers.
        raw: The request's JSON.
        headers: Ours, for the response.

    Attributes:
        text: What the first choice says, as far as it has come.
    """

    def __init__(self, upstream: Upstream, raw: bytes | bytearray, headers: Mapping[str, str]) -> None:
        name = msgspec.json.encode(upstream.client.model)
        self.text = ""
        self._upstream, self._headers = upstream, headers
        self._content = spliced(raw, {"model": name, "speceyes": None})
        self._where = upstream.client.name
        self._usage: Mapping[str, Any] = {}
        self._timings: Mapping[str, Any] = {}
        self._finished = False

    @property
    def usage(self) -> Usage:
        """What the server says that this cost. In a stream it may only say it if the client has asked it to."""
        return read_usage(self._usage, self._timings)

    async def run(self, out: Outgoing, seen: Observation) -> None:
        """Pass the request on and the reply back.

        Raises:
            EngineError: There is no reply, or it broke off; `out` knows whether it has begun.
        """
        async with self._upstream.forward(self._content) as response:
            headers = {**_passed(response.headers), **self._headers}
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                await self._stream(response, headers, out, seen)
            else:
                body = await response.aread()
                self._read(body.decode("utf-8", "replace"), "message")
                if not self._finished:
                    raise EngineProtocolError(f"{self._where}: the reply has no choices")
                await out.whole(body, headers)

    async def _stream(
        self, response: httpx.Response, headers: Mapping[str, str], out: Outgoing, seen: Observation
    ) -> None:
        events, held = EventStream(), b""
        async for data in response.aiter_bytes():
            for payload in events.feed(data):
                if payload == DONE:
                    self._finished = True
                else:
                    self._read(payload, "delta")
            held += data
            if end := _end_of_events(held):
                if out.status is None:
                    await out.begin_events(headers)
                seen.first_token()
                await out.write(held[:end])
                held = held[end:]
        if not self._finished:
            raise EngineUnreachable(f"{self._where}: the stream broke off before its end")
        await out.write(held)
        await out.end()

    def _read(self, payload: str, part: str) -> None:
        """Note what the record needs. Raises EngineError where it is no reply."""
        reply = read_json(self._where, payload)
        if reply.get("error"):
            raise failures.from_error_object(self._where, reply)
        self._usage = _object(reply.get("usage")) or self._usage
        self._timings = _object(reply.get("timings")) or self._timings
        choices = reply.get("choices")
        for choice in choices[:1] if isinstance(choices, list) else ():
            text = _object(_object(choice).get(part)).get("content")
            self.text += text if isinstance(text, str) else ""
            self._finished |= part == "message" or bool(_object(choice).get("finish_reason"))


def as_told(error: EngineError) -> ApiError:
    """What a client is told of a failure: what the server said, and its status, unless that is about our set-up.

    A body that is no error object of OpenAI's form, which their clients could not read, is told in that form.
    """
    told = from_single_call(error)
    if error.misconfigured or error.status is None or error.status < 400 or not error.body:
        return told
    told.status, told.retry_after = error.status, error.retry_after
    try:
        found = msgspec.json.decode(error.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return told
    is_error = isinstance(found, dict) and isinstance(found.get("error"), dict) and "message" in found["error"]
    return _AsItCame(told, error.body) if is_error else told


class _AsItCame(ApiError):
    """An error in its server's own words."""

    def __init__(self, told: ApiError, body: bytes) -> None:
        super().__init__(told.status, told.message, kind=told.kind, code=told.code, retry_after=told.retry_after)
        self._body = body

    def encoded(self) -> bytes:
        return self._body


def _passed(headers: httpx.Headers) -> dict[str, str]:
    """The headers of the reply itself."""
    named = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    return {
        name: value
        for name, value in headers.items()
        if name not in _DROPPED | named and not name.startswith(_DROPPED_FAMILIES)
    }


def _end_of_events(held: bytes) -> int:
    """Where the last complete event ends; 0 where none does."""
    return max((at + len(gap) for gap in (b"\n\n", b"\r\n\r\n") if (at := held.rfind(gap)) >= 0), default=0)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
