"""Whoever cancels a query frees vLLM, by its own metrics: of what it works on, and of what waits there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from vllm_server import AT_A_TIME, CONTEXT, VllmServer

from speceyes.config import load_settings
from speceyes.evals.datasets.samples import make_samples
from speceyes.types import Query, Route, Sampling
from speceyes.wiring import open_funnel

TOKENS = CONTEXT - 500
"""Of a turn that nobody ends: many seconds of work."""
ENDLESS = Sampling(extra={"ignore_eos": True, "stop": [], "max_tokens": TOKENS})
HANGS_S = 120
"""Seconds after which a wait has hung: no measure of speed."""


async def until(server: VllmServer, holds: Callable[[int, int], bool]) -> None:
    """Wait for a condition on how many requests run, and how many wait."""
    async with asyncio.timeout(HANGS_S):
        while not holds(await server.metric("num_requests_running"), await server.metric("num_requests_waiting")):
            pass


def queries(count: int) -> list[Query]:
    return [replace(sample.query(), sampling=ENDLESS) for sample in make_samples(count, 3)]


async def cancelled(
    count: int, overrides: Mapping[str, Any], server: VllmServer, begun: Callable[[int, int], bool]
) -> int:
    """So many runs of the agent, cancelled when they have begun, and the tokens that vLLM has written for all."""
    patient = {"agent.timeout_s": 10 * HANGS_S}  # or a call that is not cancelled would end by its time limit
    chosen = load_settings(env={}, overrides={**overrides, **patient, "funnel.loops": count})
    before = await server.metric("generation_tokens_total")
    async with open_funnel(chosen) as funnel:
        asking = [asyncio.create_task(funnel.answer(query, by=Route.AGENT)) for query in queries(count)]
        await until(server, begun)
        assert not any(task.done() for task in asking)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        assert all(task.cancelled() for task in asking)
        await until(server, lambda running, waiting: running == waiting == 0)
        assert funnel.loops.held == funnel.stateless.held == 0
    return await server.metric("generation_tokens_total") - before


async def test_a_cancelled_query_frees_the_server(overrides: Mapping[str, Any], vllm_agent: VllmServer) -> None:
    written = await cancelled(1, overrides, vllm_agent, lambda running, _: running == 1)
    assert written < TOKENS, "the turn was broken off: it did not come to its end"


async def test_queries_that_wait_in_the_server_are_forgotten_too(
    overrides: Mapping[str, Any], vllm_agent: VllmServer
) -> None:
    many = AT_A_TIME + 3
    written = await cancelled(
        many, overrides, vllm_agent, lambda running, waiting: (running, waiting) == (AT_A_TIME, 3)
    )
    assert written < AT_A_TIME * TOKENS
