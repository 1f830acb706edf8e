"""`POST /v1/chat/completions`, from the first byte to the last: body, place, answer, and whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
import uuid

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from speceyes.errors import EngineError
from speceyes.gateway.access.auth import ANYBODY, KeyInfo
from speceyes.gateway.access.refusals import ClientGone
from speceyes.gateway.calls import Call, read_call
from speceyes.gateway.exchange import Outgoing, unless_client_leaves
from speceyes.gateway.managed import answer_call
from speceyes.gateway.observe import Observation
from speceyes.gateway.passing import pass_on
from speceyes.gateway.serving import Gateway
from speceyes.gateway.transparent import answer_turn
from speceyes.gateway.wire.errors import SERVER, ApiError, closing, from_error, from_single_call
from speceyes.store import CLIENT_GONE

_log = logging.getLogger(__name__)

KEY = "speceyes.key"
"""Where in the scope the door keeps who asks."""


def new_request_id() -> str:
    """A name for a request that no other one has."""
    return uuid.uuid4().hex


class ChatResponse(Response):
    """Reads the request and answers it. It is an ASGI response of its own, since only so it sees the client leave."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = new_request_id()
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        seen = self._gateway.observer.started(request_id, headers)
        await _Exchange(self._gateway, scope.get(KEY, ANYBODY), Outgoing(send, request_id), seen).run(scope, receive)


class _Exchange:
    """One chat request and its response."""

    def __init__(self, gateway: Gateway, key: KeyInfo, out: Outgoing, seen: Observation) -> None:
        self._gateway, self._key, self._out, self._seen = gateway, key, out, seen
        if key is not ANYBODY:
            seen.key = key.name
            gateway.observer.metrics.known_key(key.name)

    async def run(self, scope: Scope, receive: Receive) -> None:
        """Read, answer, and tell the client what goes wrong. It raises nothing."""
        try:
            async with self._gateway.access.bodies.read(scope["headers"], receive) as raw:
                if not await unless_client_leaves(receive, self._serve(raw)):
                    self._seen.finished(CLIENT_GONE)
        except ClientGone as error:
            self._seen.finished(CLIENT_GONE, error=error)
        except asyncio.CancelledError as error:
            # Only a server that closes cancels a request from outside, and it does so once its patience is over.
            await self._fail(closing(), error)
        except Exception as error:
            told = from_error(error, self._seen.id)
            if told.code == "internal_error":
                _log.exception("request %s failed", self._seen.id)
            await self._fail(told, error)

    async def _serve(self, raw: bytes | bytearray) -> None:
        call = read_call(raw, self._gateway.names, self._seen.id)
        self._note(call)
        limit = self._deadline_s(call)
        async with self._gateway.access.admission.admit(self._key, max_wait_s=limit - self._seen.seconds):
            try:
                async with asyncio.timeout(limit - self._seen.seconds):
                    await self._respond(call, limit)
            except TimeoutError as error:
                raise _too_late(limit) from error

    async def _respond(self, call: Call, limit_s: float) -> None:
        if call.client_loop is not None:
            await answer_turn(self._gateway, call, self._out, self._seen)
        elif call.has_images:
            answer = await answer_call(self._gateway, call, self._out, self._seen, deadline_s=limit_s)
            self._seen.finished(200, answer=answer)
        else:
            try:
                answer = await pass_on(self._gateway, call, self._out, self._seen)
            except EngineError as error:
                await self._fail(from_single_call(error), error)
                return
            self._seen.finished(200, reason=answer.reason, usage=answer.trace.usage, text=answer.text)

    async def _fail(self, told: ApiError, error: BaseException) -> None:
        await self._out.fail(told)
        self._seen.finished(told.status, error=error)

    def _note(self, call: Call) -> None:
        body, seen = call.body, self._seen
        seen.model, seen.streamed = body.model, bool(body.stream)
        seen.user, seen.metadata = body.user or body.safety_identifier, body.metadata or {}

    def _deadline_s(self, call: Call) -> float:
        settings = self._gateway.settings
        limits = (settings.serve.deadline_s, settings.funnel.deadline_s, call.body.options.deadline_s)
        return min(limit for limit in limits if limit is not None)


def _too_late(limit_s: float) -> ApiError:
    message = f"There was no answer within {limit_s:g} s, the deadline of this request."
    return ApiError(504, message, kind=SERVER, code="deadline_exceeded", retry=False)
