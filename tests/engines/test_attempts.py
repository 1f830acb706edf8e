"""What one query may cost its servers in all."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from speceyes.engines.attempts import Attempts, CountedEngine
from speceyes.engines.client import ChatClient
from speceyes.engines.script import Cut, Hang, Reply, Status
from speceyes.engines.scripted import ScriptedServer
from speceyes.engines.server_clock import ServerClock
from speceyes.engines.slot_leases import SlotLeases
from speceyes.errors import EngineError, EngineTimeout
from speceyes.types import ChatRequest

REQUEST = ChatRequest(({"role": "user", "content": "?"},), 8)


class Picture:
    """Something that a request can name as what it goes on from."""


def client_of(server: ScriptedServer, **options: Any) -> ChatClient:
    return ChatClient(server.url, "m", **{"timeout_s": 30, "backoff_s": 0.001, "retries": 2, **options})


@pytest.mark.parametrize(("retries", "asked"), [(None, [3, 3, 3]), (0, [1, 1, 1]), (3, [3, 2, 1]), (9, [3, 3, 3])])
async def test_retries_are_shared_by_all_calls_and_a_first_attempt_is_free(
    retries: int | None, asked: list[int]
) -> None:
    attempts = Attempts(retries)
    async with ScriptedServer(Status(500, "broken")) as server, client_of(server) as client:
        engine = CountedEngine(client, attempts)
        seen = []
        for _ in asked:
            before = len(server.completions)
            with pytest.raises(EngineError) as failed:
                await engine.complete(REQUEST)
            seen.append(len(server.completions) - before)
            assert failed.value.attempts == seen[-1]
    assert seen == asked
    assert attempts.made == {"m": sum(asked)}


async def test_calls_that_come_through_are_counted_with_their_retries() -> None:
    attempts = Attempts(3)
    script: list[Any] = [Status(503, "busy"), Reply("A"), Cut(), Reply("B")]
    async with ScriptedServer(script) as server, client_of(server) as client:
        engine = CountedEngine(client, attempts)
        assert [(await engine.complete(REQUEST)).usage.calls for _ in "AB"] == [2, 2]
    assert (attempts.made, attempts.for_next_call) == ({"m": 4}, 2)


async def test_a_time_out_says_how_often_was_tried() -> None:
    async with ScriptedServer([Status(500, "x"), Hang()]) as server, client_of(server, timeout_s=0.3) as client:
        with pytest.raises(EngineTimeout) as failed:
            await client.complete(REQUEST)
    assert failed.value.attempts == 2


async def test_the_limit_is_not_sent() -> None:
    async with ScriptedServer(Reply("A")) as server, client_of(server) as client:
        await CountedEngine(client, Attempts(0)).complete(REQUEST)
    assert "max_attempts" not in server.completions[0].json


async def test_slots_are_kept_for_the_query_and_free_when_it_is_closed() -> None:
    """Also where its pictures live on, in an answer or in an error."""
    picture, leases, attempts = Picture(), SlotLeases(3), Attempts()
    asked = replace(REQUEST, affinity=picture)
    async with ScriptedServer(Reply("A")) as server, client_of(server, leases=leases) as client:
        first, second = (CountedEngine(client, attempts) for _ in range(2))
        await first.complete(asked)
        await second.complete(asked)
        await first.complete(REQUEST)  # names nothing, so nothing is kept for it
        other = Attempts()
        await CountedEngine(client, other).complete(asked)
        slots = [received.json["id_slot"] for received in server.completions]
        assert slots[0] == slots[1] != slots[3]
        assert leases.held == 2
        for _ in range(2):
            attempts.close()
            assert leases.held == 1
        await first.complete(asked)
        assert leases.held == 1, "what comes late keeps nothing"


async def test_calls_are_counted_on_their_servers_clock_also_those_that_fail() -> None:
    clock, attempts = ServerClock(), Attempts(0)
    async with ScriptedServer([Reply("A"), Status(500, "x"), Hang()]) as server, client_of(server) as client:
        engine, hung = CountedEngine(client, attempts, clock), CountedEngine(client, attempts, clock)
        await engine.complete(REQUEST)
        before = engine.stay.seconds
        with pytest.raises(EngineError):
            await engine.complete(REQUEST)
        assert engine.stay.seconds > before > 0.0
        assert engine.stay.beside == pytest.approx(1.0)
        hanging = asyncio.create_task(hung.complete(REQUEST))
        await server.wait_until(lambda: len(server.completions) == 3)
        assert clock.under_way == 1
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        assert clock.under_way == 0
