"""A model's server as the gateway knows it: the client and the circuit breaker before it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from speceyes.engines.breaker import CircuitBreaker
from speceyes.engines.client import ChatClient, Engine
from speceyes.engines.forward import forward


@dataclass(frozen=True, slots=True)
class Upstream:
    """One model's server.

    Attributes:
        client: Of the server.
        breaker: Decides whether it is asked.
    """

    client: ChatClient
    breaker: CircuitBreaker

    @classmethod
    def of(cls, engine: Engine) -> Upstream:
        """The server behind an engine of a funnel in service."""
        assert isinstance(engine, CircuitBreaker), "a funnel in service has a breaker before each server"
        assert isinstance(engine.engine, ChatClient), "what is passed on needs a server"
        return cls(engine.engine, engine)

    @asynccontextmanager
    async def forward(self, content: bytes) -> AsyncIterator[httpx.Response]:
        """A request passed on as it is, unless the server is down. As `engines.forward`, with the same errors."""
        with self.breaker.call() as alive:
            async with forward(self.client, content) as response:
                alive()
                yield response
