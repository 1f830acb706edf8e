"""A request's body, read whole within limits: on its size, on the time that it takes, and on what all bodies take.

The announced length is checked before anything is read, and the memory for it is reserved before anything is kept. So
twenty requests of 60 MB wait for each other and do not end the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from speceyes.errors import ConfigError
from speceyes.gateway.access.memory import MemoryBudget
from speceyes.gateway.access.refusals import BodyTooSlow, ClientGone, Full
from speceyes.gateway.wire.errors import ApiError, bad_request, too_large

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
"""As ASGI has it."""
Headers = Iterable[tuple[bytes, bytes]]

_LINGER_S = 2.0
_BUSY_HINT_S = 5.0


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What a body may cost.

    Attributes:
        max_bytes: Of one body.
        max_total_bytes: Of all bodies that are held at a time.
        timeout_s: Seconds for a whole body.
        min_bytes_per_s: A body that comes more slowly than this is given up, after `grace_s`.
        grace_s: Seconds in which a body may be slow.
        max_wait_s: Seconds that a request waits for memory.
    """

    max_bytes: int = 96 * 1024**2
    max_total_bytes: int = 768 * 1024**2
    timeout_s: float = 120.0
    min_bytes_per_s: int = 16 * 1024
    grace_s: float = 10.0
    max_wait_s: float = 15.0


class Bodies:
    """Reads bodies.

    Args:
        limits: What they may cost.

    Attributes:
        memory: What all of them take.

    Raises:
        ConfigError: One body may be larger than all together.
    """

    def __init__(self, limits: BodyLimits | None = None) -> None:
        self.limits = limits or BodyLimits()
        if self.limits.max_bytes > self.limits.max_total_bytes:
            raise ConfigError(
                f"a body may have {self.limits.max_bytes:,} bytes, and all of them together only "
                f"{self.limits.max_total_bytes:,}: raise access.max_total_body_bytes, or lower serve.max_body_bytes"
            )
        self.memory = MemoryBudget(self.limits.max_total_bytes)

    @asynccontextmanager
    async def read(self, headers: Headers, receive: Receive) -> AsyncIterator[bytes | bytearray]:
        """Read a body and hold it; its memory counts until the block ends.

        Args:
            headers: Of the request, names in lower case.
            receive: The request's ASGI channel.

        Raises:
            ApiError: 400 where the length is no number, 413 where the body is too large, 415 where it is compressed.
            BodyTooSlow: It did not come in time.
            ClientGone: The client left meanwhile.
            Full: The bodies of other requests take all memory.
        """
        named = {name.lower(): value for name, value in headers}
        if named.get(b"content-encoding", b"identity").strip().lower() not in (b"identity", b""):
            # A few bytes could unpack to gigabytes, and images do not get smaller by it.
            raise ApiError(415, "A compressed body is not accepted; send it as it is.", code="unsupported_encoding")
        size = self._announced(named.get(b"content-length"))
        if size is not None and size > self.limits.max_bytes:
            if named.get(b"expect", b"").lower() != b"100-continue":
                await self._linger(receive)
            raise self._too_large(f"a body of {size:,} bytes")
        async with AsyncExitStack() as held:
            memory = self.memory.hold(self.limits.max_bytes if size is None else size, self.limits.max_wait_s)
            try:
                holding = await held.enter_async_context(memory)
            except TimeoutError:
                raise Full(_BUSY_HINT_S, "Too many large requests are under way.") from None
            body = await self._whole(receive)
            holding.shrink(len(body))
            yield body

    def _announced(self, length: bytes | None) -> int | None:
        if length is None:
            return None
        if not length.isdigit() or len(length) > 18:
            raise bad_request("The header Content-Length is not a number of bytes.")
        return int(length)

    def _too_large(self, what: str) -> ApiError:
        return too_large(f"The limit for a request is {self.limits.max_bytes:,} bytes, and this is {what}.")

    async def _whole(self, receive: Receive) -> bytes | bytearray:
        body = bytearray()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            pace = self.limits.grace_s + len(body) / self.limits.min_bytes_per_s
            try:
                async with asyncio.timeout_at(began + min(pace, self.limits.timeout_s)):
                    message = await receive()
            except TimeoutError:
                raise BodyTooSlow(len(body)) from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunk: bytes = message.get("body", b"")
            if len(body) + len(chunk) > self.limits.max_bytes:
                body.clear()
                if message.get("more_body", False):
                    await self._linger(receive)
                raise self._too_large("more than that")
            if not message.get("more_body", False) and not body:
                return chunk  # all in one piece: no copy
            body += chunk
            if not message.get("more_body", False):
                return body

    async def _linger(self, receive: Receive) -> None:
        """Read on for a moment and throw away what comes, before a refusal is sent.

        A server that closes while the client still sends makes the client's system drop the answer, and people then see
        a broken connection in place of the limit's number.
        """
        left = self.limits.max_bytes
        try:
            async with asyncio.timeout(_LINGER_S):
                while left > 0:
                    message = await receive()
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        return
                    left -= len(message.get("body", b""))
        except TimeoutError:
            return
