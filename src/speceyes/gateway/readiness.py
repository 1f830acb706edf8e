"""Whether the models' servers answer, asked seldom and never twice at the same time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from speceyes.engines.client import ChatClient
from speceyes.errors import EngineError, EngineProtocolError, EngineRefused, EngineTimeout
from speceyes.gateway.upstream import Upstream

PATIENCE_S = 3.0
"""Seconds that a server may take to list its models."""
FRESH_S = 2.0
"""Seconds for which a result serves again: whoever asks more often learns nothing more."""


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of one model's server.

    Attributes:
        model: The model's name there.
        answers: Whether the server answered just now.
        error: Why not.
        circuit: State of its circuit breaker.
    """

    model: str
    answers: bool
    error: str | None
    circuit: str

    def as_json(self) -> dict[str, Any]:
        """For `/ready`."""
        return {"model": self.model, "answers": self.answers, "circuit": self.circuit, "error": self.error}


class Readiness:
    """Asks both servers.

    Args:
        draft: The draft's.
        agent: The agent's.
    """

    def __init__(self, draft: Upstream, agent: Upstream) -> None:
        self._servers = {"draft": draft, "agent": agent}
        self._lock = asyncio.Lock()
        self._found: dict[str, Health] = {}
        self._when = -FRESH_S

    async def check(self) -> dict[str, Health]:
        """Both servers by role; at most `FRESH_S` old."""
        async with self._lock:
            if time.monotonic() - self._when >= FRESH_S:
                found = await asyncio.gather(*map(_asked, self._servers.values()))
                self._found = dict(zip(self._servers, found, strict=True))
                self._when = time.monotonic()
            return self._found


def report(found: dict[str, Health]) -> tuple[int, dict[str, Any]]:
    """Status and body of `/ready`: without the agent nothing can be promised, without the draft all is slower."""
    agent, draft = found["agent"].answers, found["draft"].answers
    status = "ready" if agent and draft else "degraded" if agent else "not ready"
    body = {"status": status} | {role: upstream.as_json() for role, upstream in found.items()}
    return 200 if agent else 503, body


async def _asked(server: Upstream) -> Health:
    error = await _error_of(server.client) or server.breaker.misconfigured
    said = None if error is None else str(error)
    return Health(server.client.model, error is None, said, server.breaker.state)


async def _error_of(client: ChatClient) -> EngineError | None:
    """What keeps a server from listing its models; None where it answers."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await client.models()
    except (EngineRefused, EngineProtocolError) as error:
        # Not every server lists its models; a refusal is an answer, unless it concerns our key.
        answers = error.status is not None and error.status not in (401, 403) and error.status < 500
        return None if answers else error
    except EngineError as error:
        return error
    except TimeoutError:
        return EngineTimeout(f"{client.name}: no answer within {PATIENCE_S:g} s")
    return None
