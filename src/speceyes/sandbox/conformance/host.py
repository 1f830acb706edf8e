"""What is planted outside a sandbox while it is attacked: secrets, listeners, and a process to hit."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from speceyes.sandbox.base import Outcome

VARIABLE = "SPECEYES_CONFORMANCE_SECRET"


@dataclass(slots=True)
class Host:
    """The planted things. No secret stands in the code of an attack; it has to be read to be told.

    Attributes:
        folder: A folder of this machine that everybody may read.
        secret: What the planted file, the environment variable and the process's arguments hold.
        file: The planted file.
        local_socket: A listener's socket file in the folder.
        abstract_socket: A listener's name, without the zero byte.
        tcp_port: Of a listener on 127.0.0.1.
        udp_port: The same.
        victim: A process of this user.
        callers: Connections and packets that reached a listener.
    """

    folder: Path
    secret: str
    file: Path
    local_socket: Path
    abstract_socket: str
    tcp_port: int = 0
    udp_port: int = 0
    victim: int = 0
    callers: list[str] = field(default_factory=list)
    _victim: asyncio.subprocess.Process | None = None

    def harm(self, outcomes: list[Outcome]) -> str | None:
        """What the attacks have reached so far: None, or a sentence."""
        if self.callers:
            return f"the host was reached: {self.callers.pop()}"
        if self._victim is not None and self._victim.returncode is not None:
            return "a process of the host was ended"
        if self.file.read_text() != self.secret:
            return "a file of the host was changed"
        known = {self.file, self.local_socket}
        if extra := [path.name for path in self.folder.iterdir() if path not in known]:
            return f"a file was made on the host: {extra[0]}"
        for outcome in outcomes:
            if self.secret in repr((outcome.stdout, outcome.stderr, outcome.error, outcome.notes, outcome.files)):
                return "a secret of the host was told"
        return None


class _Packets(asyncio.DatagramProtocol):
    def __init__(self, host: Host) -> None:
        self._host = host

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        self._host.callers.append(f"a packet of {len(data)} bytes")


@asynccontextmanager
async def planted() -> AsyncIterator[Host]:
    """A host with all of it, for as long as the context lasts."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speceyes-conformance-")))
        folder.chmod(0o755)  # noqa: ASYNC240 - a moment, and nobody waits for this loop
        secret = secrets.token_hex(16)
        host = Host(folder, secret, folder / "secret.txt", folder / "socket", f"speceyes-{secrets.token_hex(6)}")
        host.file.write_text(secret)
        host.file.chmod(0o666)
        os.environ[VARIABLE] = secret
        stack.callback(os.environ.pop, VARIABLE, None)

        async def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            host.callers.append("a connection")
            writer.close()

        server = await asyncio.start_server(called, "127.0.0.1", 0)
        host.tcp_port = server.sockets[0].getsockname()[1]
        names = (str(host.local_socket), f"\0{host.abstract_socket}")
        servers = [server, *[await asyncio.start_unix_server(called, name) for name in names]]
        host.local_socket.chmod(0o777)
        loop = asyncio.get_running_loop()
        packets, _ = await loop.create_datagram_endpoint(lambda: _Packets(host), ("127.0.0.1", 0))
        host.udp_port = packets.get_extra_info("sockname")[1]
        for each in servers:
            stack.callback(each.close)
        stack.callback(packets.close)
        sleep = "import time; time.sleep(3600)"
        host._victim = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", sleep, secret)
        host.victim = host._victim.pid
        try:
            yield host
        finally:
            if host._victim.returncode is None:
                host._victim.kill()
            await host._victim.wait()
