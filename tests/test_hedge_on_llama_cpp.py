"""An accepted draft ends the agent's work also inside a real server: by llama.cpp's own slots and counters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import httpx

from speceyes.config import load_settings
from speceyes.engines.client import ChatClient, Engine, OnDelta
from speceyes.evals.datasets.samples import make_samples
from speceyes.funnel import Funnel
from speceyes.phases import AgentModel
from speceyes.types import Answer, ChatRequest, Completion, Query, Reason, Sampling
from speceyes.wiring.funnel import make_funnel, open_agent, open_draft

TOKENS = 3500
"""Of a turn that nobody ends: many seconds of work."""
ENDLESS = Sampling(extra={"ignore_eos": True, "stop": [], "max_tokens": TOKENS})
ACCEPT_ALL = {"agent.copies": 1, "funnel.plan": "hedged", "gate.threshold": 0.0, "gate.screen_threshold": 1.0}
HANGS_S = 60
"""Seconds after which a wait has hung: no measure of speed."""


@dataclass
class Server:
    """What a llama.cpp says of itself."""

    url: str

    async def page(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False) as http:
            return await http.get(self.url.removesuffix("/v1") + path)

    async def counter(self, name: str) -> int:
        lines = (await self.page("/metrics")).text.splitlines()
        (value,) = (line.split()[1] for line in lines if line.startswith(f"llamacpp:{name} "))
        return int(float(value))

    async def busy(self) -> list[int]:
        """Tokens written so far in each slot that is at work."""
        slots = (await self.page("/slots")).json()
        return [slot["next_token"][0]["n_decoded"] for slot in slots if slot["is_processing"]]

    async def until(self, holds: Callable[[list[int]], bool]) -> None:
        async with asyncio.timeout(HANGS_S):
            while not holds(await self.busy()):
                pass


@dataclass
class Late:
    """A draft that is asked only when something has happened."""

    engine: Engine
    before: Callable[[], Awaitable[object]]

    @property
    def model(self) -> str:
        return self.engine.model

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        await self.before()
        return await self.engine.complete(request, on_delta=on_delta)


def endless() -> Query:
    (sample,) = make_samples(1, 3)
    return replace(sample.query(), sampling=ENDLESS)


def server_of(agent: AgentModel) -> Server:
    assert isinstance(agent.engine, ChatClient)
    return Server(agent.engine.url)


async def test_an_accepted_draft_ends_the_agents_generation() -> None:
    settings = load_settings(overrides=ACCEPT_ALL)
    async with open_draft(settings) as draft, open_agent(settings) as agent:
        server = server_of(agent)

        async def writing() -> None:  # in the loop's first turn; the screening writes one token
            await server.until(lambda busy: any(written > 10 for written in busy))

        funnel = make_funnel(settings, replace(draft, engine=Late(draft.engine, writing)), agent)
        answer = await funnel.answer(endless())
        await server.until(lambda busy: not busy)
        assert (answer.reason, answer.trace.plan) == (Reason.ACCEPTED, "hedged")
        assert await server.counter("requests_processing") == await server.counter("requests_deferred") == 0
        written = await server.counter("tokens_predicted_total")
        assert 10 < written < TOKENS / 2, "the turn was begun, and broken off"
        assert funnel.loops.held == funnel.stateless.held == 0


async def test_queries_that_wait_for_a_slot_are_forgotten_too() -> None:
    """Three hedges on an agent with one slot: two of them wait, in the client and in the server."""
    settings = load_settings(overrides=ACCEPT_ALL | {"agent.parallel": 1, "gate.screen_threshold": 1.0})
    async with open_draft(settings) as draft, open_agent(settings) as agent:
        server = server_of(agent)
        never = asyncio.Event()
        funnel = make_funnel(settings, replace(draft, engine=Late(draft.engine, never.wait)), agent)
        asking = [asyncio.create_task(_answered(funnel)) for _ in range(3)]
        await server.until(lambda busy: any(written > 10 for written in busy))
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await server.until(lambda busy: not busy)
        assert await server.counter("requests_deferred") == 0
        assert await server.counter("tokens_predicted_total") < TOKENS / 2
        assert funnel.loops.held == funnel.stateless.held == 0


async def _answered(funnel: Funnel) -> Answer:
    return await funnel.answer(endless())
