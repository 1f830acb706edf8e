"""One asynchronous client for every model server that speaks OpenAI's chat completions.

It streams (all but one-token requests with tools), so that a cancelled task closes its connection and the server stops
generating, and it is the one place where a model call is retried. The wire formats stand in `sse`, `assembly` and
`logprobs`, the errors in `failures`.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Protocol, Self, TypeVar

import httpx

from speceyes.engines import failures
from speceyes.engines.assembly import Assembly, read_json
from speceyes.engines.slot_leases import SlotLeases
from speceyes.engines.sse import DONE, EventStream
from speceyes.engines.trace_context import upstream_headers
from speceyes.engines.wire import api_base, is_loopback, request_content
from speceyes.errors import (
    ConfigError,
    EngineError,
    EngineOverloaded,
    EngineProtocolError,
    EngineTimeout,
)
from speceyes.types import ChatRequest, Completion, Delta

T = TypeVar("T")

OnDelta = Callable[[Delta], None]
"""Is told each piece of a reply's text as it arrives, on the event loop. What it raises ends the call."""

MAX_WAIT_S = 20.0
"""A server that asks for a longer pause than this is not waited for: its error goes to the caller at once."""

DRAIN_S = 0.2
"""Seconds to wait after the last event for the end of the response: only then is a connection used again."""


class Engine(Protocol):
    """A model as the phases see it."""

    @property
    def model(self) -> str:
        """The name by which the server knows the model."""

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        """Ask for one chat completion; `on_delta` hears its text meanwhile. A retry never repeats what it has heard."""


@dataclass(slots=True)
class Progress:
    """How far a call has come: which attempt of how many runs, and whether the server generates in it.

    `overloads` are the attempts before it that the server refused as too much, `server` is the base of the API that it
    goes to, where that is not the client's own. As long as none is `sent`, the call waits for a slot.
    """

    most: int
    attempt: int = 1
    started: bool = False
    overloads: int = 0
    server: str = ""
    sent: bool = False


