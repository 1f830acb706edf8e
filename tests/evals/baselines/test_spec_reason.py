"""SpecReason step by step: which steps are kept, who writes the others, and what both models have read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from scripted_pair import CALIBRATION, scripted_pair

from speceyes.engines.scripted import Outcome, Reply, Status, token_reply
from speceyes.evals.baselines import Models, make_system
from speceyes.evals.baselines.reasoning import GO_ON, NEXT, PROPOSE, RATE, answer_in, read_rating
from speceyes.evals.baselines.spec_reason import STEPS
from speceyes.evals.datasets.samples import make_samples
from speceyes.evals.race import question_of, run_block
from speceyes.evals.systems import Reply as Said
from speceyes.evals.systems import Role, SystemName
from speceyes.types import Completion, Finish, Reason, Route

(SAMPLE,) = make_samples(1, 21)
ZOOM = "<think>It is small.</think>\n<tool_call>\n" + json.dumps(
    {"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [10, 10, 60, 60], "label": "sign"}}
)


class Told:
    """Proposes, rates and writes from lists, and keeps what it was asked."""

    def __init__(self, proposals: Sequence[Any], ratings: Sequence[Any], own: Sequence[Any] = ()) -> None:
        self._proposals, self._ratings, self._own = list(proposals), list(ratings), list(own)
        self.proposing: list[dict[str, Any]] = []
        self.rating: list[dict[str, Any]] = []
        self.writing: list[dict[str, Any]] = []

    def draft(self, request: dict[str, Any], turn: int) -> Outcome:
        self.proposing.append(request)
        return _outcome(self._proposals.pop(0))

    def agent(self, request: dict[str, Any], turn: int) -> Outcome:
        if request["max_tokens"] == 1:
            self.rating.append(request)
            return _outcome(self._ratings.pop(0))
        self.writing.append(request)
        return _outcome(self._own.pop(0))


def _outcome(said: Any) -> Outcome:
    return (
        Reply(tokens=[token_reply(said, [-0.1, -3.0])])
        if isinstance(said, str) and len(said) == 1
        else (Reply(said) if isinstance(said, str) else said)
    )


async def answer(told: Told) -> Said:
    async with scripted_pair(told) as (draft, agent):  # type: ignore[arg-type]
        system = make_system(SystemName.SPECREASON, Models(draft, agent, CALIBRATION), 1)
        (reply,), _ = await run_block(system, [question_of(SAMPLE)], 1, lambda question, reply: None)
    return reply


def texts(request: dict[str, Any]) -> list[tuple[str, str]]:
    """(role, text) of a request's messages, pictures as `#`."""

    def text(content: Any) -> str:
        if isinstance(content, str):
            return content
        return "".join(part["text"] if part["type"] == "text" else "#" for part in content)

    return [(message["role"], text(message["content"])) for message in request["messages"]]


async def test_steps_that_the_agent_likes_are_kept_to_the_end() -> None:
    told = Told(["Look at the left.", "It is red.\n", "<answer>7"], ["9", "7", "8"])
    reply = await answer(told)
    assert reply.text == "7"
    assert (len(told.proposing), len(told.rating), len(told.writing)) == (3, 3, 0)
    assert [(step.by, step.rating, step.kept) for step in reply.steps] == [
        (Role.DRAFT, 9, True),
        (Role.DRAFT, 7, True),
        (Role.DRAFT, 8, True),
    ]
    assert reply.answer is not None
    assert reply.answer.route is Route.DRAFT
    assert reply.usage[Role.DRAFT].calls == reply.usage[Role.AGENT].calls == 3
    trace = reply.answer.trace
    assert set(trace.phase_seconds) == {"speculate", "gate"}
    assert trace.run is not None
    assert trace.run.finish is Finish.ANSWERED
    assert trace.run.depth == 0


async def test_both_models_read_the_kept_steps() -> None:
    told = Told(["Look at the left.", "<answer>7"], ["9", "9"])
    await answer(told)
    first, second = map(texts, told.proposing)
    assert first == [("user", f"#{SAMPLE.question}\n\n{PROPOSE}")]
    assert second == [*first, ("assistant", "Look at the left."), ("user", NEXT)]
    rated, again = map(texts, told.rating)
    assert [role for role, _ in rated] == ["system", "user", "assistant", "user"]
    assert rated[2:] == [("assistant", "Look at the left."), ("user", RATE)]
    assert again[2:] == [
        ("assistant", "Look at the left."),
        ("user", GO_ON),
        ("assistant", "<answer>7"),
        ("user", RATE),
    ]
    assert all(request["tools"] and request["tool_choice"] == "none" for request in told.rating)
    assert all(not request.get("tools") for request in told.proposing)


