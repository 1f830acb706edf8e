"""Observe, over real sockets with scripted models: the agent always answers, and nothing beside it is felt."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_server import UNSURE, agent_says, draft_says, events, running
from trust_server import kept, metrics, records, until

from speceyes.engines.scripted import Hang, Logprobs, Outcome, Reply, Script, Status, token_reply
from speceyes.gateway.observe.logs import LOGGER
from speceyes.gateway.trust import onlooker
from speceyes.store import CLIENT_GONE

OBSERVE = {"trust.mode": "observe"}


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """The request log's lines."""
    found: list[dict[str, Any]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(record.getMessage()))

    handler = Keep()
    logging.getLogger(LOGGER).addHandler(handler)
    yield found
    logging.getLogger(LOGGER).removeHandler(handler)


async def test_the_agent_answers_and_what_would_have_been_accepted_is_noted(
    tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    async with running(settings=OBSERVE | kept(tmp_path, **{"observe.log": True})) as served:
        reply = await served.ask(user="u-1")
        body = reply.json()
        found = await records(served, tmp_path)
        counts = await metrics(served)
    assert body["choices"][0]["message"]["content"] == "8"
    told = body["speceyes"]
    assert (told["route"], told["reason"], told["score"]) == ("agent", "observed", None)
    assert (reply.headers["x-speceyes-route"], reply.headers["x-speceyes-reason"]) == ("agent", "observed")
    record = found[told["request_id"]]
    assert (record.trust, record.route, record.reason, record.verdict) == ("observe", "agent", "observed", "accepted")
    assert record.agrees is False, "the draft says 7"
    assert record.score is not None
    assert record.score > 6.0 == record.threshold
    assert record.help_probability is not None
    assert record.phase_seconds.keys() == {"screen", "speculate", "fall_back"}
    assert record.phase_usage.keys() == {"screen", "speculate", "fall_back"}
    assert (record.usage["small"].calls, record.usage["large"].calls) == (1, 3)
    assert len(record.draft_tokens) == 1
    assert (lines[0]["reason"], lines[0]["score"]) == ("observed", round(record.score, 6))
    assert counts["speceyes_drafts_total accepted=true"] == 1
    assert counts["speceyes_screenings_total passed=true"] == 1
    assert counts["speceyes_trust_mode mode=observe"] == 1
    assert counts["speceyes_requests_total model=speceyes reason=observed route=agent status=200"] == 1


async def test_a_question_that_screening_refuses_is_drafted_all_the_same(tmp_path: Path) -> None:
    async with running(agent=agent_says(needs_tool=True), settings=OBSERVE | kept(tmp_path)) as served:
        await served.ask()
        (record,) = (await records(served, tmp_path)).values()
        counts = await metrics(served)
    assert (record.reason, record.verdict) == ("observed", "tool_would_help")
    assert len(record.draft_tokens) == 1
    assert record.agrees is False
    assert record.phase_usage.keys() == {"screen", "speculate", "fall_back"}
    assert counts["speceyes_screenings_total passed=false"] == 1
    assert "speceyes_drafts_total accepted=true" not in counts


@pytest.mark.parametrize("stream", [False, True])
async def test_the_answer_waits_for_nothing_beside_it(tmp_path: Path, stream: bool) -> None:
    """The order of things: the client has its whole answer while the draft has not yet begun to speak."""
    go = asyncio.Event()
    draft = Reply(tokens=[token_reply("8", [-0.01, -6.0, -6.5, -7.0, -7.5, -6.2, -6.8, -7.2])], pace=go.wait)
    async with running(draft, settings=OBSERVE | kept(tmp_path)) as served:
        reply = await served.ask(stream=stream)
        assert reply.status_code == 200
        await served.draft.wait_for(1)
        assert not served.draft.completions[0].done
        took = served.gateway.observer.metrics.under_way
        assert took == 1, "its record is not made yet"
        if stream:
            said = [e for e in events(reply.text) if isinstance(e, dict)]
            assert "".join(e["choices"][0]["delta"].get("content") or "" for e in said if e["choices"]) == "8"
        go.set()
        (record,) = (await records(served, tmp_path)).values()
    assert (record.verdict, record.agrees, record.streamed) == ("accepted", True, stream)


FAULTS: dict[str, Script] = {
    "the draft refuses": Status(500),
    "the draft cannot be used": Status(404),
    "no log-probs": Reply("7", logprobs=Logprobs.NULL),
    "the draft says nothing": Reply(""),
    "the draft is unsure": draft_says(top=UNSURE),
}


@pytest.mark.parametrize("draft", FAULTS.values(), ids=FAULTS.keys())
async def test_no_fault_of_the_draft_is_felt(draft: Script, tmp_path: Path) -> None:
    async with running(draft, settings=OBSERVE | kept(tmp_path)) as served:
        replies = await asyncio.gather(*(served.ask() for _ in range(8)))
        assert {reply.status_code for reply in replies} == {200}
        assert {reply.json()["choices"][0]["message"]["content"] for reply in replies} == {"8"}
        found = await records(served, tmp_path)
    assert {record.reason for record in found.values()} == {"observed"}
    assert "accepted" not in {record.verdict for record in found.values()}


async def test_screenings_that_fail_open_no_circuit_of_the_agents_own(tmp_path: Path) -> None:
    """The agent's server fails at log-probs only. Nine failures in a row would close it to all requests."""

    def agent(request: dict[str, Any], turn: int) -> Outcome:
        return Status(500) if request.get("logprobs") else Reply("<answer>8</answer>")

    async with running(agent=agent, settings=OBSERVE | kept(tmp_path, **{"breaker.failures": 2})) as served:
        for _ in range(9):
            assert (await served.ask()).status_code == 200
        assert served.gateway.agent.breaker.state == "closed"
        found = await records(served, tmp_path)
        counts = await metrics(served)
    assert {record.verdict for record in found.values()} == {"screen_failed"}
    assert counts["speceyes_upstream_errors_total error=EngineProtocolError upstream=agent"] >= 1


async def test_an_agent_that_fails_is_an_error_and_ends_what_runs_beside(tmp_path: Path) -> None:
    go = asyncio.Event()
    draft = Reply("7", pace=go.wait)
    async with running(draft, agent_says(Status(400, {"error": "no"})), OBSERVE | kept(tmp_path)) as served:
        reply = await served.ask()
        assert reply.status_code >= 400
        (record,) = (await records(served, tmp_path)).values()
        await until(lambda: not served.gateway.trust.onlooker.under_way)  # type: ignore[union-attr]
        go.set()
    assert (record.route, record.error is None) == (None, False)


async def test_a_client_that_leaves_ends_what_runs_beside(tmp_path: Path) -> None:
    async with running(Hang(), agent_says(Hang()), OBSERVE | kept(tmp_path)) as served:
        asking = asyncio.create_task(served.ask())
        await served.draft.wait_for(1)
        await served.agent.wait_for(2)
        asking.cancel()
        await asyncio.wait([asking])
        await served.draft.wait_until(lambda: served.draft.completions[0].closed_by_client, 20)
        (record,) = (await records(served, tmp_path)).values()
    assert (record.status, record.route) == (CLIENT_GONE, None)


async def test_what_has_no_room_is_not_observed_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onlooker, "WAITING", 1)
    go = asyncio.Event()
    draft = Reply("7", pace=go.wait)
    settings = OBSERVE | kept(tmp_path, **{"trust.observe_at_once": 1})
    async with running(draft, settings=settings) as served:
        for _ in range(4):
            assert (await served.ask()).json()["choices"][0]["message"]["content"] == "8"
        assert served.draft.active <= 1
        assert (await metrics(served))["speceyes_unobserved_total cause=busy"] == 2
        go.set()
        found = await records(served, tmp_path)
    assert sorted(record.trust for record in found.values()) == ["enforce", "enforce", "observe", "observe"]
    assert {record.reason for record in found.values()} == {"observed"}


