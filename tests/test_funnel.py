"""The funnel's control flow and faults, against scripted servers on real sockets."""

import asyncio
import gc
import hashlib
import json
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from scripted_funnel import (
    ANSWER,
    CALL,
    IMAGE,
    THRESHOLD,
    TORN,
    agent_script,
    funnel_over,
    is_screening,
    picture,
    query,
)
from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.engines.client import ChatClient
from speceyes.engines.failures import LogprobLimit
from speceyes.engines.script import Cut, Hang, Logprobs, Outcome, Reply, Status, token_reply
from speceyes.engines.scripted import ScriptedServer
from speceyes.errors import CalibrationMismatch, EngineError, EngineRefused, EngineUnreachable, SpecEyesError
from speceyes.events import Answered, Cancelled, Decided, Event, Failed, PhaseEnded, TurnEnded
from speceyes.funnel import Funnel
from speceyes.gating import Calibration, fingerprint
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.looks import look
from speceyes.imaging.resize import QWEN2_5_VL
from speceyes.phases import AgentModel, DraftModel
from speceyes.phases.speculate import PROMPT
from speceyes.types import Finish, Query, Reason, Route, Usage


async def test_a_sure_draft_is_the_answer_and_the_loop_never_runs() -> None:
    async with funnel_over(lambda r, n: Reply("B"), agent_script()) as (funnel, small, large):
        answer = await funnel.answer(query())
    assert (answer.text, answer.route, answer.reason) == ("B", Route.DRAFT, Reason.ACCEPTED)
    assert len(small.completions) == len(large.completions) == 1
    assert answer.trace.run is None
    assert set(answer.trace.phase_seconds) == {"screen", "speculate"}


async def test_where_a_tool_would_help_the_draft_is_not_asked() -> None:
    async with funnel_over(lambda r, n: Reply("B"), agent_script(helps=0.9)) as (funnel, small, large):
        answer = await funnel.answer(query())
    assert (answer.text, answer.route, answer.reason) == ("agent says", Route.AGENT, Reason.TOOL_WOULD_HELP)
    assert small.completions == []
    assert len(large.completions) == 3
    run = answer.trace.run
    assert run is not None
    assert (run.depth, run.finish) == (1, Finish.ANSWERED)
    assert run.turns[0].crops[0].box == (10.0, 10.0, 60.0, 60.0)


async def test_a_torn_draft_falls_back_and_its_tokens_are_counted() -> None:
    async with funnel_over(lambda r, n: Reply(tokens=TORN), agent_script()) as (funnel, small, large):
        answer = await funnel.answer(query())
    assert (answer.text, answer.reason) == ("agent says", Reason.BELOW_THRESHOLD)
    assert answer.score is not None
    spent = answer.trace.usage
    ledger = {"small": small, "large": large}
    for model, server in ledger.items():
        assert spent[model].calls == len(server.completions)
    assert spent["small"].completion_tokens == 1
    assert spent["large"].calls == 3


async def test_screening_and_the_first_turn_share_all_but_the_last_line() -> None:
    async with funnel_over(lambda r, n: Reply(tokens=TORN), agent_script()) as (funnel, _, large):
        await funnel.answer(query(system="Answer in French."))
    screening, first = (request.json for request in large.completions[:2])
    assert screening["tools"] == first["tools"]
    assert screening["messages"][0] == first["messages"][0]
    assert "Answer in French." in first["messages"][0]["content"]
    one, two = (request["messages"][1]["content"] for request in (screening, first))
    assert one[:-1] == two[:-1]
    assert one[-1]["text"].split("\n\n")[0] == two[-1]["text"].split("\n\n")[0] == "What is it?"


