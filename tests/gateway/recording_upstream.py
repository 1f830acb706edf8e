"""A model server that keeps every byte that it gets, and answers with given bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Pieces = Sequence[bytes]


@dataclass
class Recorded:
    """One request, byte by byte."""

    headers: dict[str, str]
    body: bytes


@dataclass
class RecordingUpstream:
    """What came, and where. `reply` gives the head and the pieces of the body for each body that comes."""

    url: str
    reply: Callable[[bytes], tuple[str, Pieces]]
    requests: list[Recorded] = field(default_factory=list)


def sse(*pieces: bytes, head: str = "") -> tuple[str, Pieces]:
    return f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{head}", pieces


def whole(body: bytes, status: str = "200 OK", kind: str = "application/json", head: str = "") -> tuple[str, Pieces]:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{head}", (body,)


@asynccontextmanager
async def recording(reply: Callable[[bytes], tuple[str, Pieces]]) -> AsyncIterator[RecordingUpstream]:
    """Serve until the block ends. Each piece of a body is a chunk of its own."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            pairs = (line.partition(":") for line in head.split("\r\n")[1:] if line)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            upstream.requests.append(Recorded(headers, body))
            first, pieces = upstream.reply(body)
            writer.write(f"{first}connection: close\r\ntransfer-encoding: chunked\r\n\r\n".encode())
            for piece in pieces:
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    upstream = RecordingUpstream(f"http://{host}:{port}", reply)
    async with server:
        yield upstream
