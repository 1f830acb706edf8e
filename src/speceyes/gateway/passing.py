"""Requests that a model's own server answers: passed on as they came, but for the model's name.

Without an image there is nothing to speculate on. The agent's server answers then (for `speceyes/draft` the draft's),
with all fields that it knows; the reply gets our name for the model and the field `speceyes`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from speceyes.engines import failures
from speceyes.engines.assembly import read_json, read_usage
from speceyes.engines.sse import DONE as END
from speceyes.engines.sse import EventStream
from speceyes.errors import EngineProtocolError, EngineUnreachable
from speceyes.gateway.calls import Call
from speceyes.gateway.exchange import Outgoing
from speceyes.gateway.listening import listening
from speceyes.gateway.observe import Observation
from speceyes.gateway.serving import Gateway
from speceyes.gateway.upstream import Upstream
from speceyes.gateway.wire.requests import read_fields
from speceyes.gateway.wire.responses import encode, extension, route_headers
from speceyes.gateway.wire.stream import DONE, KEEP_ALIVE, event
from speceyes.types import Answer, Reason, Route, Trace, Usage

Json = dict[str, Any]

_REASONS = {None: Reason.NO_IMAGE, Route.AGENT: Reason.FORCED_AGENT, Route.DRAFT: Reason.FORCED_DRAFT}


async def pass_on(gateway: Gateway, call: Call, out: Outgoing, seen: Observation) -> Answer:
    """Let a model's own server answer a call, whole or streamed.

    Args:
        gateway: Whose models they are.
        call: The request.
        out: Where its response goes.
        seen: What is noted of it.

    Returns:
        What was answered, for those who keep records.

    Raises:
        EngineError: The server failed; `out` knows whether a stream has begun.
    """
    reason = _REASONS[call.route]
    to_draft = reason.route is Route.DRAFT
    upstream = gateway.draft if to_draft else gateway.agent
    passage = _Passage(call, upstream, reason, seen)
    async with (gateway.funnel.stateless if to_draft else gateway.funnel.loops).place():
        if call.body.stream:
            return await passage.streamed(out, gateway.settings.serve.keep_alive_s)
        return await passage.whole(out)


class _Passage:
    """One request on its way through, and what is noted of its reply."""

    def __init__(self, call: Call, upstream: Upstream, reason: Reason, seen: Observation) -> None:
        self._call, self._upstream, self._reason, self._seen = call, upstream, reason, seen
        self._model, self._where = upstream.client.model, upstream.client.name
        self._began = time.monotonic()
        self._texts: list[str] = []
        self._usage: Json = {}
        self._timings: Json = {}
        self._cut = False
        self._headers = route_headers({"route": reason.route.value, "reason": reason.value})

    async def whole(self, out: Outgoing) -> Answer:
        async with self._upstream.forward(self._content()) as response:
            reply = await self._reply(response)
        answer = self._answer()
        body = self._renamed(reply) | {"speceyes": self._extension(answer)}
        await out.whole(encode(body), self._headers)
        return answer

    async def streamed(self, out: Outgoing, silence_s: float) -> Answer:
        held: list[Json] = []  # from the reason for the end on: the token counts come after it and go before it
        async with listening(self._read, silence_s) as (chunks, reading):
            async for chunk in chunks:
                if out.status is None:
                    await out.begin_events(self._headers)
                if chunk is None:
                    await out.write(KEEP_ALIVE)
                    continue
                self._seen.first_token()
                if held or _is_last(chunk):
                    held.append(chunk)
                else:
                    await out.write(event(chunk))
            await reading
        answer = self._answer()
        *before, last = held
        for chunk in before:
            await out.write(event(chunk))
        await out.write(event(last | {"speceyes": self._extension(answer)}))
        if self._call.body.include_usage:
            await out.write(event(last | {"choices": [], "usage": self._usage or None}))
        await out.write(DONE)
        await out.end()
        return answer

    async def _read(self, tell: Callable[[Json], None]) -> None:
        """Read the reply's stream, and tell its chunks as the client may see them."""
        events, finished = EventStream(), False
        async with self._upstream.forward(self._content()) as response:
            if "json" in response.headers.get("content-type", ""):  # a server that does not stream, or an error
                tell(self._renamed(_as_chunk(await self._reply(response))))
                return
            async for data in response.aiter_bytes():
                for payload in events.feed(data):
                    if payload == END:
                        continue
                    chunk = dict(read_json(self._where, payload))
                    self._check(chunk, "delta")
                    chunk.pop("usage", None)  # sent once, at the end, to those who asked
                    if chunk.get("choices"):
                        finished = finished or _is_last(chunk)
                        tell(self._renamed(chunk))
        if not finished:
            raise EngineUnreachable(f"{self._where}: the stream broke off before its end")

    async def _reply(self, response: httpx.Response) -> Json:
        """A reply in one piece."""
        reply = dict(read_json(self._where, (await response.aread()).decode("utf-8", "replace")))
        self._check(reply, "message")
        if not reply.get("choices"):
            raise EngineProtocolError(f"{self._where}: the reply has no choices")
        return reply

    def _content(self) -> bytes:
        """The request with the server's name for the model, and without what is for us."""
        fields = read_fields(self._call.raw)
        fields.pop("speceyes", None)
        changed: Json = {"model": self._model}
        if self._call.body.stream:
            changed["stream_options"] = {"include_usage": True}
        return msgspec.json.encode(fields | {name: msgspec.Raw(msgspec.json.encode(v)) for name, v in changed.items()})

    def _check(self, reply: Json, part: str) -> None:
        """Refuse what is an error in disguise, and note the text and the token counts."""
        if reply.get("error"):
            raise failures.from_error_object(self._where, reply)
        self._usage = reply.get("usage") or self._usage
        self._timings = reply.get("timings") or self._timings
        choices = reply.get("choices") or ()
        if not isinstance(choices, list | tuple) or not all(isinstance(choice, dict) for choice in choices):
            raise EngineProtocolError(f"{self._where}: `choices` is not a list of objects")
        for choice in choices[:1]:
            text = (choice.get(part) or {}).get("content")
            self._texts.append(text if isinstance(text, str) else "")
            self._cut = self._cut or choice.get("finish_reason") == "length"

    def _renamed(self, reply: Json) -> Json:
        envelope = self._call.envelope
        return reply | {"id": f"chatcmpl-{envelope.request_id}", "model": envelope.model}

    def _answer(self) -> Answer:
        usage = read_usage(self._usage, self._timings)
        spent: dict[str, Usage] = {self._model: usage}
        trace = Trace(
            self._reason,
            seconds=time.monotonic() - self._began,
            usage=spent,
            attempts={self._model: 1},
        )
        text, request_id = "".join(self._texts), self._call.envelope.request_id
        return Answer(text, trace, request_id, "length" if self._cut else "stop")

    def _extension(self, answer: Answer) -> Json:
        envelope = self._call.envelope
        return extension(envelope.request_id, answer, trace=self._call.body.options.trace)


def _is_last(chunk: Json) -> bool:
    """Whether a chunk gives the reason for the end of a choice."""
    return any(choice.get("finish_reason") for choice in chunk["choices"])


def _as_chunk(reply: Json) -> Json:
    """A whole reply as the only chunk of a stream."""
    choices = [
        {**choice, "delta": choice.get("message") or {}, "finish_reason": choice.get("finish_reason") or "stop"}
        for choice in reply["choices"]
    ]
    for choice in choices:
        choice.pop("message", None)
    kept = {name: value for name, value in reply.items() if name != "usage"}
    return kept | {"object": "chat.completion.chunk", "choices": choices}
