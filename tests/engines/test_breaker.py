"""The breaker before a real socket: what counts, what it costs, and what it tells."""

import asyncio
from typing import Any

import pytest

from speceyes.engines.breaker import CircuitBreaker, is_fault
from speceyes.engines.circuit import Circuit
from speceyes.engines.client import ChatClient
from speceyes.engines.script import Cut, Hang, Outcome, Payloads, Reply, Status
from speceyes.engines.scripted import ScriptedServer
from speceyes.engines.slot_leases import SlotLeases
from speceyes.errors import (
    EngineDown,
    EngineError,
    EngineOverloaded,
    EngineProtocolError,
    EngineRefused,
    EngineTimeout,
    EngineUnreachable,
    InputError,
)
from speceyes.events import CircuitChanged, Event, Misconfigured
from speceyes.types import ChatRequest, Completion, Delta

REQUEST = ChatRequest(({"role": "user", "content": "?"},), 8)
DOWN = Status(500, "broken")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Setting:
    """A breaker over a client of a scripted server, a clock of its own, and the events."""

    def __init__(self, server: ScriptedServer, failures: int = 2) -> None:
        self.clock = Clock()
        self.events: list[Event] = []
        self.client = ChatClient(server.url, "m", retries=0, timeout_s=30)
        circuit = Circuit(failures=failures, pause_s=10, clock=self.clock)
        self.breaker = CircuitBreaker(self.client, circuit, listen=self.events.append, clock=self.clock)

    async def ask(self, request: ChatRequest = REQUEST) -> Completion | EngineError:
        try:
            return await self.breaker.complete(request)
        except EngineError as error:
            return error

    @property
    def states(self) -> list[str]:
        return [event.state for event in self.events if isinstance(event, CircuitChanged)]


@pytest.mark.parametrize(
    "fault", [DOWN, Status(503, "busy"), Status(429, "busy"), Cut(), Payloads(["{"]), Cut(Reply("half an answer"), 1)]
)
async def test_a_server_that_fails_is_soon_not_asked(fault: Outcome) -> None:
    async with ScriptedServer(fault) as server:
        here = Setting(server)
        found = [await here.ask() for _ in range(4)]
        await here.client.aclose()
    assert len(server.completions) == 2
    assert [isinstance(error, EngineDown) for error in found] == [False, False, True, True]
    assert here.states == ["open"]
    last = found[-1]
    assert isinstance(last, EngineDown)
    assert (last.retry_after, last.attempts) == (10, 0)
    assert f"its last calls failed ({type(found[1]).__name__})" in str(last), "not what the server said to another"


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
async def test_a_request_that_is_refused_shows_that_the_server_is_alive(status: int) -> None:
    script = [DOWN, Status(status, "no"), DOWN, Status(status, "no"), DOWN]
    async with ScriptedServer(script) as server:
        here = Setting(server)
        for _ in script:
            await here.ask()
        await here.client.aclose()
    assert (here.breaker.state, here.states) == ("closed", [])


async def test_it_tries_again_and_comes_back() -> None:
    script = [DOWN, DOWN, DOWN, Reply("A")]
    async with ScriptedServer(script) as server:
        here = Setting(server)
        await here.ask()
        await here.ask()
        here.clock.now += 10
        assert here.breaker.retry_after_s == 0
        assert isinstance(await here.ask(), EngineProtocolError)
        here.clock.now += 19
        assert isinstance(await here.ask(), EngineDown)
        here.clock.now += 1
        answer = await here.ask()
        await here.client.aclose()
    assert isinstance(answer, Completion)
    assert here.states == ["open", "half_open", "open", "half_open", "closed"]
    assert here.breaker.last_error is None


async def test_while_it_tries_only_one_call_goes_through() -> None:
    gate = asyncio.Event()
    script = [DOWN, DOWN, Reply("A", pace=gate.wait)]
    async with ScriptedServer(script) as server:
        here = Setting(server)
        await here.ask()
        await here.ask()
        here.clock.now += 10
        trial = asyncio.create_task(here.ask())
        await server.wait_for(3)
        assert isinstance(await here.ask(), EngineDown)
        gate.set()
        assert isinstance(await trial, Completion)
        await here.client.aclose()


