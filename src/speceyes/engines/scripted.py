"""A model server without a model: it answers what a script says, over a real socket, and keeps a ledger.

It is made for what real servers do seldom and tests need often: faults at an exact place, control over when
each chunk goes out, and a record of what arrived and of who hung up. It knows no language and no image; for
real answers take `embedded`. It speaks HTTP/1.1 on 127.0.0.1: `/v1/chat/completions` (with and without a
stream), `/v1/models`, `/health`.

    async with ScriptedServer([Reply("A cat.")]) as server, ChatClient(server.url, "any") as client:
        completion = await client.complete(request)
        assert server.completions[0].json["max_tokens"] == 16
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

import h11

from speceyes.engines.script import (
    Cut,
    Entry,
    Fault,
    Hang,
    Logprobs,
    Outcome,
    Pace,
    Payloads,
    Reply,
    Status,
    chunks,
    token_reply,
    whole_reply,
)
from speceyes.engines.scripted_http import ClientGoneError, Connection

__all__ = [
    "Cut",
    "Entry",
    "Fault",
    "Hang",
    "Logprobs",
    "Outcome",
    "Pace",
    "Payloads",
    "ReceivedRequest",
    "Reply",
    "Script",
    "ScriptedServer",
    "Status",
    "token_reply",
]

Script = Outcome | Sequence[Outcome] | Callable[[dict[str, Any], int], Outcome | Awaitable[Outcome]]
"""One answer for all requests, a list of one each, or a function of (request's JSON, its number from 0)."""


@dataclass(slots=True)
class ReceivedRequest:
    """One line of the ledger.

    Attributes:
        headers: Names in lower case.
        json: The parsed body; {} where there is none.
        when: `time.perf_counter()` when the request was complete.
        client: The client's address; the same for all requests over one connection.
        sent: Chunks of a stream that were sent.
        done: The server is finished with it, whatever the outcome.
        closed_by_client: The client closed the connection before its answer was complete.
    """

    method: str
    path: str
    headers: dict[str, str]
    json: dict[str, Any]
    when: float
    client: str = ""
    sent: int = 0
    done: bool = False
    closed_by_client: bool = False


@dataclass(eq=False)
class ScriptedServer:
    """A server on a free port of 127.0.0.1, as an asynchronous context manager.

    Args:
        script: What to answer to chat completions (those that `max_top_logprobs` does not refuse).
        models: Names for `/v1/models`.
        max_top_logprobs: The largest `top_logprobs` that is served; None for no limit.
        above_limit: "refuse" answers 400 as vLLM does, "clip" sends fewer without a word.
        api_key: Requests without this bearer token get 401.

    Attributes:
        requests: The ledger: all requests, in the order of their arrival.

    A script that runs out of answers or raises is answered with 500, and `__aexit__` raises its error.
    """

    script: Script
    models: Sequence[str] = ("scripted",)
    max_top_logprobs: int | None = None
    above_limit: Literal["refuse", "clip"] = "refuse"
    api_key: str | None = None
    requests: list[ReceivedRequest] = field(default_factory=list, init=False)
    _failures: list[Exception] = field(default_factory=list, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition, init=False)
    _server: asyncio.Server | None = field(default=None, init=False)
    _turn: int = field(default=0, init=False)

    @property
    def url(self) -> str:
        """The server's base, without `/v1`."""
        if self._server is None:
            raise RuntimeError("the scripted server is not running: use `async with`")
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    @property
    def completions(self) -> list[ReceivedRequest]:
        """The part of the ledger that asks for chat completions."""
        return [request for request in self.requests if request.path.endswith("/chat/completions")]

    @property
    def active(self) -> int:
        """How many requests are being answered now."""
        return sum(not request.done for request in self.requests)

    async def wait_for(self, n_requests: int, timeout_s: float = 10) -> None:
        """Wait until this many chat completions have been asked for."""
        await self.wait_until(lambda: len(self.completions) >= n_requests, timeout_s)

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float = 10) -> None:
        """Wait until a condition on the ledger holds. It is looked at whenever the ledger changes.

        Raises:
            TimeoutError: It did not come to hold.
        """
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failures and error is None:
            raise self._failures[0]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = Connection(reader, writer)
        try:
            while (event := await connection.next_request()) is not None:
                await self._serve(connection, *event)
        except (OSError, h11.RemoteProtocolError, asyncio.CancelledError):
            pass  # the client's end of the line, or the server's own: nobody is left to tell
        finally:
            connection.close()
            self._tasks.discard(task)

    async def _serve(self, connection: Connection, head: h11.Request, body: bytes) -> None:
        request = ReceivedRequest(
            method=head.method.decode(),
            path=head.target.decode().partition("?")[0],
            headers={name.decode(): value.decode("latin-1") for name, value in head.headers},
            json=_object(body),
            when=time.perf_counter(),
            client=connection.client,
        )
        self.requests.append(request)
        await self._tell()
        try:
            await connection.unless_client_leaves(self._answer(connection, request))
        except ClientGoneError:
            request.closed_by_client = True
        finally:
            request.done = True
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _answer(self, connection: Connection, request: ReceivedRequest) -> None:
        path = request.path.removeprefix("/v1")
        if self.api_key and request.headers.get("authorization") != f"Bearer {self.api_key}":
            await connection.send_json(401, _error("Incorrect API key.", 401))
        elif path == "/health":
            await connection.send_json(200, {"status": "ok"})
        elif path == "/models":
            rows = [{"id": name, "object": "model", "owned_by": "scripted"} for name in self.models]
            await connection.send_json(200, {"object": "list", "data": rows})
        elif path == "/chat/completions" and request.method == "POST":
            await self._complete(connection, request)
        else:
            await connection.send_json(404, _error(f"No such path: {request.method} {request.path}", 404))

    async def _complete(self, connection: Connection, request: ReceivedRequest) -> None:
        asked, limit = int(request.json.get("top_logprobs") or 0), self.max_top_logprobs
        if limit is not None and asked > limit and self.above_limit == "refuse":
            said = f"Requested sample logprobs of {asked}, which is greater than max allowed: {limit}"
            await connection.send_json(400, _error(said, 400))
            return
        turn, self._turn = self._turn, self._turn + 1
        try:
            answer = await self._scripted(request.json, turn)
        except Exception as error:
            self._failures.append(error)
            await connection.send_json(500, _error(f"the script failed: {error!r}", 500))
            return
        shown = request.json | {"top_logprobs": asked if limit is None else min(asked, limit)}
        await self._perform(connection, request, answer, shown)

    async def _scripted(self, request: dict[str, Any], turn: int) -> Outcome:
        if isinstance(self.script, Reply | Status | Payloads | Hang | Cut):
            return self.script
        if callable(self.script):
            answer = self.script(request, turn)
            return await answer if inspect.isawaitable(answer) else answer
        if turn >= len(self.script):
            raise IndexError(f"request {turn + 1} came, but the script has {len(self.script)} answers")
        return self.script[turn]

    async def _perform(
        self,
        connection: Connection,
        request: ReceivedRequest,
        answer: Outcome,
        shown: Mapping[str, Any],
    ) -> None:
        """Carry out one answer; `shown` is the request as the script's server understands it."""
        match answer:
            case Status(code, body, headers):
                await connection.send(code, body, headers)
            case Payloads(events, pace):
                await connection.start_events()
                for event in events:
                    await self._event(connection, request, event, pace)
                await connection.end_events()
            case Hang(reply, count) | Cut(reply, count):
                await self._some_events(connection, request, reply, count, shown)
                if isinstance(answer, Hang):
                    await asyncio.Event().wait()
                connection.close(reset=isinstance(answer, Cut) and answer.reset)
            case Reply() if request.json.get("stream") and answer.stream:
                await self._some_events(connection, request, answer, None, shown)
                await connection.send_event("[DONE]")
                await connection.end_events()
            case Reply():
                if answer.pace is not None:
                    await answer.pace()
                await connection.send_json(200, whole_reply(answer, shown))

    async def _some_events(
        self,
        connection: Connection,
        request: ReceivedRequest,
        reply: Reply,
        count: int | None,
        shown: Mapping[str, Any],
    ) -> None:
        """The first `count` chunks of a reply, or all of them; nothing at all, not even headers, for 0."""
        if count == 0:
            return
        await connection.start_events()
        for chunk in list(chunks(reply, shown))[:count]:
            await self._event(connection, request, chunk, reply.pace)

    async def _event(
        self,
        connection: Connection,
        request: ReceivedRequest,
        event: str | Mapping[str, Any],
        pace: Pace | None,
    ) -> None:
        if pace is not None:
            await pace()
        await connection.send_event(event if isinstance(event, str) else json.dumps(event))
        request.sent += 1
        await self._tell()


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _error(message: str, code: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": "scripted", "param": None, "code": code}}
