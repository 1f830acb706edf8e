"""The awkward inputs that people really meet, each against a gateway on a real socket, with the right value.

The numbers are those of the project's collection of cases. Here are those about numbers: log-probs, tokens, turns.
Those about requests and errors are in `test_cases_requests`, those about pictures in `test_cases_images`.

    Case                                         Here                    Elsewhere
    -------------------------------------------  ----------------------  --------------------------------------------
     2 log-probs null or dropped with a 200      counted by reason       test_faults; test_serve_cli (start-up)
     3 the score depends on K                    yes                     gating/test_separability, test_calibration
    10 reasoning counted as confidence           yes                     engines/test_logprobs
    12 the client goes away                      in the fourth turn      test_managed, test_passing, test_transparent
    13 usage covers only the last call           yes                     test_managed, test_wire_stream
    17 K above the server's limit                in a running service    test_serve_cli (start-up)
    19 the final usage chunk                     from the agent's side   test_passing (all shapes), test_managed
    20 answer tags                               clean text              agents/dialects/test_deepeyes, test_tags
    21 a threshold that does not carry over      -                       gating/test_calibration, trust, gating/audit
    23 the turn limit                            yes                     test_managed, agents/test_loop
    25 retries stack up                          -                       test_faults
    27 -inf, NaN, sentinels                      the right score         test_faults, gating/test_confidence
    31 schema disagreement, unknown tool         -                       agents/dialects, tools/test_zoom
    32 streamed log-probs                        yes                     engines/test_stream, test_client
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from gateway_server import SURE, UNSURE, ZOOM, Running, agent_says, draft_says, events, running

from speceyes.engines.scripted import Hang, Logprobs, Outcome, Reply, ScriptedServer, Status, token_reply
from speceyes.gating import squash
from speceyes.store import Store

TAIL = [-0.05, *(-3.2 - 0.15 * n for n in range(63))]
"""The made-up tail of case 3."""


async def told(served: Running, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await served.ask(**fields)).json()["speceyes"]
    return found


# Log-probs


async def test_case_2_a_reply_without_log_probs_is_counted_under_its_own_reason() -> None:
    async with running(Reply("7", logprobs=Logprobs.NULL)) as served:
        for _ in range(3):
            assert (await told(served))["reason"] == "logprobs_missing"
        metrics = served.gateway.observer.metrics.text().decode()
        (line,) = [one for one in metrics.splitlines() if one.startswith("speceyes_requests_total{")]
        assert 'reason="logprobs_missing"' in line
        assert line.endswith(" 3.0")


@pytest.mark.parametrize(("k", "squashed"), [(3, 1.000), (5, 1.000), (10, 0.997), (20, 0.964), (64, 0.848)])
async def test_case_3_the_score_of_one_tail_at_each_k(k: int, squashed: float) -> None:
    settings = {"gate.k": k, "gate.threshold": -100.0}
    async with running(draft_says(top=TAIL), settings=settings) as served:
        assert squash((await told(served))["score"]) == pytest.approx(squashed, abs=6e-4)
        assert served.draft.completions[0].json["top_logprobs"] == k + 1


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (0, "logprobs_missing"),
        (1, "logprobs_too_few"),
        (2, "logprobs_too_few"),
        (7, "logprobs_too_few"),
        (8, "accepted"),
    ],
)
async def test_case_3_fewer_log_probs_than_k_are_no_confidence(sent: int, reason: str) -> None:
    async with running(draft_says(top=SURE[:sent])) as served:
        found = await told(served)
        assert (found["reason"], found["score"] is None) == (reason, sent < 8)


async def test_case_3_a_server_that_sends_one_more_than_k_changes_nothing() -> None:
    scores = set()
    for more in ([], [-9.0], [-9.0, -9.5]):
        async with running(draft_says(top=SURE + more)) as served:
            found = await told(served)
            assert found["reason"] == "accepted"
            scores.add(found["score"])
    assert len(scores) == 1


@pytest.mark.parametrize("tokens", [[], [token_reply("", SURE)], [token_reply("\n", SURE)]])
async def test_case_3_no_token_is_no_confidence(tokens: list[Any]) -> None:
    async with running(Reply("", tokens=tokens)) as served:
        found = await told(served)
        assert (found["route"], found["reason"]) == ("agent", "empty_answer")


THOUGHT = [token_reply(f" thought{n}", UNSURE) for n in range(20)]
MARKERS = ([token_reply("<think>", SURE)], [token_reply("</think>", SURE), token_reply("\n\n", SURE)])
SEVEN = token_reply("7", SURE)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(tokens=[SEVEN], reasoning="".join(t["token"] for t in THOUGHT), hidden=THOUGHT), "accepted"),
        (Reply(tokens=[SEVEN], reasoning="a long thought"), "accepted"),
        (Reply(tokens=[*MARKERS[0], *THOUGHT, *MARKERS[1], SEVEN]), "accepted"),
        (Reply("7", tokens=[], reasoning="a thought"), "logprobs_missing"),
        (Reply("7", tokens=THOUGHT[:3], reasoning="a thought"), "logprobs_misaligned"),
        (Reply("", tokens=[], reasoning="and so on", hidden=THOUGHT, finish_reason="length"), "truncated_answer"),
    ],
    ids=["entries for all", "for the answer only", "inline", "none", "shifted", "budget used up"],
)
async def test_case_10_only_the_visible_answer_is_scored(reply: Reply, reason: str) -> None:
    async with running(reply) as served:
        body = (await served.ask()).json()
        assert body["speceyes"]["reason"] == reason
        assert body["choices"][0]["message"]["content"] == ("7" if reason == "accepted" else "8")


@pytest.mark.parametrize("above", ["refuse", "clip"])
async def test_case_17_k_above_the_limit_of_a_running_server_is_told_and_not_retried(above: Any) -> None:
    """At the start it is found by a probe (test_serve_cli). A server may come back with another limit."""
    async with (
        ScriptedServer(draft_says(), models=["small"], max_top_logprobs=5, above_limit=above) as limited,
        running(settings={"draft.url": limited.url, "draft.retries": 2}) as served,
    ):
        found = await told(served)
        assert len(limited.completions) == 1
        if above == "clip":
            assert found["reason"] == "logprobs_too_few"
            return
        assert found["reason"] == "draft_failed"
        assert "it allows 5" in found["notes"][0]
        assert "--max-logprobs 9" in found["notes"][0]
        ready = (await served.http.get(served.url.replace("/v1", "/ready"))).json()
        assert ready["status"] == "degraded", "nobody is to believe that all is well"
        assert "--max-logprobs 9" in ready["draft"]["error"]


@pytest.mark.parametrize("junk", [-9999.0, float("-inf"), float("nan"), None])
async def test_case_27_sentinels_are_taken_out_before_the_score(junk: float | None) -> None:
    clean = [-0.01, -5, -6, -7, -8]
    settings = {"gate.k": 5, "gate.threshold": -100.0}
    for top in (clean, [clean[0], junk, *clean[1:]], [*clean, junk]):
        async with running(Reply(tokens=[_entry("7", top)]), settings=settings) as served:
            assert squash((await told(served))["score"]) == pytest.approx(0.970, abs=6e-4)


def _entry(text: str, top: list[Any]) -> dict[str, Any]:
    rivals = [{"token": text if n == 0 else f"w{n}", "logprob": value} for n, value in enumerate(top)]
    return {"token": text, "logprob": top[0], "top_logprobs": rivals}


async def test_case_32_however_the_log_probs_come_the_score_is_the_same() -> None:
    tokens = [token_reply(text, [value + 0.0 for value in SURE]) for text in ("on", "e ", "red", " sign")]
    tokens[2] = token_reply("red", [-0.3, *SURE[1:]])
    whole = Reply(tokens=tokens, stream=False)
    scores = []
    for reply in (whole, Reply(tokens=tokens), Reply(tokens=tokens, per_chunk=3), Reply(tokens=tokens, per_chunk=9)):
        async with running(reply) as served:
            found = await told(served)
            scores.append(found["score"])
            assert found["reason"] == "accepted"
    assert len(set(scores)) == 1


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        (["on", "on", "on"], "logprobs_misaligned"),
        (["on"], "logprobs_misaligned"),
        (["on", "e ", "red", " sign", " and"], "logprobs_misaligned"),
        ([], "logprobs_missing"),
    ],
    ids=["the first one for all", "the last ones lost", "too many", "none"],
)
async def test_case_32_entries_that_do_not_spell_the_text_are_no_confidence(entries: list[str], reason: str) -> None:
    async with running(Reply("one red sign", tokens=[token_reply(text, SURE) for text in entries])) as served:
        assert (await told(served))["reason"] == reason


# Usage, turns, retries, clients that leave


def _counted(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _three_turns(third: Outcome | None = None) -> Any:
    """The agent of case 13: 40 tokens of screening, then turns of 1000, 1200 and 1400."""
    zooms = [ZOOM, ZOOM.replace("112", "168")]
    turns = [Reply(zooms[0], usage=_counted(1000, 20)), Reply(zooms[1], usage=_counted(1200, 20))]
    last = Reply("<answer>8</answer>", usage=_counted(1400, 10))

    def script(request: dict[str, Any], turn: int) -> Outcome:
        if request.get("max_tokens") == 1:
            entry = token_reply("no", [("no", -0.02), ("yes", -4.0)])
            return Reply(tokens=[entry], usage=_counted(40, 1))
        return [*turns, third or last][sum(message["role"] == "assistant" for message in request["messages"])]

    return script


@pytest.mark.parametrize("stream", [False, True])
async def test_case_13_usage_is_the_sum_of_all_stages(stream: bool) -> None:
    draft = Reply(tokens=[token_reply("7", UNSURE)], usage=_counted(100, 5))
    async with running(draft, _three_turns()) as served:
        reply = await served.ask(stream=stream, stream_options={"include_usage": True} if stream else None)
        body = events(reply.text)[-2] if stream else reply.json()
        told_by = events(reply.text)[-3] if stream else body
        assert body["usage"] == _counted(40 + 100 + 1000 + 1200 + 1400, 1 + 5 + 20 + 20 + 10)
        assert told_by["speceyes"]["usage_by_model"] == {
            "small": {"prompt_tokens": 100, "completion_tokens": 5, "cached_tokens": None, "calls": 1},
            "large": {"prompt_tokens": 3640, "completion_tokens": 51, "cached_tokens": None, "calls": 4},
        }


async def test_case_13_what_a_run_cost_that_fails_in_its_third_turn_is_recorded(tmp_path: Path) -> None:
    draft = Reply(tokens=[token_reply("7", UNSURE)], usage=_counted(100, 5))
    url = f"sqlite:///{tmp_path / 'requests.db'}"
    settings = {"store.enabled": True, "store.url": url}
    async with running(draft, _three_turns(Status(500, "no")), settings) as served:
        assert (await served.ask()).status_code == 502
    async with await Store.open(url) as store:
        (record,) = [record async for record in store.iterate()]
    assert (record.usage["small"].prompt_tokens, record.usage["large"].prompt_tokens) == (100, 40 + 1000 + 1200)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 6])
async def test_case_23_at_the_turn_limit_the_agent_is_asked_once_for_its_answer(limit: int, stream: bool) -> None:
    zooms = [ZOOM.replace("112", str(112 + 28 * n)) for n in range(6)]

    def agent(request: dict[str, Any], turn: int) -> Outcome:
        done = sum(message["role"] == "assistant" for message in request["messages"])
        return Reply("<answer>9</answer>") if done == limit else Reply(zooms[done])

    async with running(agent=agent, settings={"agent.max_turns": limit}) as served:
        reply = await served.ask(model="speceyes/agent", stream=stream)
        body = events(reply.text)[-2] if stream else reply.json()
        assert body["speceyes"]["finish"] == "turn_limit"
        assert body["choices"][0]["finish_reason"] == "stop"
        text = contents(reply.text) if stream else body["choices"][0]["message"]["content"]
        assert text == "9"
        assert len(served.agent.completions) == limit + 1
        assert body["speceyes"]["usage_by_model"]["large"]["calls"] == limit + 1


async def test_case_23_a_closing_turn_that_fails_too_is_a_completion_that_says_so() -> None:
    def agent(request: dict[str, Any], turn: int) -> Outcome:
        return Status(500, "no") if any(m["role"] == "assistant" for m in request["messages"]) else Reply(ZOOM)

    async with running(agent=agent, settings={"agent.max_turns": 1}) as served:
        body = (await served.ask(model="speceyes/agent", speceyes={"trace": True})).json()
        assert (body["speceyes"]["finish"], body["choices"][0]["finish_reason"]) == ("turn_limit", "length")
        assert body["choices"][0]["message"]["content"] == ""
        assert "closing request failed" in body["speceyes"]["trace"]["run"]["turns"][-1]["error"]


async def test_case_12_a_client_that_leaves_in_the_fourth_turn_ends_the_loop_there() -> None:
    zooms = [ZOOM.replace("112", str(112 + 28 * n)) for n in range(3)]
    async with running(agent=agent_says(*zooms, Hang(Reply("<answer>8</answer>"), 1))) as served:
        asking = asyncio.create_task(served.ask(model="speceyes/agent", stream=True))
        await served.agent.wait_until(lambda: len(served.agent.completions) == 4, 60)
        asking.cancel()
        await served.agent.wait_until(lambda: served.agent.active == 0, 60)
        assert [call.closed_by_client for call in served.agent.completions] == [False, False, False, True]
        assert (served.gateway.funnel.loops.held, served.gateway.funnel.loops.waiting) == (0, 0)


@pytest.mark.parametrize("usage_on", ["last", "each"])
@pytest.mark.parametrize("asked_for", [True, False])
async def test_case_19_one_usage_chunk_whatever_the_agents_server_sends(usage_on: Any, asked_for: bool) -> None:
    answer = Reply("<answer>8</answer>", usage=_counted(10, 2), usage_on=usage_on)
    async with running(draft_says(top=UNSURE), agent_says(ZOOM, answer)) as served:
        reply = await served.ask(stream=True, stream_options={"include_usage": asked_for})
        chunks = [event for event in events(reply.text) if isinstance(event, dict)]
        assert [chunk["choices"] for chunk in chunks if chunk.get("usage")] == [[]] * asked_for
        assert chunks[-1]["choices"] == [] or not asked_for


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>I must write <answer>X</answer></think><answer>B</answer>", "B"),
        ("<answer>A</answer> wait <answer>C</answer>", "C"),
        (r"<answer>\boxed{\text{C}}</answer>", "C"),
        (r"<answer>\boxed{\frac{1}{2}}</answer>", r"\frac{1}{2}"),
        ("<answer>C", "C"),
        ("The answer is C", "The answer is C"),
    ],
)
async def test_case_20_a_client_gets_clean_text(said: str, text: str) -> None:
    async with running(agent=agent_says(said)) as served:
        body = (await served.ask(model="speceyes/agent")).json()
        found = body["choices"][0]["message"]["content"]
        assert "<" not in found
        assert body["speceyes"]["finish"] == ("answered" if "<answer>" in said else "untagged")
        assert found == text


def contents(text: str) -> str:
    return "".join(c["delta"].get("content") or "" for e in events(text) if isinstance(e, dict) for c in e["choices"])
