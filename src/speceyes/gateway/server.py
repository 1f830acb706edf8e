"""The process: a socket, uvicorn on it, and signals.

SIGTERM and SIGINT end it in order: nothing new is accepted, what runs may finish for `serve.drain_s`, the rest is told
that the server closes, and the exit code is 0. A second signal does not wait.
"""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from speceyes.config import ServeSettings, Settings
from speceyes.engines.wire import is_loopback
from speceyes.errors import ConfigError
from speceyes.gateway.app import create_app
from speceyes.gateway.serving import open_gateway
from speceyes.gateway.startup import check_upstreams

Say = Callable[[str], None]

_IDLE_S = 75
"""Seconds that an idle connection stays open: longer than clients keep theirs, so that they close first."""


def serve(settings: Settings, *, ready: Say, warn: Say, say: Say) -> None:
    """Serve until a signal comes.

    Args:
        settings: All of them.
        ready: Is told the base URL, once requests are answered.
        warn: Is told what is not as it should be.
        say: Is told what is being done until then.

    Raises:
        ConfigError: The settings cannot be carried out, or the address cannot be had.
        EngineError: A model's server cannot be reached or does not start.
    """
    check_exposure(settings)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings, ready, warn, say))


async def _serve(settings: Settings, ready: Say, warn: Say, say: Say) -> None:
    with listen_on(settings.serve) as listener:  # a port that is taken shows before any model is loaded
        say("Starting the models")
        async with open_gateway(settings) as gateway:
            if settings.serve.check_upstreams:
                for warning in await check_upstreams(gateway, settings, say):
                    warn(warning)
            server = _Server(uvicorn_config(create_app(gateway), settings.serve), lambda: ready(base_url(listener)))
            await server.serve(sockets=[listener])


def check_exposure(settings: Settings) -> None:
    """Refuse to be open to a network without a key, unless that is wanted.

    Raises:
        ConfigError: It would be.
    """
    serve, access = settings.serve, settings.access
    has_keys = access.keys_file is not None or access.api_key is not None
    if not (has_keys or serve.allow_unauthenticated or is_loopback(serve.host)):
        raise ConfigError(
            f"{serve.host} can be reached from other machines, and there is no API key. Make one with `speceyes keys "
            "create` and name the file (--api-key-file), listen on 127.0.0.1, or say --allow-unauthenticated"
        )


def listen_on(chosen: ServeSettings) -> socket.socket:
    """A listening socket at the address of the settings.

    Raises:
        ConfigError: It cannot be had.
    """
    place = f"{chosen.host}:{chosen.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            chosen.host, chosen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"cannot listen on {place}: {error.strerror or error} (--host, serve.host)") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {place}: {error.strerror or error}. Choose another port (--port; 0 takes a free one)"
        ) from error
    return listener


def base_url(listener: socket.socket) -> str:
    """What to give a client as its base URL. For a socket on all addresses, the one of this machine's loopback."""
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    shown = f"[{address}]" if address.version == 6 else str(address)
    return f"http://{shown}:{port}/v1"


def uvicorn_config(app: ASGIApp, chosen: ServeSettings) -> uvicorn.Config:
    """How uvicorn serves the app."""
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=max(1, round(chosen.drain_s)),
        backlog=2048,
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one."""
    try:
        import uvloop
    except ImportError:  # not made for Windows
        return None
    return uvloop.new_event_loop


class _Server(uvicorn.Server):
    """uvicorn, with signals that end it with exit code 0, and a word when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """In place of uvicorn's, which ends the process by the signal itself. The handlers stay: what is closed after
        the server is closed in order too."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