class ChatClient:
    """Client of one model on one server. It may serve any number of tasks at a time, within one event loop.

    Args:
        url: The server's base, with or without `/v1`.
        model: The name by which the server knows the model.
        api_key: Sent as a bearer token; it appears in no message and no repr.
        timeout_s: Limit in seconds on a whole call, retries and pauses between them included.
        connect_timeout_s: Limit in seconds on making a connection.
        retries: Attempts after the first one. Only errors that a retry can help are retried, and only as long
            as no generated token has arrived.
        max_connections: Calls beyond this number wait for a free connection.
        name: What messages call this engine; the model's name by default.
        backoff_s: The pause before the first retry, in seconds. It doubles each time, and up to
            half of it is taken off at random.
        leases: Slots of a llama.cpp server, or of several like it, that get their calls from here alone; each call goes
            to one of them. None: the server chooses.

    Attributes:
        url: The base of the API, `/v1` included.
        model: As given.

    Raises:
        ConfigError: The URL or the key cannot be used.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 120,
        connect_timeout_s: float = 5,
        retries: int = 2,
        max_connections: int = 64,
        name: str = "",
        backoff_s: float = 0.25,
        leases: SlotLeases | None = None,
    ) -> None:
        if api_key and not re.fullmatch(r"[!-~]+", api_key):
            raise ConfigError("the API key holds characters that no HTTP header can carry (a space, a line end?)")
        self.url = api_base(url)
        self.model = model
        self.name = name or model
        self.timeout_s = timeout_s
        self.retries = retries
        self.backoff_s = backoff_s
        self._leases = leases
        self._api_key = api_key
        self._timeout = httpx.Timeout(None, connect=connect_timeout_s)
        self._limits = httpx.Limits(max_connections=max_connections, max_keepalive_connections=max_connections)
        self._http: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"ChatClient({str(httpx.URL(self.url).copy_with(userinfo=b''))!r}, model={self.model!r})"

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        """Ask for one chat completion and wait for all of it.

        Cancelling the awaiting task closes the connection, which makes the server stop.

        Args:
            request: What to ask for.
            on_delta: Is told each piece of text and of separated reasoning as it arrives; of a reply that does not
                stream, all of it at once. The pieces, joined, are the completion's `text` and `reasoning`.

        Raises:
            InputError: The request cannot be written as JSON.
            EngineError: The subclass says what went wrong; `failures.LogprobLimit` where K is above the
                server's limit.
        """
        # Not a closure: the frames of an error that is kept would hold on to it, and it to the listener.
        once = partial(self._complete_once, request, on_delta)
        return await self._retrying(once, request.max_attempts)

    async def models(self) -> list[str]:
        """The names of the models that the server offers.

        Raises:
            EngineError: The server did not answer, or not with a list of models.
        """
        return await self._retrying(self._models_once)

    async def aclose(self) -> None:
        """Close all connections. A closed client opens new ones when it is used again."""
        if self._http is not None and self._loop is asyncio.get_running_loop():
            await self._http.aclose()
        self._http = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _retrying(self, once: Callable[[Progress], Awaitable[T]], most: int | None = None) -> T:
        allowed = self.retries + 1
        progress = Progress(allowed if most is None else min(allowed, most))
        deadline = time.monotonic() + self.timeout_s
        try:
            async with asyncio.timeout(self.timeout_s) as limit:
                while True:
                    try:
                        return await once(progress)
                    except asyncio.CancelledError as broken_off:
                        broken_off.unsent = not progress.sent  # type: ignore[attr-defined]
                        raise
                    except EngineError as error:
                        self._scrub(error)
                        error.attempts = progress.attempt
                        wait = self._pause(error, progress)
                        if wait is None or time.monotonic() + wait >= deadline:
                            raise
                        progress.overloads += isinstance(error, EngineOverloaded)
                    await asyncio.sleep(wait)
                    progress.attempt += 1
        except TimeoutError as error:
            if not limit.expired():
                raise
            came = "the answer was begun but not complete" if progress.started else "no token had arrived"
            if not progress.sent:
                came = "no slot came free"
            limit_s = f"within {self.timeout_s:g} s (timeout_s)"
            late = EngineTimeout(f"{self._place(progress)}: {came} {limit_s}")
            late.attempts, late.unsent = progress.attempt if progress.sent else 0, not progress.sent
            raise late from error

    def _pause(self, error: EngineError, progress: Progress) -> float | None:
        """Seconds to wait before the next attempt, or None where there must not be one."""
        if not error.retryable or progress.started or progress.attempt >= progress.most:
            return None
        backoff = self.backoff_s * 2.0 ** (progress.attempt - 1) * random.uniform(0.5, 1.0)
        if error.retry_after is None:
            return min(backoff, MAX_WAIT_S)
        return max(backoff, error.retry_after) if error.retry_after <= MAX_WAIT_S else None

    async def _complete_once(self, request: ChatRequest, on_delta: OnDelta | None, progress: Progress) -> Completion:
        if self._leases is None:
            completion = await self._exchange(request, on_delta, progress)
        else:
            async with self._leases.place(request) as placed:
                progress.server = placed.server
                completion = await self._exchange(placed.request, on_delta, progress)
        usage = replace(completion.usage, calls=progress.attempt)
        return replace(completion, usage=usage, overloads=progress.overloads)

    async def _exchange(self, request: ChatRequest, on_delta: OnDelta | None, progress: Progress) -> Completion:
        progress.sent = True
        content = request_content(request, self.model)
        where = self._place(progress)
        asked = request.top_logprobs + 1 if request.top_logprobs else 0
        begin = time.perf_counter()
        try:
            async with self._connections().stream(
                "POST", f"{progress.server or self.url}/chat/completions", content=content, headers=self._headers()
            ) as response:
                if response.status_code != 200:
                    body = await response.aread()
                    raise failures.from_response(where, response.status_code, response.headers, body, asked=asked)
                assembly = Assembly(where, k=request.top_logprobs or None, begin=begin, on_delta=on_delta)
                if "event-stream" in response.headers.get("content-type", ""):
                    return await self._read_stream(response, assembly, progress)
                return _read_body(await _read_all(response, progress), assembly)
        except httpx.HTTPError as error:
            raise failures.from_transport(where, error) from error

    async def _read_stream(self, response: httpx.Response, assembly: Assembly, progress: Progress) -> Completion:
        events, chunks = EventStream(), response.aiter_bytes()
        try:
            async for data in chunks:
                for payload in events.feed(data):
                    if payload == DONE:
                        completion = assembly.completion(done=True)
                        await _drain(chunks)
                        return completion
                    assembly.add_text(payload)
                    progress.started = assembly.started
            for payload in events.close():
                if payload != DONE:
                    assembly.add_text(payload)
        except httpx.HTTPError:
            # Once the reason for the end has come, only the token counts can still be missing.
            if not assembly.finish_reason:
                raise
        return assembly.completion(done=False)

    async def _models_once(self, progress: Progress) -> list[str]:
        progress.sent = True
        where = self._place(progress)
        try:
            response = await self._connections().get(f"{self.url}/models", headers=self._headers())
        except httpx.HTTPError as error:
            raise failures.from_transport(where, error) from error
        if response.status_code != 200:
            raise failures.from_response(where, response.status_code, response.headers, response.content)
        rows = read_json(where, response.text).get("data")
        if not isinstance(rows, list):
            raise EngineProtocolError(f"{where}: the list of models has no `data`")
        return [str(row["id"]) for row in rows if isinstance(row, Mapping) and "id" in row]

    def _connections(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            # Sockets of another, finished event loop are dead: a script may call asyncio.run several times.
            url = httpx.URL(self.url)
            self._http = httpx.AsyncClient(
                timeout=self._timeout,
                limits=self._limits,
                # A proxy named in the environment cannot reach our own machine.
                trust_env=not is_loopback(url.host),
                # Plain HTTP needs no certificates, and loading them takes time.
                verify=url.scheme == "https",
            )
            self._loop = loop
        return self._http

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        headers |= upstream_headers()
        return headers | {"Authorization": f"Bearer {self._api_key}"} if self._api_key else headers

    def _place(self, progress: Progress) -> str:
        return self._where(progress.server) + (f" (attempt {progress.attempt})" if progress.attempt > 1 else "")

    def _where(self, server: str = "") -> str:
        host = httpx.URL(server or self.url)
        return f"{self.name} at {host.host}" + (f":{host.port}" if host.port else "")

    def _scrub(self, error: EngineError) -> None:
        """Take the key out of a message: some servers and proxies repeat the request's headers."""
        if not self._api_key:
            return
        said = str(error).replace(self._api_key, "***")
        for length in range(len(self._api_key) - 1, 2, -1):  # a message that is cut may end within the key
            said = said.replace(f"{self._api_key[:length]}…", "***…")
        error.args = (said,)


def was_sent(error: BaseException) -> bool:
    """Whether a call that ended so had been sent to a server. If not, it says nothing about that server."""
    return not getattr(error, "unsent", False)


def _read_body(body: bytes, assembly: Assembly) -> Completion:
    """A reply that is not marked as a stream: one JSON object, or events under a wrong content type."""
    text = body.decode("utf-8", "replace").strip()
    if text.startswith("data:"):
        events = EventStream()
        for payload in events.feed(body) + events.close():
            if payload != DONE:
                assembly.add_text(payload)
        return assembly.completion(done=False)
    return assembly.whole(text)


async def _read_all(response: httpx.Response, progress: Progress) -> bytes:
    """A whole body. Where it breaks off, or holds choices, tokens were generated: there is no second try."""
    progress.started = True
    body = await response.aread()
    progress.started = b'"choices"' in body
    return body


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in chunks:
                pass
