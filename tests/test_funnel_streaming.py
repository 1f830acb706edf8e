"""What `Funnel.answer` tells while the agent writes: by script for the hard cases, by the nano pair for real ones."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from scripted_funnel import CALL, TORN, agent_script, funnel_over, is_screening, query
from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.engines.client import ChatClient
from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.nano import NANO_LIMITS, NANO_ZOOM_CONTEXT
from speceyes.engines.script import Cut, Hang, Outcome, Payloads, Reply, Status
from speceyes.errors import EngineError
from speceyes.evals.datasets.samples import make_samples
from speceyes.events import Answered, Cancelled, Event, Failed, TextStreamed, TurnEnded
from speceyes.funnel import Funnel
from speceyes.gating import Calibration
from speceyes.phases import AgentModel, DraftModel
from speceyes.types import Finish, ImageSizes, Query, Reason, Route, Sampling

LONG = "The small sign on the left, half behind the tree, says that parking is free on Sundays and holidays."
TAGGED = f"<think>now I see</think>\n<answer>{LONG}"


def said(events: list[Event], kind: str) -> list[str]:
    return [event.text for event in events if isinstance(event, TextStreamed) and event.kind == kind]


async def stream(
    loop: tuple[Outcome, ...], sampling: Sampling | None = None, **options: Any
) -> tuple[list[Event], Any, list[dict[str, Any]]]:
    """(the events, the answer, the requests that the agent got)"""
    events: list[Event] = []
    async with funnel_over(Reply(tokens=TORN), agent_script(loop=loop), **options) as (funnel, _, large):
        answer = await funnel.answer(query(sampling=sampling or Sampling()), listen=events.append)
    return events, answer, [request.json for request in large.completions]


async def test_thoughts_and_the_answer_are_told_turn_by_turn_and_no_call() -> None:
    events, answer, _ = await stream((Reply(CALL), Reply(TAGGED)))
    story = [(type(event).__name__, getattr(event, "kind", "")) for event in events]
    told = [item for i, item in enumerate(story) if i == 0 or item != story[i - 1]]
    assert told == [
        *[("PhaseEnded", ""), ("Decided", "")],
        *[("TextStreamed", "thought"), ("TurnEnded", "")],
        *[("TextStreamed", "thought"), ("TextStreamed", "answer"), ("TurnEnded", ""), ("PhaseEnded", "")],
        ("Answered", ""),
    ]
    assert "".join(said(events, "thought")) == "smallnow I see"
    assert "".join(said(events, "answer")) == answer.text == LONG
    assert len(said(events, "answer")) == 3  # the first line at once, then word by word


@pytest.mark.parametrize(
    ("last", "text"),
    [
        (Reply("<think>now I see</think>\n<answer>7</answer>"), "7"),
        (Reply("<answer>A</answer> wait <answer>C</answer>"), "C"),
        (Reply(r"<answer>It is \boxed{7}</answer>"), "7"),
        (Reply(f"{LONG} It is plain text, so nobody knows before the end."), None),
        (Reply(r"So it is \boxed{7}."), "7"),
        (Reply(f"<answer>{LONG}</answer>", reasoning="hm"), LONG),
        (Reply(f"<answer>{LONG}</answer>", stream=False), LONG),
        (Reply("", reasoning="hm <answer>7"), "7"),
    ],
)
async def test_what_is_told_of_the_answer_is_all_of_it(last: Reply, text: str | None) -> None:
    events, answer, _ = await stream((Reply(CALL), last))
    assert "".join(said(events, "answer")) == answer.text == (text or last.text)
    assert "".join(said(events, "thought")).startswith("small")


async def test_an_answer_is_told_while_it_is_written() -> None:
    events: list[Event] = []
    writing = asyncio.Event()
    more = asyncio.Semaphore(20)

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, TextStreamed) and event.kind == "answer":
            writing.set()

    loop = (Reply(TAGGED, pace=more.acquire),)
    async with funnel_over(Reply(tokens=TORN), agent_script(loop=loop)) as (funnel, _, large):
        task = asyncio.create_task(funnel.answer(query(), listen=listen))
        await asyncio.wait_for(writing.wait(), 30)
        assert large.active == 1
        assert LONG.startswith("".join(said(events, "answer")))
        for _ in range(20):
            more.release()
        assert (await task).text == LONG


async def test_a_draft_is_not_streamed() -> None:
    events: list[Event] = []
    async with funnel_over(Reply("B"), agent_script()) as (funnel, _, _large):
        await funnel.answer(query(), listen=events.append)
    assert [event for event in events if isinstance(event, TextStreamed)] == []


async def test_both_listeners_hear_but_only_of_their_own() -> None:
    everything: list[Event] = []
    one: list[Event] = []
    async with funnel_over(Reply("B"), agent_script(), listen=everything.append) as (funnel, _, _large):
        await asyncio.gather(funnel.answer(query("a"), listen=one.append), funnel.answer(query("b")))
    assert {event.query_id for event in one if hasattr(event, "query_id")} == {"a"}
    assert sum(isinstance(event, Answered) for event in everything) == 2


@pytest.mark.parametrize("fault", [Cut(Reply(TAGGED), 22), Payloads([])])
async def test_an_answer_that_breaks_off_is_an_error_and_not_another_answer(fault: Outcome) -> None:
    if isinstance(fault, Payloads):  # the server says in the middle that the history is too large
        opening = {"choices": [{"delta": {"content": f"<answer>{LONG}"}}]}
        fault = Payloads([opening, {"error": {"message": "context", "code": 400}}])
    events: list[Event] = []
    loop = (Reply(CALL), fault, Reply("<answer>8</answer>"))
    async with funnel_over(Reply(tokens=TORN), agent_script(loop=loop), client_retries=2) as (funnel, _, large):
        with pytest.raises(EngineError):
            await funnel.answer(query(), listen=events.append)
    assert len(large.completions) == 3
    assert LONG.startswith("".join(said(events, "answer")))
    assert said(events, "answer") != []
    assert isinstance(events[-1], Failed)


async def test_a_cancelled_query_ends_its_stream_upstream() -> None:
    events: list[Event] = []
    writing = asyncio.Event()

    def listen(event: Event) -> None:
        events.append(event)
        writing.set() if isinstance(event, TextStreamed) else None

    loop = (Hang(Reply(TAGGED), 3),)
    async with funnel_over(Reply(tokens=TORN), agent_script(loop=loop)) as (funnel, _, large):
        task = asyncio.create_task(funnel.answer(query(), listen=listen))
        await asyncio.wait_for(writing.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await large.wait_until(lambda: large.active == 0, timeout_s=1)
    assert large.completions[-1].closed_by_client
    assert isinstance(events[-1], Cancelled)


# Sampling


async def test_each_field_of_the_sampling_reaches_its_phases_and_no_other() -> None:
    wish = Sampling(
        temperature=0.7,
        top_p=0.9,
        seed=7,
        stop=("Sundays",),
        max_answer_tokens=500,
        extra={"presence_penalty": 0.5, "tool_choice": "auto"},
    )
    async with funnel_over(Reply(tokens=TORN), agent_script()) as (funnel, small, large):
        await funnel.answer(query(sampling=wish))
    draft = small.completions[0].json
    screening, *turns = (request.json for request in large.completions)
    for greedy in (draft, screening):
        assert (greedy["temperature"], greedy["seed"]) == (0, 7)
        assert not {"top_p", "presence_penalty", "stop"} & set(greedy)
    assert len(turns) == 2
    for turn in turns:
        assert (turn["temperature"], turn["top_p"], turn["seed"], turn["presence_penalty"]) == (0.7, 0.9, 7, 0.5)
        assert turn["stop"] == ["</tool_call>", "</answer>"]
        assert turn["tool_choice"] == "none"
        assert turn["max_tokens"] == 1024
    assert draft["max_tokens"] == 32


@pytest.mark.parametrize("per_chunk", [1, 2, 5])
@pytest.mark.parametrize("text", [LONG, "small sign, half free on Sundays"])
async def test_stop_strings_cut_the_answer_only_also_while_it_streams(text: str, per_chunk: int) -> None:
    letters = [*f"<think>on Sundays?</think><answer>{text}</answer>"]
    loop = (Reply(CALL.replace("small", "on Sundays?")), Reply(tokens=letters, per_chunk=per_chunk))
    events, answer, requests = await stream(loop, Sampling(stop=("on Sundays", "zzz")))
    assert "".join(said(events, "answer")) == answer.text == text.partition("on Sundays")[0].strip()
    assert answer.finish == "stop"
    assert len(requests) == 3
    assert answer.trace.run.text == text


async def test_a_long_answer_is_cut_to_the_tokens_that_are_wanted() -> None:
    events, answer, _ = await stream((Reply(TAGGED),), Sampling(max_answer_tokens=4))
    assert "".join(said(events, "answer")) == answer.text == "The small sign on"
    assert (answer.finish, answer.trace.run.finish) == ("length", Finish.ANSWERED)


async def test_an_answer_that_the_turns_limit_cuts_says_so() -> None:
    events, answer, _ = await stream((Reply(f"<answer>{LONG}", finish_reason="length"),))
    assert "".join(said(events, "answer")) == answer.text == LONG
    assert answer.finish == "length"


async def test_a_draft_that_is_cut_by_the_wanted_length_is_not_accepted() -> None:
    def draft(request: dict[str, Any], n: int) -> Outcome:
        assert request["max_tokens"] == 2
        return Reply("a b", finish_reason="length")

    async with funnel_over(draft, agent_script()) as (funnel, _, _large):
        answer = await funnel.answer(query(sampling=Sampling(max_answer_tokens=2)))
    assert (answer.reason, answer.text, answer.finish) == (Reason.TRUNCATED_ANSWER, "agent says", "stop")


async def test_a_stop_string_cuts_an_accepted_draft_too() -> None:
    async with funnel_over(Reply("red, blue"), agent_script()) as (funnel, _, _large):
        answer = await funnel.answer(query(sampling=Sampling(stop=(",",))))
    assert (answer.text, answer.reason, answer.finish) == ("red", Reason.ACCEPTED, "stop")
    assert answer.trace.draft is not None
    assert answer.trace.draft.text == "red, blue"


# Forced routes


async def test_the_draft_by_force_is_scored_and_asks_nobody_else() -> None:
    draft = Reply(tokens=TORN)
    async with funnel_over(draft, Status(500, "down")) as (funnel, small, large):
        answer = await funnel.answer_by(Route.DRAFT, query())
    assert (answer.text, answer.reason, answer.route) == ("B", Reason.FORCED_DRAFT, Route.DRAFT)
    assert answer.score is not None
    assert answer.trace.draft is not None
    assert len(answer.trace.draft.tokens) == 1
    assert (len(small.completions), large.completions) == (1, [])


async def test_the_draft_by_force_may_be_cut_or_fail() -> None:
    async with funnel_over(Reply("a b", finish_reason="length"), agent_script()) as (funnel, small, _):
        answer = await funnel.answer_by(Route.DRAFT, query(sampling=Sampling(max_answer_tokens=2)))
    assert (answer.text, answer.finish, small.completions[0].json["max_tokens"]) == ("a b", "length", 2)
    async with funnel_over(Status(500, "down"), agent_script()) as (funnel, _, large):
        with pytest.raises(EngineError, match="down"):
            await funnel.answer_by(Route.DRAFT, query())
    assert large.completions == []


async def test_the_agent_by_force_is_not_screened_and_streams() -> None:
    events: list[Event] = []
    async with funnel_over(Reply("B"), agent_script(loop=(Reply(TAGGED),))) as (funnel, small, large):
        answer = await funnel.answer_by(Route.AGENT, query(), listen=events.append)
    assert (answer.text, answer.reason) == (LONG, Reason.FORCED_AGENT)
    assert "".join(said(events, "answer")) == LONG
    assert small.completions == []
    assert not any(is_screening(request.json) for request in large.completions)


async def test_a_question_without_an_image_is_the_agents() -> None:
    async with funnel_over(Reply("B"), agent_script(loop=(Reply("Hello."),))) as (funnel, small, large):
        answer = await funnel.answer(Query("Say hello.", ()))
    assert (answer.text, answer.reason, len(large.completions)) == ("Hello.", Reason.NO_IMAGE, 1)
    assert small.completions == []


# The nano pair, for real


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.8, top_p=0.9, seed=3)])
async def test_the_nano_pair_streams(
    sampling: Sampling, nano_draft_server: EmbeddedServer, nano_agent_server: EmbeddedServer
) -> None:
    dialect = DeepEyes(limits=NANO_LIMITS, zoom_context=NANO_ZOOM_CONTEXT, zoom_notes=False, max_tokens_per_turn=256)
    hard = next(sample for sample in make_samples(20, 7) if sample.tool_helps)
    events: list[Event] = []
    async with (
        ChatClient(nano_draft_server.url, nano_draft_server.model) as small,
        ChatClient(nano_agent_server.url, nano_agent_server.model) as large,
    ):
        models = DraftModel(small, NANO_LIMITS), AgentModel(large, dialect)
        funnel = Funnel(*models, Calibration.manual(100.0))
        answer = await funnel.answer(replace(hard.query(), sampling=sampling), listen=events.append)
    assert answer.route is Route.AGENT
    assert "".join(said(events, "answer")) == answer.text != ""
    turns = [event.turn for event in events if isinstance(event, TurnEnded)]
    written = "".join("".join(turn.text.split("<think>")[1:]).partition("</think>")[0] for turn in turns)
    assert "".join(said(events, "thought")) == written != ""
    assert len(said(events, "thought")) > len(turns)
    assert answer.trace.images == (
        ImageSizes((1024, 1024), (192, 192), answer.trace.images[0].draft, 36, answer.trace.images[0].draft_tokens),
    )