async def test_the_users_system_prompt_reaches_the_draft() -> None:
    async with funnel_over(lambda r, n: Reply("B"), agent_script()) as (funnel, small, _):
        await funnel.answer(query(system="Answer in French."))
    assert small.completions[0].json["messages"][0] == {"role": "system", "content": "Answer in French."}


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        (Status(500, "broken"), Reason.DRAFT_FAILED),
        (Status(400, "the picture is too large"), Reason.DRAFT_FAILED),
        (Cut(Reply("B"), 0), Reason.DRAFT_FAILED),
        (Reply("B", logprobs=Logprobs.NULL), Reason.LOGPROBS_MISSING),
        (Reply("B", logprobs=Logprobs.MISSING), Reason.LOGPROBS_MISSING),
        (Reply("B", logprobs=Logprobs.EMPTY), Reason.LOGPROBS_MISSING),
        (Reply("B", logprobs=Logprobs.NO_TOP), Reason.LOGPROBS_MISSING),
        (Reply("", tokens=[]), Reason.EMPTY_ANSWER),
        (Reply("B", finish_reason="length"), Reason.TRUNCATED_ANSWER),
        (Reply(tokens=[token_reply("B", k=20)]), Reason.LOGPROBS_TOO_FEW),
        (Reply("B", tokens=["A"]), Reason.LOGPROBS_MISALIGNED),
    ],
)
async def test_what_goes_wrong_in_the_draft_goes_to_the_agent_under_its_own_reason(
    draft: Outcome, reason: Reason
) -> None:
    async with funnel_over(lambda r, n: draft, agent_script()) as (funnel, _, _large):
        answer = await funnel.answer(query())
    assert (answer.text, answer.reason) == ("agent says", reason)
    assert bool(answer.trace.notes) is (reason is Reason.DRAFT_FAILED)


async def test_a_failed_screening_goes_to_the_agent() -> None:
    def agent(request: dict[str, Any], n: int) -> Outcome:
        return Status(500, "no") if is_screening(request) else Reply(ANSWER)

    async with funnel_over(lambda r, n: Reply("B"), agent) as (funnel, small, _):
        answer = await funnel.answer(query())
    assert (answer.text, answer.reason) == ("agent says", Reason.SCREEN_FAILED)
    assert small.completions == []


async def test_a_failed_agent_is_an_error_and_an_event() -> None:
    events: list[Event] = []
    agent = agent_script(helps=0.9, loop=(Status(500, "down"),))
    async with funnel_over(lambda r, n: Reply("B"), agent, listen=events.append) as (funnel, _, _large):
        with pytest.raises(EngineError, match="down"):
            await funnel.answer(query())
    assert [type(event) for event in events] == [PhaseEnded, Decided, PhaseEnded, Failed]


async def test_what_a_query_cost_before_it_failed_is_not_lost() -> None:
    events: list[Event] = []
    used = {"prompt_tokens": 50, "completion_tokens": 9}
    loop = (Reply(CALL, usage=used), Reply(CALL.replace("10, 10", "20, 20"), usage=used), Status(500, "down"))
    draft = Reply(tokens=TORN, usage={"prompt_tokens": 70, "completion_tokens": 1})
    async with funnel_over(lambda r, n: draft, agent_script(loop=loop), listen=events.append) as (funnel, _, large):
        with pytest.raises(EngineError, match="down"):
            await funnel.answer(query())
        screening = large.completions[0]
    turns = [event.turn.index for event in events if isinstance(event, TurnEnded)]
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert turns == [0, 1]
    assert failed.usage["small"] == Usage(70, 1, None, 1)
    assert failed.usage["large"].calls == 3
    assert failed.usage["large"].completion_tokens == 2 * 9 + 1
    assert is_screening(screening.json)


async def test_a_history_that_outgrew_the_server_still_ends_in_an_answer() -> None:
    def agent(request: dict[str, Any], n: int) -> Outcome:
        pictures = json.dumps(request["messages"]).count("image_url")
        if "no longer at hand" in json.dumps(request["messages"]):
            return Reply(ANSWER)
        loop = (Reply(CALL), Status(400, f"at most 1 image, not {pictures}"))
        return agent_script(helps=0.9, loop=loop)(request, n)  # type: ignore[return-value]

    async with funnel_over(lambda r, n: Reply("B"), agent) as (funnel, _, large):
        answer = await funnel.answer(query())
    run = answer.trace.run
    assert run is not None
    assert (answer.text, run.finish, run.depth) == ("agent says", Finish.CONTEXT_LIMIT, 1)
    assert "at most 1 image" in (run.turns[1].error or "")
    assert answer.trace.usage["large"].calls == len(large.completions) == 4


@pytest.mark.parametrize("status", [401, 403, 404, 307])
@pytest.mark.parametrize("where", ["screen", "speculate"])
async def test_a_server_that_is_not_set_up_right_is_an_error_and_no_reason(where: str, status: int) -> None:
    wrong = Status(status, "wrong key, model or address")
    agent = (lambda r, n: wrong) if where == "screen" else agent_script()
    async with funnel_over(lambda r, n: wrong, agent) as (funnel, _, large):
        with pytest.raises(EngineRefused, match=str(status)):
            await funnel.answer(query())
        assert len(large.completions) == 1


