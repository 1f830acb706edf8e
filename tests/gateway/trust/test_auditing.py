"""Audit, over real sockets with scripted models: some accepted queries go to the agent too, and the gate follows."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from gateway_server import SURE, Running, agent_says, asked, draft_says, running
from trust_server import audited, auditor, certified, kept, metrics, records, standing, until
from typer.testing import CliRunner

from speceyes.cli.main import app
from speceyes.engines.scripted import Hang, Outcome, Reply, Script, Status, token_reply
from speceyes.errors import ConfigError
from speceyes.gateway.trust.keeping import read_state

AUDIT: dict[str, Any] = {
    "trust.mode": "audit",
    "trust.audit_alpha": 0.1,
    "trust.audit_share": 1.0,
    "trust.audits_at_once": 4,
}


def says(text: str) -> Reply:
    return Reply(tokens=[token_reply(text, SURE)])


def right_for(queries: int) -> Script:
    """A draft that is right for so many queries, and from then on wrong and just as sure."""
    return lambda request, turn: says("8" if turn < queries else "9")


AGENT = agent_says("<answer>8</answer>")


async def answers(served: Running, count: int) -> list[str]:
    """One query after the other, each with its audit; what came back."""
    found = []
    for _ in range(count):
        found.append((await served.ask()).json()["choices"][0]["message"]["content"])
        await audited(served)
    return found


async def test_a_client_has_its_answer_before_the_audit_is_over(tmp_path: Path) -> None:
    go = asyncio.Event()
    agent = agent_says(Reply("<answer>8</answer>", pace=go.wait))
    async with running(says("8"), agent, AUDIT | kept(tmp_path, **{"store.content": True})) as served:
        reply = await served.ask()
        assert (reply.json()["choices"][0]["message"]["content"], reply.json()["speceyes"]["route"]) == ("8", "draft")
        await served.agent.wait_for(2)  # the screening, and the audit
        assert not served.agent.completions[1].done
        assert auditor(served).under_way == 1
        assert (await metrics(served))["speceyes_audits_under_way"] == 1
        assert served.gateway.funnel.loops.held == 0, "it takes no place of the requests"
        first = (await records(served, tmp_path))[reply.headers["x-speceyes-request-id"]]
        assert (first.audited, first.agrees, first.usage["large"].calls) == (False, None, 1)
        go.set()
        await audited(served)
        record = (await records(served, tmp_path))[first.id]
        counts = await metrics(served)
    assert (record.trust, record.reason, record.audited, record.agrees) == ("enforce", "accepted", True, True)
    assert (record.agent_text, record.agent_finish, record.agent_depth) == ("8", "answered", 0)
    assert record.usage["large"].calls == 2
    assert record.audit_seconds is not None
    assert record.seconds == first.seconds, "the client did not wait for it"
    assert counts["speceyes_audits_total agrees=true"] == 1
    assert (counts["speceyes_audit_audited"], counts["speceyes_audit_losses"]) == (1, 0)


async def test_an_audit_that_ends_before_its_request_finds_its_record(tmp_path: Path) -> None:
    """A client that reads slowly holds its request open while the audit runs."""
    async with running(says("8"), AGENT, AUDIT | kept(tmp_path)) as served:
        request = served.http.build_request("POST", f"{served.url}/chat/completions", json=asked(stream=True))
        reply = await served.http.send(request, stream=True)
        await audited(served)
        await reply.aread()
        record = (await records(served, tmp_path))[reply.headers["x-speceyes-request-id"]]
    assert (record.audited, record.agrees) == (True, True)


async def test_a_draft_that_becomes_wrong_loses_the_gate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Ten good queries, and then only wrong ones: an alarm, a gate that accepts nothing, and right answers again."""
    state = tmp_path / "state" / "audit.json"
    settings = AUDIT | kept(tmp_path, **{"trust.audit_state": state})
    with caplog.at_level(logging.ERROR, "speceyes.audit"):
        async with running(right_for(10), AGENT, settings) as served:
            said = await answers(served, 30)
            found = await records(served, tmp_path)
            counts = await metrics(served)
            told = (await served.http.get(f"{served.url}/audit")).json()
            wrong = said.count("9")
            assert said == ["8"] * 10 + ["9"] * wrong + ["8"] * (20 - wrong)
            assert 1 <= wrong < 15
            assert len(served.draft.completions) == 10 + wrong, "a gate that accepts nothing asks for no draft"
    reasons = [record.reason for record in found.values()]
    assert reasons == ["accepted"] * (10 + wrong) + ["infeasible"] * (20 - wrong)
    assert [record.agrees for record in found.values()][: 10 + wrong] == [True] * 10 + [False] * wrong
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(" (")[0] for line in lines] == ["audit alarm", "the gate accepts nothing any more"]
    assert (counts["speceyes_audit_level"], counts["speceyes_audit_alarms_count"]) == (1, 1)
    assert counts["speceyes_audits_total agrees=false"] == wrong
    assert "speceyes_audit_threshold" not in counts, "there is none"
    assert (told["mode"], told["audit"]["level"], told["audit"]["threshold"]) == ("audit", 1, None)
    assert told["audit"]["alarms"][0]["losses"] == wrong

    shown = CliRunner().invoke(app, ["audit", "show", str(state), "--json", "-"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout) == told["audit"]


async def test_nothing_but_a_new_calibration_loosens_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state, file = tmp_path / "audit.json", tmp_path / "calibration.json"
    certified(12.0, 6.0).save(file)
    settings = AUDIT | {"trust.audit_state": state, "trust.audit_alpha": None, "gate.calibration": file}
    settings |= {"gate.threshold": None, "gate.k": None}
    async with running(right_for(0), AGENT, settings) as served:
        while standing(served).state.level == 0:
            assert (await answers(served, 1)) == ["9"]
        assert served.gateway.funnel.calibration.threshold == 12.0
        assert (await answers(served, 1)) == ["9"], "as sure as before: the stricter threshold lets it pass"
        seen = standing(served).state.current.audited
    assert seen == 1

    with caplog.at_level(logging.WARNING, "speceyes.audit"):
        async with running(right_for(0), AGENT, settings) as served:  # a restart
            assert served.gateway.funnel.calibration.threshold == 12.0
            assert standing(served).state.current.audited == seen
            while standing(served).state.level == 1:
                assert (await answers(served, 1)) == ["9"]
            assert (await answers(served, 1)) == ["8"]
    assert "from an earlier run: the gate is tightened to the threshold 12" in caplog.text

    async with running(right_for(0), AGENT, settings | {"trust.mode": "enforce"}) as served:  # another mode
        assert (await served.ask()).json()["speceyes"]["reason"] == "infeasible"
        assert served.gateway.trust.auditor is None
    other = settings | {"trust.audit_alpha": 0.5}  # another promise about the same calibration
    with pytest.raises(ConfigError, match="settings have changed, but the calibration has not"):
        async with running(right_for(0), AGENT, other):
            pass
    certified(12.0, 6.0, notes="made again").save(file)
    async with running(right_for(0), AGENT, settings) as served:
        assert (await answers(served, 1)) == ["9"]
        assert standing(served).state.level == 0


async def test_a_threshold_by_hand_stays_tightened_too(tmp_path: Path) -> None:
    settings = AUDIT | {"trust.audit_state": tmp_path / "audit.json"}
    async with running(right_for(0), AGENT, settings) as served:
        while standing(served).state.level == 0:
            await answers(served, 1)
    async with running(right_for(0), AGENT, settings) as served:
        assert (await answers(served, 1)) == ["8"]
    async with running(right_for(0), AGENT, settings | {"gate.threshold": 7.0}) as served:
        assert (await answers(served, 1)) == ["9"], "another threshold is another calibration"


async def test_clients_with_a_loop_of_their_own_lose_the_gate_too(tmp_path: Path) -> None:
    settings = AUDIT | {"transparent.enabled": True}
    tool = {"type": "function", "function": {"name": "zoom", "parameters": {"type": "object"}}}
    async with running(right_for(0), AGENT, settings) as served:
        assert (await served.ask(tools=[tool])).headers["x-speceyes-reason"] == "accepted"
        while standing(served).state.level == 0:
            await answers(served, 1)
        assert (await served.ask(tools=[tool])).headers["x-speceyes-reason"] == "infeasible"


# Which, and how many


async def test_a_share_of_the_accepted_is_drawn_by_a_secret(tmp_path: Path) -> None:
    settings = AUDIT | kept(tmp_path, **{"trust.audit_share": 0.3, "trust.audits_at_once": 60})
    async with running(says("8"), AGENT, settings) as served:
        await asyncio.gather(*(served.ask() for _ in range(60)))
        await audited(served)
        found = (await records(served, tmp_path)).values()
    count = sum(record.audited for record in found)
    assert 5 <= count <= 33  # 18 expected; beyond these once in ten thousand runs
    assert len((tmp_path / "speceyes" / "audit.json.key").read_text().strip()) == 64


async def test_only_accepted_queries_are_audited(tmp_path: Path) -> None:
    async with running(says("8"), agent_says(needs_tool=True), AUDIT | kept(tmp_path)) as served:
        await served.ask()
        await served.ask(model="speceyes/draft")
        await served.ask(model="speceyes/agent")
        found = (await records(served, tmp_path)).values()
        assert auditor(served).under_way == 0
    assert not any(record.audited for record in found)


async def test_audits_beyond_the_budget_are_skipped_and_counted() -> None:
    go = asyncio.Event()
    agent = agent_says(Reply("<answer>8</answer>", pace=go.wait))
    settings = AUDIT | {"trust.audits_at_once": 1, "trust.audits_per_hour": 2}
    async with running(says("8"), agent, settings) as served:
        for _ in range(3):
            assert (await served.ask()).status_code == 200
        assert auditor(served).skipped == {"busy": 2, "budget": 0}
        go.set()
        await audited(served)
        for _ in range(2):
            await served.ask()
            await audited(served)
        assert auditor(served).skipped == {"busy": 2, "budget": 1}
        assert standing(served).state.current.audited == 2
        counts = await metrics(served)
    assert counts["speceyes_audits_skipped_total cause=busy"] == 2
    assert counts["speceyes_audits_skipped_total cause=budget"] == 1


# Faults


async def test_an_agent_that_fails_in_audits_has_no_result_and_closes_no_circuit(tmp_path: Path) -> None:
    def agent(request: dict[str, Any], turn: int) -> Outcome:
        return AGENT(request, turn) if request["max_tokens"] == 1 else Status(500)  # type: ignore[operator,return-value]

    settings = AUDIT | kept(tmp_path, **{"breaker.failures": 2})
    async with running(says("8"), agent, settings) as served:
        assert (await answers(served, 12)) == ["8"] * 12
        current = standing(served).state.current
        assert (current.audited, current.missing) == (0, 12)
        assert served.gateway.agent.breaker.state == "closed"
        found = (await records(served, tmp_path)).values()
        counts = await metrics(served)
    assert {(record.audited, record.agrees, record.agent_finish) for record in found} == {(True, None, None)}
    assert counts["speceyes_audits_total agrees=none"] == 12
    assert counts["speceyes_audit_blind"] == 1


async def test_results_wait_for_those_whose_query_was_accepted_before(tmp_path: Path) -> None:
    gates: list[asyncio.Event] = []

    def agent(request: dict[str, Any], turn: int) -> Outcome:
        if request["max_tokens"] == 1:
            return AGENT(request, turn)  # type: ignore[operator,return-value]
        gates.append(asyncio.Event())
        return Reply("<answer>8</answer>", pace=gates[-1].wait)

    async with running(says("8"), agent, AUDIT) as served:
        for count in (1, 2):
            await served.ask()
            await until(lambda: len(gates) == count)  # noqa: B023
        gates[1].set()
        await until(lambda: auditor(served).under_way == 1)
        assert standing(served).state.current.audited == 0
        gates[0].set()
        await audited(served)
        assert standing(served).state.current.audited == 2


# The end


async def test_audits_that_are_late_at_the_end_count_as_missing(tmp_path: Path) -> None:
    state = tmp_path / "audit.json"
    settings = AUDIT | kept(tmp_path, **{"trust.audit_state": state, "trust.drain_s": 0})
    async with running(says("8"), agent_says(Hang()), settings) as served:
        reply = await served.ask()
        await served.agent.wait_for(2)
    saved = read_state(state)
    assert saved is not None
    assert (saved.current.audited, saved.current.missing) == (0, 1)
    async with running(settings=kept(tmp_path)) as again:
        record = (await records(again, tmp_path))[reply.headers["x-speceyes-request-id"]]
    assert (record.audited, record.agrees) == (True, None)


async def test_audits_that_end_in_time_count(tmp_path: Path) -> None:
    go, state = asyncio.Event(), tmp_path / "audit.json"
    agent = agent_says(Reply("<answer>9</answer>", pace=go.wait))
    settings = AUDIT | {"trust.audit_state": state, "trust.drain_s": 60}
    async with running(says("8"), agent, settings) as served:
        await served.ask()
        await served.agent.wait_for(2)
        asyncio.get_running_loop().call_later(0.05, go.set)
    saved = read_state(state)
    assert saved is not None
    assert (saved.current.audited, saved.current.losses, saved.current.missing) == (1, 1, 0)


# Who may look, and who may write


async def test_the_audits_state_is_for_administrators(tmp_path: Path) -> None:
    key = "sk-a-key-that-may-ask-only"
    async with running(settings=AUDIT | {"access.api_key": key}) as served:
        bearer = {"authorization": f"Bearer {key}"}
        assert (await served.http.get(f"{served.url}/audit")).status_code == 401
        for path in ("audit", "audit/", "AUDIT"):
            assert (await served.http.get(f"{served.url}/{path}", headers=bearer)).status_code == 403, path
        assert (await served.http.get(f"{served.url}//audit", headers=bearer)).status_code == 404
        assert (await served.http.get(f"{served.url}/models", headers=bearer)).status_code == 200


async def test_two_gateways_need_two_files(tmp_path: Path) -> None:
    async with running(settings=AUDIT):
        with pytest.raises(ConfigError, match="another process keeps its audit"):
            async with running(settings=AUDIT):
                pass
        async with running(settings=AUDIT | {"trust.audit_state": tmp_path / "other.json"}) as second:
            assert (await second.ask()).status_code == 200
        async with running(settings={}) as third:
            assert (await third.ask()).status_code == 200


async def test_without_an_audit_there_is_nothing_to_show() -> None:
    async with running(draft_says()) as served:
        told = (await served.http.get(f"{served.url}/audit")).json()
        assert (told["mode"], told["audit"]) == ("enforce", None)
        await served.ask()
        assert len(served.agent.completions) == 1, "the screening, and nothing beside it"


async def test_drift_is_watched_where_the_calibration_knows_its_traffic(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The calibration saw 95 % of its queries let through and accepted; here the agent wants a tool for all."""
    file = tmp_path / "calibration.json"
    traffic = {"screened": 190, "score_edges": (5.0,), "score_counts": (10, 180, 0)}
    certified(6.0, n=200, traffic=traffic).save(file)
    settings = {"gate.calibration": file, "gate.threshold": None, "gate.k": None}
    agent = agent_says("<answer>8</answer>", needs_tool=True)
    with caplog.at_level(logging.WARNING, "speceyes.audit"):
        async with running(agent=agent, settings=settings) as served:
            before = await metrics(served)
            for _ in range(25):
                await served.ask()
            after = await metrics(served)
    assert before["speceyes_audit_drifted watched=screening"] == 0
    assert after["speceyes_audit_drifted watched=screening"] == 1
    assert sum("screening" in record.getMessage() for record in caplog.records) == 1
