"""One HTTP exchange over ASGI: what to send, when it was begun, and what happens when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from typing import Any

from speceyes.gateway.wire.errors import ApiError
from speceyes.gateway.wire.stream import CONTENT_TYPE, failure

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

REQUEST_ID = "x-speceyes-request-id"


class Outgoing:
    """The response of one request. Its status and headers go out with the first byte of its body.

    Args:
        send: ASGI's.
        request_id: Goes out as a header, whatever the response is.

    Attributes:
        status: What was sent; None as long as nothing was.
        ended: The response is complete.
    """

    def __init__(self, send: Send, request_id: str) -> None:
        self.status: int | None = None
        self.ended = False
        self._send = send
        self._request_id = request_id

    async def whole(self, body: bytes, headers: Mapping[str, str] | None = None, *, status: int = 200) -> None:
        """A JSON body in one piece."""
        length = {"content-type": "application/json", "content-length": str(len(body))}
        await self._start(status, length | dict(headers or {}))
        await self._body(body, more=False)

    async def begin_events(self, headers: Mapping[str, str] | None = None) -> None:
        """The head of a stream of events."""
        # The last header asks nginx not to hold the events back.
        never = {"content-type": CONTENT_TYPE, "cache-control": "no-cache", "x-accel-buffering": "no"}
        await self._start(200, never | dict(headers or {}))

    async def write(self, data: bytes) -> None:
        """A piece of a stream."""
        await self._body(data, more=True)

    async def end(self) -> None:
        """The end of a stream."""
        await self._body(b"", more=False)

    async def fail(self, error: ApiError) -> None:
        """An error: as a response of its own, or, where a stream has begun, as its last event."""
        if self.ended:
            return
        if self.status is None:
            await self.whole(error.encoded(), error.headers, status=error.status)
        else:
            await self.write(failure(error))
            await self.end()

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        pairs = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
        pairs.append((REQUEST_ID.encode(), self._request_id.encode()))
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def _body(self, data: bytes, *, more: bool) -> None:
        self.ended = not more
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


async def unless_client_leaves(receive: Receive, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work, and cancel it when the client closes the connection. The request's body must have been read.

    Returns:
        Whether the work came to its end. False: the client left, and the work has been cancelled and is over.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            await working
            return True
        return False
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
