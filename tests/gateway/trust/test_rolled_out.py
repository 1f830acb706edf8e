"""Rollout and moving gates, over real sockets: who is speculated on, and by which threshold."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from gateway_server import SURE, agent_says, asked, draft_says, running
from trust_server import kept, records

from speceyes.engines.scripted import Reply, token_reply
from speceyes.errors import CalibrationMismatch
from speceyes.gating import Calibration

KEY = "sk-the-only-key-there-is"
TOOL = {"type": "function", "function": {"name": "zoom", "parameters": {"type": "object"}}}


async def test_who_is_not_in_gets_the_agent_and_costs_nothing_else(tmp_path: Path) -> None:
    async with running(settings=kept(tmp_path, **{"trust.rollout": 0})) as served:
        reply = await served.ask()
        assert reply.json()["choices"][0]["message"]["content"] == "8"
        assert (reply.headers["x-speceyes-route"], reply.headers["x-speceyes-reason"]) == ("agent", "not_rolled_out")
        assert (len(served.draft.completions), len(served.agent.completions)) == (0, 2), "two turns, no screening"
        stream = await served.ask(stream=True)
        assert stream.headers["x-speceyes-reason"] == "not_rolled_out"
        found = (await records(served, tmp_path)).values()
    assert {(record.trust, record.route, record.reason) for record in found} == {("enforce", "agent", "not_rolled_out")}


async def test_a_key_may_be_in_where_the_others_are_not() -> None:
    settings = {"access.api_key": KEY, "trust.rollout": 0, "trust.rollout_keys": {"single": 100}}
    async with running(settings=settings) as served:
        reply = await served.post(asked(), headers={"authorization": f"Bearer {KEY}"})
        assert reply.headers["x-speceyes-reason"] == "accepted"


async def test_users_are_in_or_out_whatever_they_ask() -> None:
    async with running(settings={"trust.rollout": 50}) as served:
        reasons: dict[str, set[str]] = {}
        for user in [f"u{i}" for i in range(12)] * 2:
            reply = await served.ask(user=user)
            reasons.setdefault(user, set()).add(reply.headers["x-speceyes-reason"])
    assert {len(found) for found in reasons.values()} == {1}
    assert set.union(*reasons.values()) == {"accepted", "not_rolled_out"}


async def test_a_forced_route_is_not_drawn() -> None:
    async with running(settings={"trust.rollout": 0}) as served:
        assert (await served.ask(model="speceyes/draft")).headers["x-speceyes-reason"] == "forced_draft"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"trust.rollout": 0}, "not_rolled_out"), ({"trust.mode": "observe"}, "observed")],
    ids=["rollout", "observe"],
)
async def test_clients_with_a_loop_of_their_own_are_no_exception(settings: dict[str, Any], reason: str) -> None:
    async with running(settings=settings | {"transparent.enabled": True}) as served:
        reply = await served.ask(tools=[TOOL])
        assert (reply.status_code, reply.headers["x-speceyes-reason"]) == (200, reason)
        assert len(served.draft.completions) == 0


# Gates that move


async def test_a_draft_on_its_way_is_held_against_the_threshold_of_its_arrival() -> None:
    go = asyncio.Event()
    draft = Reply(tokens=[token_reply("7", SURE)], pace=go.wait)
    async with running(draft) as served:
        asking = asyncio.create_task(served.ask())
        await served.draft.wait_for(1)
        served.gateway.funnel.use(Calibration.manual(50.0, k=8))
        go.set()
        told = (await asking).json()["speceyes"]
    assert (told["reason"], told["threshold"]) == ("below_threshold", 50.0)


async def test_a_gate_takes_no_calibration_that_was_made_for_others() -> None:
    async with running() as served:
        with pytest.raises(CalibrationMismatch, match="draft_model"):
            served.gateway.funnel.use(Calibration.manual(7.0, k=8, draft_model="another"))
        assert served.gateway.funnel.calibration.threshold == 6.0


async def test_a_stand_in_is_never_looser_than_the_gate() -> None:
    settings = {"funnel.draft_when_agent_down_threshold": 9.0}
    async with running(draft_says(), agent_says(), settings) as served:
        funnel = served.gateway.funnel
        seen = []
        for threshold in (7.0, 20.0):
            funnel.use(Calibration.manual(threshold, k=8))
            assert funnel.stand_in is not None
            seen.append(funnel.stand_in.threshold)
        assert seen == [9.0, 20.0]
        funnel.use(Calibration.manual(7.0, k=8).model_copy(update={"threshold": None}))
        assert funnel.stand_in is None
        assert (await served.ask()).headers["x-speceyes-reason"] == "infeasible"
