"""One HTTP/1.1 connection of the scripted server: h11 for the grammar, asyncio streams for the bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

import h11


class ClientGoneError(Exception):
    """The client closed the connection while its request was being answered."""


class Connection:
    """One client's connection, with keep-alive. `client` is its address, host:port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)
        host, port = writer.get_extra_info("peername")[:2]
        self.client = f"{host}:{port}"

    async def next_request(self) -> tuple[h11.Request, bytes] | None:
        """The next request and its body, or None when the client has closed or asked for no more.

        Raises:
            h11.RemoteProtocolError: What came is not HTTP.
        """
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._http.our_state is not h11.IDLE:
            return None
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._write(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._reader.read(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return head, bytes(body)
            else:
                return None

    async def unless_client_leaves(self, answer: Coroutine[Any, Any, None]) -> None:
        """Run the sending of an answer, and stop it when the client closes the connection.

        Raises:
            ClientGoneError: The client closed before the answer was complete.
        """
        sending = asyncio.ensure_future(answer)
        watching = asyncio.ensure_future(self._client_left())
        try:
            await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise ClientGoneError
            sending.result()
        except ConnectionError as error:
            raise ClientGoneError from error
        finally:
            for task in (sending, watching):
                task.cancel()
            await asyncio.gather(sending, watching, return_exceptions=True)

    async def _client_left(self) -> None:
        """Return when the client has closed. What it sends meanwhile is kept for the next request."""
        with suppress(ConnectionError):
            while data := await self._reader.read(65536):
                self._http.receive_data(data)

    async def send(
        self, code: int, body: str | bytes | Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole response. A mapping goes as JSON.

        Where `headers` claim more bytes than the body has, the connection closes after the body.
        """
        kind = "text/plain; charset=utf-8"
        if isinstance(body, Mapping):
            body, kind = json.dumps(body), "application/json"
        data = body.encode() if isinstance(body, str) else body
        given = {name.lower(): value for name, value in (headers or {}).items()}
        fields = {"content-type": kind, "content-length": str(len(data))} | given
        await self._write(h11.Response(status_code=code, headers=list(fields.items())))
        await self._write(h11.Data(data=data))
        try:
            await self._write(h11.EndOfMessage())
        except h11.LocalProtocolError:
            self.close()

    async def send_json(self, code: int, body: Mapping[str, Any]) -> None:
        """Send a whole response in JSON."""
        await self.send(code, body)

    async def start_events(self) -> None:
        """Begin a response of server-sent events."""
        fields = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]
        await self._write(h11.Response(status_code=200, headers=fields))

    async def send_event(self, data: str) -> None:
        """Send one event."""
        await self._write(h11.Data(data=f"data: {data}\n\n".encode()))

    async def end_events(self) -> None:
        """End the response in order."""
        await self._write(h11.EndOfMessage())

    def close(self, *, reset: bool = False) -> None:
        """Close the connection, or break it."""
        if reset:
            self._writer.transport.abort()
        else:
            self._writer.close()

    async def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()
