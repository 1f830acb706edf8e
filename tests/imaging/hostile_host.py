"""A web server on loopback that answers as a test says, byte by byte, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_network

from PIL import Image

from speceyes.imaging.addresses import AddressPolicy, Resolver
from speceyes.imaging.fetch import Fetcher, FetchLimits

Handler = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Host:
    """One server. `requests` holds each request's head as text, `left` is set when a client closes."""

    port: int = 0
    requests: list[str] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def paths(self) -> list[str]:
        return [request.split(" ")[1] for request in self.requests]

    def header(self, name: str, number: int = -1) -> str | None:
        for line in self.requests[number].split("\r\n")[1:]:
            found, _, value = line.partition(":")
            if found.lower() == name:
                return value.strip()
        return None


@asynccontextmanager
async def hosting(handler: Handler, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None, port: int = 0):
    """Serve: `handler(path, writer)` writes the raw response."""
    host = Host()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                host.requests.append(head)
                await handler(head.split(" ")[1], writer)
                await writer.drain()
        finally:
            host.left.set()
            writer.close()

    server = await asyncio.start_server(serve, address, port, ssl=tls)
    host.port = server.sockets[0].getsockname()[1]
    try:
        yield host
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def picture(colour: str = "red") -> bytes:
    """A small PNG."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(buffer, "PNG")
    return buffer.getvalue()


def response(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """A whole response; `content_type="x"` is the header content-type."""
    fields = {"content-length": str(len(body))} | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def always(data: bytes) -> Handler:
    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return handler


def known(**names: str | list[str]) -> Resolver:
    """A resolver that knows these names; underscores stand for dots."""
    table = {name.replace("_", "."): [found] if isinstance(found, str) else found for name, found in names.items()}

    async def resolve(host: str) -> list[str]:
        if host not in table:
            raise OSError("no such name")
        return table[host]

    return resolve


LOOPBACK = ip_network("127.0.0.0/8")


def local_fetcher(*hosts: Host, limits: FetchLimits | None = None, resolve: Resolver | None = None, **more) -> Fetcher:
    """For tests only: a fetcher that may dial this machine, at the ports of these servers."""
    tls = more.pop("tls", None)
    policy = AddressPolicy(allow_networks=(LOOPBACK,), ports=tuple(host.port for host in hosts), **more)
    return Fetcher(limits, policy, resolve=resolve or known(pictures_test="127.0.0.1"), tls=tls)
