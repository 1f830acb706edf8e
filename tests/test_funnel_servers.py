"""What the funnel does for its servers: a picture is read once, slots are given back, calls are counted."""

from __future__ import annotations

import asyncio
from typing import Any

from scripted_funnel import agent_script, funnel_over, is_screening, query
from speceyes.engines.client import ChatClient, Engine
from speceyes.engines.script import Hang, Outcome, Reply
from speceyes.engines.slot_leases import SlotLeases
from speceyes.scheduling import Auto, Fixed, Plan
from speceyes.scheduling import Outcome as Seen


class Placed:
    """Puts slots into the client of the agent."""

    def __init__(self, count: int) -> None:
        self.leases = SlotLeases(count)

    def __call__(self, engine: Engine) -> Engine:
        if engine.model == "large":
            assert isinstance(engine, ChatClient)
            engine._leases = self.leases
        return engine


async def test_screening_and_loop_share_a_slot_one_after_the_other() -> None:
    under_way: list[int] = []

    def agent(request: dict[str, Any], n: int) -> Outcome:
        under_way.append(large.active)
        return agent_script(0.9)(request, n)  # type: ignore[return-value]

    placed = Placed(4)
    async with funnel_over(Hang(Reply("B"), 1), agent, guard=placed, planner=Fixed(Plan.HEDGED)) as (funnel, _, large):
        answer = await funnel.answer(query())
    assert answer.text == "agent says"
    assert is_screening(large.completions[0].json)
    assert len({request.json["id_slot"] for request in large.completions}) == 1
    assert set(under_way) == {1}, "never both at once"


async def test_a_query_cancelled_between_two_calls_gives_its_slot_back_though_its_error_is_kept() -> None:
    """As under the user's own `asyncio.gather`, which keeps the error, and its traceback the pictures."""
    drafting = Hang(Reply("B"), 1)
    placed = Placed(2)
    async with funnel_over(drafting, agent_script(0.1), guard=placed, planner=Fixed(Plan.PAPER)) as (funnel, small, _):
        asking = asyncio.ensure_future(funnel.answer(query()))
        await small.wait_for(1)
        assert placed.leases.held == 1, "screened, and its draft is on the way"
        asking.cancel()
        kept = await asyncio.gather(asking, return_exceptions=True)
        assert isinstance(kept[0], asyncio.CancelledError)
        assert placed.leases.held == 0


async def test_a_planner_with_clocks_hears_how_many_calls_were_beside_each_phase() -> None:
    """Two queries at once: each server holds its first calls until both are there."""
    auto, heard = Auto(), list[Seen]()
    auto.learn = lambda kind, seen: heard.append(seen)  # type: ignore[method-assign]
    there = {"small": asyncio.Barrier(2), "large": asyncio.Barrier(2)}

    async def draft(request: dict[str, Any], n: int) -> Outcome:
        await there["small"].wait()
        return Reply("B")

    async def agent(request: dict[str, Any], n: int) -> Outcome:
        if is_screening(request):
            await there["large"].wait()
        return agent_script(0.1)(request, n)  # type: ignore[return-value]

    async with funnel_over(draft, agent, planner=auto) as (funnel, _, _large):
        assert funnel.clocks is auto.clocks
        await funnel.answer_many([query("a"), query("b")])
        assert (auto.clocks.draft.under_way, auto.clocks.agent.under_way) == (0, 0)
    for seen in heard:
        assert set(seen.calls) == {"screen", "draft"}, "the agent's loop did not run"
        assert all(1.0 < calls <= 2.0 for calls in seen.calls.values())