async def test_a_server_that_refuses_k_logprobs_is_an_error_that_names_the_limit() -> None:
    async with ScriptedServer(Reply("B"), max_top_logprobs=20) as small, ScriptedServer(agent_script()) as large:
        async with ChatClient(small.url, "small") as a, ChatClient(large.url, "large") as b:
            funnel = Funnel(DraftModel(a, QWEN2_5_VL), AgentModel(b, DeepEyes()), THRESHOLD)
            with pytest.raises(LogprobLimit, match=r"--max-logprobs 65"):
                await funnel.answer(query())
        assert (len(small.completions), len(large.completions)) == (1, 1)


async def test_events_tell_the_story() -> None:
    events: list[Event] = []
    async with funnel_over(lambda r, n: Reply("B"), agent_script(), listen=events.append) as (funnel, _, _large):
        await funnel.answer(query("seven"))
    assert [type(event) for event in events] == [PhaseEnded, PhaseEnded, Decided, Answered]
    assert {getattr(event, "query_id", "seven") for event in events} == {"seven"}


async def test_many_answers_keep_their_order_and_one_failure_loses_none() -> None:
    def agent(request: dict[str, Any], n: int) -> Outcome:
        question = json.dumps(request["messages"])
        if "poisoned" in question:
            return Status(400, "bad image")
        return agent_script(helps=0.9 if "hard" in question else 0.1)(request, n)  # type: ignore[return-value]

    names = ["easy-0", "hard-1", "poisoned-2", "hard-3", "easy-4", "easy-5"]
    queries = [Query(f"{name}?", (IMAGE,), id=name) for name in names]
    async with funnel_over(lambda r, n: Reply("B"), agent) as (funnel, _, _large):
        found = await funnel.answer_many(queries, return_exceptions=True)
        with pytest.raises(SpecEyesError, match="bad image"):
            await funnel.answer_many(queries)
    assert [isinstance(outcome, SpecEyesError) for outcome in found] == [name.startswith("pois") for name in names]
    routes = [
        None if isinstance(outcome, SpecEyesError) else (outcome.query_id, outcome.route.value) for outcome in found
    ]
    assert routes == [
        None if name.startswith("pois") else (name, "draft" if name.startswith("easy") else "agent") for name in names
    ]


async def test_an_error_in_an_answers_place_does_not_keep_the_pictures() -> None:
    kept: list[weakref.ref[DecodedImage]] = []

    def crowd() -> Iterator[Query]:
        for i in range(3):
            image = picture(56 + 28 * i)
            kept.append(weakref.ref(image))
            yield Query("What is it?", (image,))

    async with funnel_over(Status(500), Cut()) as (funnel, _, _large):
        found = await funnel.answer_many(crowd(), return_exceptions=True)
    gc.collect()
    assert [type(outcome) for outcome in found] == [EngineUnreachable] * 3
    assert [ref() for ref in kept] == [None] * 3


async def test_the_sync_wrapper_may_be_used_again_and_again() -> None:
    async with funnel_over(lambda r, n: Reply("B"), agent_script()) as (funnel, _, _large):
        answers = [await asyncio.to_thread(funnel.answer_sync, query(name)) for name in "pq"]
    assert [(answer.query_id, answer.text) for answer in answers] == [("p", "B"), ("q", "B")]