@pytest.mark.parametrize(("seconds", "chunks", "state"), [(31, 0, "open"), (29, 0, "closed"), (31, 1, "closed")])
async def test_a_call_that_is_given_up_counts_if_the_server_was_silent_for_long(
    seconds: float, chunks: int, state: str
) -> None:
    heard = asyncio.Event()
    async with ScriptedServer(Hang(Reply("thinking of it"), chunks)) as server:
        here = Setting(server, failures=1)
        call = here.breaker.complete(REQUEST, on_delta=lambda delta: heard.set())
        task = asyncio.create_task(call)
        await server.wait_for(1)
        if chunks:
            await heard.wait()
        here.clock.now += seconds
        task.cancel()
        await asyncio.wait([task])
        await server.wait_until(lambda: server.active == 0)
        await here.client.aclose()
    assert here.breaker.state == state


async def test_a_trial_that_its_caller_gives_up_does_not_block_the_next() -> None:
    async with ScriptedServer([DOWN, DOWN, Hang(), Reply("A")]) as server:
        here = Setting(server)
        await here.ask()
        await here.ask()
        here.clock.now += 10
        task = asyncio.create_task(here.ask())
        await server.wait_for(3)
        task.cancel()
        await asyncio.wait([task])
        assert isinstance(await here.ask(), Completion)
        await here.client.aclose()


async def test_a_fault_of_the_caller_says_nothing() -> None:
    async with ScriptedServer([]) as server:
        here = Setting(server, failures=1)
        for _ in range(3):
            with pytest.raises(InputError):
                await here.breaker.complete(ChatRequest((), 1, extra={"x": object()}))
    assert (here.breaker.state, server.requests) == ("closed", [])


async def test_a_server_that_is_not_set_up_right_is_told_once_a_minute() -> None:
    async with ScriptedServer([Status(401, "key"), Status(401, "key"), Status(404, "model"), Reply("A")]) as server:
        here = Setting(server)
        await here.ask()
        assert isinstance(here.breaker.misconfigured, EngineRefused)
        here.clock.now += 59
        await here.ask()
        here.clock.now += 1
        await here.ask()
        assert here.breaker.misconfigured.status == 404
        await here.ask()
        assert here.breaker.misconfigured is None
        await here.client.aclose()
    told = [event for event in here.events if isinstance(event, Misconfigured)]
    assert [event.error.status for event in told] == [401, 404]


async def test_what_is_heard_passes_through() -> None:
    heard: list[Delta] = []
    async with ScriptedServer(Reply("a cat sat", reasoning="hm")) as server:
        here = Setting(server)
        await here.breaker.complete(REQUEST, on_delta=heard.append)
        await here.client.aclose()
    assert "".join(delta.text for delta in heard) == "a cat sat"
    assert "".join(delta.reasoning for delta in heard) == "hm"


async def test_a_call_made_in_another_way_counts_too() -> None:
    async with ScriptedServer([]) as server:
        here = Setting(server, failures=1)
        with pytest.raises(EngineUnreachable), here.breaker.call():
            raise EngineUnreachable("gone")
        with pytest.raises(EngineDown), here.breaker.call():
            pytest.fail("it must not be made")


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (EngineUnreachable("x"), True),
        (EngineDown("x"), False),
        (EngineTimeout("x"), True),
        (EngineOverloaded("x", status=429), True),
        (EngineProtocolError("x"), True),
        (EngineProtocolError("x", status=502), True),
        (EngineRefused("x", status=400), False),
        (EngineRefused("x", status=307), False),
    ],
)
def test_whose_fault_it_is(error: Any, fault: bool) -> None:
    assert is_fault(error) is fault


@pytest.mark.parametrize("late", [False, True])
async def test_who_waits_for_a_slot_of_ours_says_nothing_about_the_server(late: bool) -> None:
    """One call has the only slot; the others never got to the server."""
    async with ScriptedServer(Hang(Reply("thinking of it"), 1)) as server:
        here = Setting(server, failures=1)
        here.client._leases = SlotLeases(1)
        first = asyncio.create_task(here.ask())
        await server.wait_for(1)
        here.client.timeout_s = 0.05 if late else 30
        others = [asyncio.create_task(here.ask()) for _ in range(3)]
        if late:
            told = await asyncio.gather(*others)
            assert all(isinstance(error, EngineTimeout) and "no slot came free" in str(error) for error in told)
            assert [error.attempts for error in told if isinstance(error, EngineTimeout)] == [0, 0, 0]
        else:
            await asyncio.sleep(0.05)
            here.clock.now += 31
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        assert (here.breaker.state, len(server.completions)) == ("closed", 1)
        first.cancel()
        await asyncio.wait([first])
        await here.client.aclose()
