"""Which slot a call goes to: kept for its query, found again by what it holds, and never waited for in vain."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import httpx
import pytest

from speceyes.engines.client import ChatClient
from speceyes.engines.forward import forward
from speceyes.engines.scripted import Reply, ScriptedServer, Status
from speceyes.engines.slot_leases import SlotLeases
from speceyes.errors import EngineRefused, EngineUnreachable
from speceyes.types import ChatRequest


class Query:
    """Something that calls can name as theirs."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def asked(
    affinity: object | None = None,
    *,
    picture: str = "A",
    words: str = "What is it?",
    max_tokens: int = 8,
    **extra: Any,
) -> ChatRequest:
    content = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": words}]
    messages = ({"role": "system", "content": "Look closely."}, {"role": "user", "content": content})
    return ChatRequest(messages, max_tokens, affinity=affinity, extra=extra)


async def call(leases: SlotLeases, request: ChatRequest, during: Callable[[], None] = lambda: None) -> int | None:
    """One call: the slot that it was sent to."""
    async with leases.place(request) as placed:
        during()
        return placed.request.extra.get("id_slot")


async def settled() -> None:
    """Every task has run until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_query_keeps_its_slot_and_a_newcomer_takes_another() -> None:
    leases, one, other = SlotLeases(2), Query(), Query()
    first = await call(leases, asked(one))
    assert await call(leases, asked(other)) != first
    assert [await call(leases, asked(one, words=words)) for words in ("Go on.", "And now?")] == [first, first]
    assert leases.held == 2


async def test_a_slot_is_free_as_soon_as_its_query_is_gone() -> None:
    leases, one = SlotLeases(1), Query()
    await call(leases, asked(one))
    waiting = asyncio.create_task(call(leases, asked(Query(), picture="B")))
    leases._slots[0].spent = 3600.0  # too dear to be taken from its owner
    await settled()
    assert not waiting.done()
    del one
    assert await waiting == 0
    assert leases.held == 0


async def test_of_free_slots_that_one_is_taken_which_holds_the_same_picture() -> None:
    leases = SlotLeases(3)
    async with AsyncExitStack() as stack:
        for picture in "ABC":
            await stack.enter_async_context(leases.place(asked(picture=picture)))
    assert [await call(leases, asked(picture=picture, words="Why?")) for picture in "CABAC"] == [2, 0, 1, 0, 2]


async def test_a_new_picture_goes_where_the_prompt_begins_alike_and_nothing_happened_for_the_longest_time() -> None:
    clock = Clock()
    leases = SlotLeases(4, clock=clock)
    async with AsyncExitStack() as stack:
        for picture in "ABC":
            await stack.enter_async_context(leases.place(asked(picture=picture)))
    for picture in "BAC":
        clock.now += 1
        await call(leases, asked(picture=picture))
    clock.now += 1
    assert await call(leases, asked(picture="D")) == 1, "the fourth slot does not know the system prompt"


async def test_a_second_call_beside_the_first_does_not_wait_for_it() -> None:
    leases, one = SlotLeases(2), Query()
    async with leases.place(asked(one)) as first, leases.place(asked(one, words="yes or no?")) as second:
        assert first.request.extra["id_slot"] != second.request.extra["id_slot"]
        assert leases.held == 2
    assert leases.held == 1, "the second one is not kept"
    assert await call(leases, asked(one)) == first.request.extra["id_slot"]


async def test_the_loops_first_call_waits_for_screenings_one_token_and_goes_on_in_its_slot() -> None:
    leases, one, served = SlotLeases(3), Query(), list[str]()
    async with leases.place(asked(one, max_tokens=1)) as screening:
        loop = asyncio.create_task(call(leases, asked(one), lambda: served.append("loop")))
        await settled()
        assert served == []
        others = [await call(leases, asked(Query(), picture=picture)) for picture in "BC"]
        assert screening.request.extra["id_slot"] not in others, "nobody behind it has to wait"
    assert await loop == screening.request.extra["id_slot"]
    assert leases.held == 1


async def test_a_screening_that_is_asked_for_at_the_same_moment_goes_first() -> None:
    leases, one, order = SlotLeases(2), Query(), list[str]()
    loop = asyncio.create_task(call(leases, asked(one), lambda: order.append("loop")))
    screening = asyncio.create_task(call(leases, asked(one, max_tokens=1), lambda: order.append("screening")))
    assert await loop == await screening
    assert order == ["screening", "loop"]


async def test_where_screening_is_broken_off_the_loop_takes_a_free_slot() -> None:
    leases, one = SlotLeases(2), Query()

    async def hanging() -> None:
        async with leases.place(asked(one, max_tokens=1)):
            await asyncio.Event().wait()

    screening = asyncio.create_task(hanging())
    await settled()
    loop = asyncio.create_task(call(leases, asked(one)))
    await settled()
    assert not loop.done()
    screening.cancel()
    assert await loop is not None
    assert leases.held == 1
    assert repr(leases) == "SlotLeases(2, held=1, waiting=0)"


async def test_where_all_slots_are_taken_the_loop_still_waits_for_its_screening() -> None:
    leases, one = SlotLeases(2), Query()
    async with leases.place(asked(Query(), picture="B")) as last, AsyncExitStack() as early:
        taken = await early.enter_async_context(leases.place(asked(Query(), picture="C")))
        ended = asyncio.Event()

        async def screening() -> Any:
            async with leases.place(asked(one, max_tokens=1)) as placed:
                await ended.wait()
                return placed.request.extra["id_slot"]

        screened = asyncio.create_task(screening())
        await settled()
        loop = asyncio.create_task(call(leases, asked(one)))
        await settled()
        await early.aclose()
        await settled()
        assert not loop.done()
        ended.set()
        assert await screened == await loop == taken.request.extra["id_slot"] != last.request.extra["id_slot"]


async def test_a_slot_that_the_caller_has_chosen_stands() -> None:
    leases = SlotLeases(2)
    async with leases.place(asked(id_slot=7)) as placed:
        assert (placed.request.extra, leases.held) == ({"id_slot": 7}, 0)


async def test_while_others_are_served_the_server_chooses() -> None:
    leases, one = SlotLeases(2), Query()
    with leases.visited():
        assert await call(leases, asked(one)) is None
    assert await call(leases, asked(one)) is not None


async def test_who_finds_no_slot_waits_in_order() -> None:
    leases, served = SlotLeases(1), list[int]()
    queries = [Query() for _ in range(5)]
    async with leases.place(asked()):
        waiting = [
            asyncio.create_task(call(leases, asked(query), lambda i=i: served.append(i)))  # type: ignore[misc]
            for i, query in enumerate(queries)
        ]
        await settled()
        waiting[2].cancel()
        await settled()
        assert served == []
    for i in (0, 1, 3, 4):
        await waiting[i]
        queries[i] = Query()
    assert served == [0, 1, 3, 4]
    assert repr(leases) == "SlotLeases(1, held=0, waiting=0)"


async def test_the_owner_of_a_slot_goes_before_those_who_wait() -> None:
    leases, one, served = SlotLeases(1), Query(), list[str]()
    async with leases.place(asked(one)):
        other = asyncio.create_task(call(leases, asked(Query(), picture="B"), lambda: served.append("other")))
        await settled()
        own = asyncio.create_task(call(leases, asked(one), lambda: served.append("own")))
        await settled()
        leases._slots[0].spent = 3600.0
    await own
    assert served == ["own"]
    del one
    await other


async def test_a_slot_is_taken_from_an_owner_who_is_idle_for_longer_than_it_has_worked() -> None:
    clock = Clock()
    leases = SlotLeases(3, clock=clock)
    early, late, quick = Query(), Query(), Query()
    for query, seconds in ((early, 10.0), (late, 10.0), (quick, 1.0)):
        async with leases.place(asked(query)):
            clock.now += seconds
    clock.now += 5.0  # `quick` worked for one second
    newcomer = Query()
    assert await call(leases, asked(newcomer)) == 2
    async with leases.place(asked(newcomer)):
        clock.now += 100.0
    clock.now += 50.0  # of the two others the later one will be idle for longer
    assert await call(leases, asked(Query())) == 1
    assert await call(leases, asked(early)) == 0


async def test_who_has_lost_its_slot_gets_another() -> None:
    clock = Clock()
    leases, one = SlotLeases(1, clock=clock), Query()
    await call(leases, asked(one))
    async with leases.place(asked(Query(), picture="B")):
        again = asyncio.create_task(call(leases, asked(one)))
        await settled()
        assert not again.done()
    assert await again == 0


# Of several servers


async def test_queries_spread_over_the_servers_and_each_keeps_to_its_own() -> None:
    leases = SlotLeases(2, servers=["one", "other"])
    queries = [Query() for _ in range(4)]
    homes = []
    for query in queries:
        async with leases.place(asked(query, max_tokens=1)) as placed:
            homes.append((placed.server, placed.request.extra["id_slot"]))
    assert sorted(homes) == [("one", 0), ("one", 1), ("other", 0), ("other", 1)]
    assert homes[0][0] != homes[1][0], "the second goes where nobody is"
    for query, home in reversed([*zip(queries, homes, strict=True)]):
        async with leases.place(asked(query)) as placed:
            assert (placed.server, placed.request.extra["id_slot"]) == home


async def test_a_picture_draws_more_than_an_idle_server_and_a_new_one_goes_where_there_is_least_to_do() -> None:
    leases, keeper = SlotLeases(2, servers=["one", "other"]), Query()
    home: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        for picture in "ABCD":
            placed = await stack.enter_async_context(leases.place(asked(picture=picture)))
            home[picture] = placed.server
    async with leases.place(asked(keeper, picture="A")):
        neighbour = next(p for p in "BCD" if home[p] == home["A"])
        async with leases.place(asked(picture=neighbour)) as placed:
            assert placed.server == home["A"]
        async with leases.place(asked(picture="E")) as placed:
            assert placed.server != home["A"]


async def test_a_call_goes_to_the_server_of_its_slot_and_an_error_names_that_one() -> None:
    queries = [Query(), Query()]
    async with ScriptedServer(Reply("no")) as first, AsyncExitStack() as running:
        second = await running.enter_async_context(ScriptedServer(Reply("no")))
        leases = SlotLeases(1, servers=[f"{first.url}/v1", f"{second.url}/v1"])
        async with ChatClient(first.url, "any", leases=leases) as client:
            for query in (*queries, *queries):
                await client.complete(asked(query))
            assert [len(server.completions) for server in (first, second)] == [2, 2]
            assert [received.json["id_slot"] for received in second.completions] == [0, 0]
            address = second.url
            await running.aclose()
            with pytest.raises(EngineUnreachable, match=str(httpx.URL(address).port)):
                await client.complete(replace(asked(queries[1]), max_attempts=1))


# Through a client


async def sent(server: ScriptedServer, *requests: ChatRequest, count: int = 2) -> list[Any]:
    async with ChatClient(server.url, "any", leases=SlotLeases(count)) as client:
        for request in requests:
            await client.complete(request)
    return [received.json.get("id_slot") for received in server.completions]


async def test_a_client_with_leases_names_the_slot_and_nothing_else_of_them() -> None:
    one, other = Query(), Query()
    async with ScriptedServer(Reply("no")) as server:
        first, second, again = await sent(server, asked(one), asked(other), asked(one))
        assert (first == again, first != second) == (True, True)
        assert not [received for received in server.completions if "affinity" in received.json]


async def test_a_client_without_leases_leaves_it_to_the_server() -> None:
    async with ScriptedServer(Reply("no")) as server, ChatClient(server.url, "any") as client:
        await client.complete(asked(Query()))
        assert "id_slot" not in server.completions[0].json


async def test_while_a_request_is_passed_on_the_server_chooses() -> None:
    leases, one = SlotLeases(2), Query()
    async with ScriptedServer(Reply("no")) as server, ChatClient(server.url, "any", leases=leases) as client:
        async with forward(client, b'{"messages": [], "max_tokens": 1}'):
            await client.complete(asked(one))
        await client.complete(asked(one))
        await client.complete(asked(one))
        slots = [received.json.get("id_slot") for received in server.completions]
    assert slots[:2] == [None, None]
    assert slots[2] == slots[3] is not None


async def test_a_call_that_fails_gives_its_slot_up_and_a_second_attempt_finds_one() -> None:
    one = Query()
    async with ScriptedServer([Status(503, "later"), Reply("no")]) as server:
        client = ChatClient(server.url, "any", leases=(leases := SlotLeases(1)), backoff_s=0.001)
        async with client:
            await client.complete(asked(one))
        assert [received.json["id_slot"] for received in server.completions] == [0, 0]
        assert leases.held == 1
    async with ScriptedServer(Status(400, "no")) as server, ChatClient(server.url, "any", leases=leases) as client:
        with pytest.raises(EngineRefused):
            await client.complete(asked(one))
        assert leases.held == 0


async def crowd(leases: SlotLeases, seed: int) -> None:
    """Queries in any order, some of which give up: never two calls in a slot."""
    rng, busy = random.Random(seed), Counter[tuple[str, int]]()

    async def one() -> None:
        query = Query()
        for turn in range(rng.randint(1, 4)):
            async with leases.place(
                asked(query if rng.random() < 0.8 else None, words=str(turn), max_tokens=rng.choice((1, 8)))
            ) as placed:
                slot = placed.server, placed.request.extra["id_slot"]
                busy[slot] += 1
                try:
                    assert busy[slot] == 1
                    for _ in range(rng.randint(0, 3)):
                        await asyncio.sleep(0)
                finally:
                    busy[slot] -= 1
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(one()) for _ in range(60)]
    await settled()
    given_up = rng.sample(tasks, 5)
    for task in given_up:
        task.cancel()
    found = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    assert not [error for error in found if isinstance(error, Exception)]


def test_a_crowd_comes_through_in_one_event_loop_after_another() -> None:
    leases = SlotLeases(3)
    for seed in range(20):
        asyncio.run(crowd(leases, seed))
        assert leases.held == 0