@pytest.mark.parametrize("rating", ["6", "0", "x", Reply("")])
async def test_a_step_that_is_not_liked_is_written_again_by_the_agent(rating: Any) -> None:
    told = Told(["Nonsense."], [rating], ["<think>I see.</think>\n<answer>blue"])
    reply = await answer(told)
    assert reply.text == "blue"
    assert reply.answer is not None
    assert reply.answer.reason is Reason.BELOW_THRESHOLD
    assert [(step.by, step.kept) for step in reply.steps] == [(Role.DRAFT, False), (Role.AGENT, True)]
    (written,) = map(texts, told.writing)
    assert [role for role, _ in written] == ["system", "user"]  # of the refused step it reads nothing


async def test_the_agent_may_look_closer_and_both_see_what_it_saw() -> None:
    told = Told(["Hm.", "<answer>7"], ["2", "9"], [ZOOM])
    reply = await answer(told)
    assert reply.text == "7"
    assert reply.answer is not None
    run = reply.answer.trace.run
    assert run is not None
    assert run.depth == 1
    assert [turn.tool for turn in run.turns] == [None, "image_zoom_in_tool", None]
    assert run.turns[1].crops[0].label == "sign"
    roles = [role for role, _ in texts(told.proposing[1])]
    assert roles == ["user", "assistant", "user"]
    shown = texts(told.proposing[1])[2][1]
    assert shown == f"#{NEXT}"
    picture = next(part for part in told.proposing[1]["messages"][2]["content"] if part["type"] == "image_url")
    assert picture["image_url"]["url"].startswith("data:image/")
    assert "#" in texts(told.rating[1])[3][1]
    assert reply.answer.trace.phase_seconds["fall_back"] > 0


async def test_the_same_look_again_is_refused_and_a_bad_call_is_told() -> None:
    bad = '<tool_call>{"name": "no_such_tool", "arguments": {}}'
    told = Told(["a b"] * 4, ["1"] * 4, [ZOOM, ZOOM, bad, "<answer>red"])
    reply = await answer(told)
    assert reply.text == "red"
    assert reply.answer is not None
    assert reply.answer.trace.run is not None
    own = [turn for turn, step in zip(reply.answer.trace.run.turns, reply.steps, strict=True) if step.by is Role.AGENT]
    assert [turn.tool for turn in own] == ["image_zoom_in_tool", None, None, None]
    assert "same call" in (own[1].error or "")
    assert "no_such_tool" in (own[2].error or "")


async def test_after_six_steps_the_answer_is_due() -> None:
    told = Told([f"Step {i}." for i in range(STEPS)], ["9"] * STEPS, ["<answer>square"])
    reply = await answer(told)
    assert reply.text == "square"
    assert (len(told.proposing), len(told.writing)) == (STEPS, 1)
    assert reply.answer is not None
    assert reply.answer.trace.run is not None
    assert reply.answer.trace.run.finish is Finish.TURN_LIMIT
    assert reply.answer.route is Route.AGENT


@pytest.mark.parametrize("said", [Status(500), ""])
async def test_where_the_draft_offers_nothing_the_agent_writes(said: Any) -> None:
    told = Told([said], [], ["<answer>red"])
    reply = await answer(told)
    assert (reply.text, reply.error) == ("red", None)
    assert not told.rating
    assert reply.answer is not None
    assert len(reply.answer.trace.notes) == (0 if said == "" else 1)


async def test_an_agent_that_fails_fails_the_query() -> None:
    reply = await answer(Told(["A step."], [Status(500)]))
    assert reply.error is not None
    assert reply.answer is None


def test_marks_and_answers_are_read_strictly() -> None:
    assert [read_rating(Completion(text, "length")) for text in ("7", " 3", "", "10", "x", "²", "７")] == [
        7,
        3,
        *[None] * 5,
    ]
    assert answer_in("<answer>A</answer>") == "A"
    assert answer_in("So <answer>B") == "B"
    assert answer_in("The answer is C.") is None
    assert answer_in("<answer></answer>") is None