async def test_what_runs_beside_takes_no_place_of_the_requests() -> None:
    """Both places of phases I to III are free although four queries are being observed."""
    settings = OBSERVE | {"funnel.stateless": 2, "trust.observe_at_once": 4}
    async with running(Hang(), settings=settings) as served:
        for _ in range(4):
            assert (await served.ask()).status_code == 200
        await served.draft.wait_for(4)
        assert served.draft.active == 4
        assert served.gateway.funnel.stateless.held == 0
        assert (await served.ask()).status_code == 200


async def test_forced_routes_and_questions_without_an_image_are_as_ever(tmp_path: Path) -> None:
    async with running(settings=OBSERVE | kept(tmp_path)) as served:
        draft = (await served.ask(model="speceyes/draft")).json()
        plain = await served.post({"model": "speceyes", "messages": [{"role": "user", "content": "Hello"}]})
        found = await records(served, tmp_path)
    assert (draft["choices"][0]["message"]["content"], draft["speceyes"]["reason"]) == ("7", "forced_draft")
    assert plain.status_code == 200
    assert {record.trust for record in found.values()} == {"enforce"}


async def test_when_the_gateway_stops_the_records_are_whole(tmp_path: Path) -> None:
    """What is still under way beside a finished request is given up, and the request's record is written."""
    settings = OBSERVE | kept(tmp_path, **{"trust.drain_s": 0})
    async with running(Hang(), settings=settings) as served:
        reply = await served.ask()
        await served.draft.wait_for(1)
    async with running(settings=kept(tmp_path)) as again:
        record = (await records(again, tmp_path))[reply.headers["x-speceyes-request-id"]]
    assert (record.reason, record.verdict, record.agent_text) == ("observed", "observed", None)