async def test_pictures_do_not_mix_while_others_are_given_up() -> None:
    """Both models answer with a hash of the picture that they were shown; a third of the queries is cancelled."""

    def digest(url: str) -> str:
        return hashlib.sha256(url.encode()).hexdigest()[:8]

    def shown(request: dict[str, Any]) -> str:
        (url,) = {
            part["image_url"]["url"] for part in request["messages"][-1]["content"] if part["type"] == "image_url"
        }
        return digest(url)

    def agent(request: dict[str, Any], n: int) -> Outcome:
        helps = 0.9 if "hard" in request["messages"][-1]["content"][-1]["text"] else 0.1
        return agent_script(helps, (Reply(f"<answer>{shown(request)}</answer>"),))(request, n)  # type: ignore[return-value]

    images = [picture(56 + 28 * (i % 6), 56 + 28 * (i // 6)) for i in range(36)]
    queries = [Query("hard?" if i % 2 else "easy?", (image,)) for i, image in enumerate(images)]
    expected = [digest(view.data_url) for image in images for view in await look((image,), QWEN2_5_VL)]
    assert len(set(expected)) == len(images)

    setup = funnel_over(lambda r, n: Reply(tokens=[token_reply(shown(r))]), agent, max_connections=10, loops=4)
    async with setup as (funnel, _, large):
        tasks = [asyncio.create_task(funnel.answer(query)) for query in queries]
        await large.wait_for(8)
        for task in tasks[::3]:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert (funnel.stateless.held, funnel.loops.held) == (0, 0)
    answers = {i: answer for i, answer in enumerate(found) if not isinstance(answer, BaseException)}
    assert len(answers) >= 24
    assert {i: answer.text for i, answer in answers.items()} == {i: expected[i] for i in answers}
    assert {answer.route for answer in answers.values()} == set(Route)


async def test_a_generator_of_queries_is_drawn_from_only_as_places_come_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speceyes.funnel.AHEAD", 4)
    drawn, finished, most = 0, 0, 0

    def crowd() -> Iterator[Query]:
        nonlocal drawn, most
        for i in range(20):
            drawn += 1
            most = max(most, drawn - finished)
            yield query(str(i))

    def listen(event: Event) -> None:
        nonlocal finished
        finished += isinstance(event, Answered)

    setup = funnel_over(lambda r, n: Reply("B"), agent_script(), stateless=2, loops=1, listen=listen)
    async with setup as (funnel, _, _large):
        answers = await funnel.answer_many(crowd())
    assert [answer.query_id for answer in answers] == [str(i) for i in range(20)]
    assert most == 2 + 1 + 4


async def test_slots_bound_what_is_under_way() -> None:
    most = {"screen": 0, "loop": 0}
    now = {"screen": 0, "loop": 0}

    async def agent(request: dict[str, Any], n: int) -> Outcome:
        kind = "screen" if is_screening(request) else "loop"
        now[kind] += 1
        most[kind] = max(most[kind], now[kind])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        now[kind] -= 1
        return agent_script(helps=0.9, loop=(Reply(ANSWER),))(request, n)  # type: ignore[return-value]

    async with funnel_over(lambda r, n: Reply("B"), agent, stateless=3, loops=2) as (funnel, _, _large):
        answers = await funnel.answer_many(query(str(i)) for i in range(12))
    assert len(answers) == 12
    assert 1 <= most["screen"] <= 3
    assert 1 <= most["loop"] <= 2
    assert (funnel.stateless.held, funnel.loops.held) == (0, 0)


@pytest.mark.parametrize("where", ["screen", "speculate", "fall_back"])
async def test_a_cancelled_query_ends_its_upstream_work(where: str) -> None:
    events: list[Event] = []

    def agent(request: dict[str, Any], n: int) -> Outcome:
        if where == ("screen" if is_screening(request) else "fall_back"):
            return Hang(Reply("thinking"), 1)
        return agent_script(helps=0.9 if where == "fall_back" else 0.1)(request, n)  # type: ignore[return-value]

    draft = Hang(Reply("B"), 0) if where == "speculate" else Reply("B")
    async with funnel_over(lambda r, n: draft, agent, listen=events.append) as (funnel, small, large):
        task = asyncio.create_task(funnel.answer(query()))
        server = small if where == "speculate" else large
        await server.wait_for(2 if where == "fall_back" else 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_until(lambda: server.active == 0)
        assert server.completions[-1].closed_by_client
        asked = len(large.completions)
        assert (funnel.stateless.held, funnel.loops.held) == (0, 0)
    assert len(large.completions) == asked
    assert isinstance(events[-1], Cancelled)
    calls = {model: used.calls for model, used in events[-1].usage.items()}
    assert calls == ({} if where == "screen" else {"large": 1})


async def test_where_no_draft_can_pass_none_is_asked_for() -> None:
    bound = {"draft_model": "small", "agent_model": "large", "data": "h"}
    some = Calibration(threshold=None, method="ltt", n=10, draft_prompt=fingerprint(PROMPT), **bound)
    async with funnel_over(lambda r, n: Reply("B"), agent_script(), calibration=some) as (funnel, small, large):
        answer = await funnel.answer(query())
    assert (answer.text, answer.reason, answer.score) == ("agent says", Reason.INFEASIBLE, None)
    assert small.completions == []
    assert not any(is_screening(request.json) for request in large.completions)


async def test_a_calibration_made_for_another_model_is_refused() -> None:
    other = Calibration.manual(2.0, k=64, draft_model="someone else's")
    with pytest.raises(CalibrationMismatch, match="someone else's"):
        async with funnel_over(lambda r, n: Reply("B"), agent_script(), calibration=other):
            pass


async def test_a_calibration_for_more_logprobs_than_are_asked_for_is_refused() -> None:
    with pytest.raises(CalibrationMismatch, match="128"):
        async with funnel_over(lambda r, n: Reply("B"), agent_script(), calibration=Calibration.manual(1.0, k=128)):
            pass
