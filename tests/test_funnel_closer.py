"""The draft model looks closer by itself, before the agent is asked: scripted servers on real sockets."""

import json
from typing import Any

import pytest

from scripted_funnel import TORN, agent_script, funnel_over, query
from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.engines.client import ChatClient
from speceyes.engines.script import Outcome, Reply, Status
from speceyes.errors import CalibrationMismatch
from speceyes.events import Event, PhaseEnded
from speceyes.export import as_json
from speceyes.funnel import Funnel
from speceyes.gating import Calibration
from speceyes.imaging.resize import QWEN2_5_VL
from speceyes.phases import AgentModel, DraftModel
from speceyes.phases.gate import in_use
from speceyes.phases.speculate import LOOK, PROMPT
from speceyes.scheduling import Fixed, Plan
from speceyes.scheduling.plan import SAME_DECISIONS
from speceyes.types import Crop, Reason, Route

UNSURE = Reply(tokens=TORN)
BOX = '```json\n[{"bbox_2d": [10, 10, 60, 60], "label": "sign"}]\n```'
OTHER = '{"bbox_2d": [100, 100, 200, 200]}'


def words(request: dict[str, Any]) -> str:
    """What is asked last."""
    text: str = request["messages"][-1]["content"][-1]["text"]
    return text


def looker(*looks: str, sure_at: int = 1, glance: Outcome = UNSURE) -> Any:
    """A draft model that names these parts in turn, and is sure from that many looks on."""

    def script(request: dict[str, Any], n: int) -> Outcome:
        depth = sum(message["role"] == "assistant" for message in request["messages"])
        if words(request).endswith(LOOK):
            return Reply(looks[min(depth, len(looks) - 1)])
        return glance if depth == 0 else Reply("7") if depth >= sure_at else UNSURE

    return script


@pytest.mark.parametrize(("helps", "first"), [(0.1, Reason.BELOW_THRESHOLD), (0.9, Reason.TOOL_WOULD_HELP)])
async def test_what_a_glance_cannot_tell_a_look_can(helps: float, first: Reason) -> None:
    events: list[Event] = []
    async with funnel_over(looker(BOX), agent_script(helps), max_depth=1) as (funnel, small, large):
        answer = await funnel.answer(query(), listen=events.append)
    trace = answer.trace
    assert (answer.text, answer.route, answer.reason) == ("7", Route.DRAFT, Reason.ACCEPTED_CLOSER)
    assert len(large.completions) == 1  # screening alone: the loop never ran
    assert trace.run is None
    (closer,) = trace.closer
    assert closer.crops == (Crop(0, (10.0, 10.0, 60.0, 60.0), closer.crops[0].size),)
    assert (closer.depth, closer.fault, trace.answering) == (1, None, closer)
    assert trace.verdict is not None
    assert trace.verdict.glance is not None
    assert (trace.verdict.glance.reason, answer.score) == (first, trace.verdict.score)
    assert trace.usage["small"].calls == len(small.completions) == trace.attempts["small"]
    assert [event.phase for event in events if isinstance(event, PhaseEnded)][-1] == "look_closer"
    told = as_json(answer)
    assert json.loads(json.dumps(told))["trace"]["closer"][0]["crops"][0]["box"] == [10.0, 10.0, 60.0, 60.0]


async def test_a_look_goes_on_from_the_glance_so_that_its_prompt_is_in_the_cache() -> None:
    async with funnel_over(looker(BOX), agent_script(), max_depth=1) as (funnel, small, _):
        await funnel.answer(query(system="Answer in French."))
    glance, look, closer = (request.json["messages"] for request in small.completions)
    assert glance[:-1] == look[:-1] == closer[:1]
    assert glance[-1]["content"][:-1] == look[-1]["content"][:-1]
    assert [words(request.json) for request in small.completions] == [
        f"What is it?\n\n{PROMPT}",
        f"What is it?\n\n{LOOK}",
        f"What is it?\n\n{PROMPT}",
    ]
    assert closer[: len(look)] == look
    assert [part["type"] for part in closer[-1]["content"]] == ["image_url", "text"]
    assert "top_logprobs" not in small.completions[1].json or not small.completions[1].json["top_logprobs"]


async def test_without_depth_nothing_is_looked_at() -> None:
    async with funnel_over(looker(BOX), agent_script()) as (funnel, small, _):
        answer = await funnel.answer(query())
    assert (answer.reason, len(small.completions), answer.trace.closer) == (Reason.BELOW_THRESHOLD, 1, ())


async def test_a_glance_that_is_enough_is_not_followed_by_a_look() -> None:
    async with funnel_over(looker(BOX, glance=Reply("B")), agent_script(), max_depth=2) as (funnel, small, _):
        answer = await funnel.answer(query())
    assert (answer.text, answer.reason, len(small.completions)) == ("B", Reason.ACCEPTED, 1)


@pytest.mark.parametrize(
    "said", ["the upper left", "{", '{"bbox_2d": [10, 10]}', '{"bbox_2d": [9000, 9000, 9100, 9100]}', '{"part": 1}']
)
async def test_a_look_at_nothing_leaves_the_query_to_the_agent(said: str) -> None:
    async with funnel_over(looker(said), agent_script(), max_depth=2) as (funnel, small, _):
        answer = await funnel.answer(query())
    assert (answer.text, answer.reason) == ("agent says", Reason.BELOW_THRESHOLD)
    (closer,) = answer.trace.closer
    assert (closer.fault, closer.crops) == (Reason.LOOK_FAILED, ())
    assert len(small.completions) == 2  # glance and one look; its failure ends them


async def test_a_second_look_shows_another_part() -> None:
    async with funnel_over(looker(BOX, OTHER, sure_at=2), agent_script(), max_depth=2) as (funnel, small, _):
        answer = await funnel.answer(query())
    assert (answer.text, answer.reason) == ("7", Reason.ACCEPTED_CLOSER)
    assert [draft.depth for draft in answer.trace.closer] == [1, 2]
    assert [crop.box for crop in answer.trace.closer[-1].crops] == [(10, 10, 60, 60), (100, 100, 200, 200)]
    pictures = [
        part for m in small.completions[-1].json["messages"] for part in m["content"] if not isinstance(part, str)
    ]
    assert sum(part["type"] == "image_url" for part in pictures) == 3


async def test_the_same_part_is_not_shown_twice() -> None:
    async with funnel_over(looker(BOX, sure_at=9), agent_script(), max_depth=3) as (funnel, small, _):
        answer = await funnel.answer(query())
    assert answer.reason is Reason.BELOW_THRESHOLD
    assert [draft.fault for draft in answer.trace.closer] == [None, Reason.LOOK_FAILED]
    assert len(small.completions) == 4


@pytest.mark.parametrize("plan", SAME_DECISIONS)
@pytest.mark.parametrize("sure_at", [1, 9])
@pytest.mark.parametrize("helps", [0.1, 0.9])
@pytest.mark.parametrize("glance", [UNSURE, Reply(""), Reply("B")], ids=["unsure", "empty", "sure"])
async def test_every_plan_accepts_the_same_looks(plan: Plan, sure_at: int, helps: float, glance: Outcome) -> None:
    draft = looker(BOX, sure_at=sure_at, glance=glance)
    async with funnel_over(draft, agent_script(helps), max_depth=1, planner=Fixed(plan)) as (funnel, _, _large):
        answer = await funnel.answer(query())
    by_glance = glance == Reply("B") and helps < 0.5
    said = "B" if by_glance else "7" if sure_at == 1 else "agent says"
    if plan is Plan.HEDGED and answer.reason is Reason.AGENT_FIRST:
        said = "agent says"
    assert answer.text == said


async def test_a_draft_server_that_fails_at_a_look_costs_only_the_look() -> None:
    def draft(request: dict[str, Any], n: int) -> Outcome:
        return Status(500, "no") if words(request).endswith(LOOK) else UNSURE

    async with funnel_over(draft, agent_script(), max_depth=1) as (funnel, _, _large):
        answer = await funnel.answer(query())
    assert (answer.text, answer.reason, answer.trace.closer) == ("agent says", Reason.BELOW_THRESHOLD, ())
    assert len(answer.trace.notes) == 1


async def test_phases_one_to_three_alone_look_too() -> None:
    async with funnel_over(looker(BOX), agent_script(0.9), max_depth=1) as (funnel, _, large):
        answer = await funnel.decide(query())
    assert getattr(answer, "reason", None) is Reason.ACCEPTED_CLOSER
    assert len(large.completions) == 1


async def test_a_planner_hears_that_a_refused_query_took_the_look_and_the_agent() -> None:
    heard: list[Any] = []

    class Listening(Fixed):
        def learn(self, kind: Any, seen: Any) -> None:
            heard.append(seen)

    async with funnel_over(looker(BOX), agent_script(0.9), max_depth=1, planner=Listening()) as (funnel, _, _large):
        answer = await funnel.answer(query())
    (seen,) = heard
    assert (seen.accepted, seen.let_through) == (False, False)
    assert seen.agent_after_screen == answer.trace.phase_seconds["look_closer"]


async def test_a_calibration_holds_for_one_depth() -> None:
    async with ChatClient("http://127.0.0.1:1", "small") as a, ChatClient("http://127.0.0.1:1", "large") as b:
        models = {depth: DraftModel(a, QWEN2_5_VL, max_depth=depth) for depth in (0, 1, 2)}
        agent = AgentModel(b, DeepEyes())
        for made_for in models:
            calibration = Calibration(
                threshold=2.0,
                method="split",
                n=100,
                data="sha256:1",
                max_depth=made_for or None,
                **in_use(models[made_for], agent),
            )
            for depth, draft in models.items():
                if depth == made_for:
                    Funnel(draft, agent, calibration)
                else:
                    with pytest.raises(CalibrationMismatch, match="max_depth"):
                        Funnel(draft, agent, calibration)
        Funnel(models[2], agent, Calibration.manual(2.0))


async def test_a_look_counts_though_the_answer_after_it_failed() -> None:
    def draft(request: dict[str, Any], n: int) -> Outcome:
        if words(request).endswith(LOOK):
            return Reply(BOX)
        return Status(500, "no") if len(request["messages"]) > 1 else UNSURE

    async with funnel_over(draft, agent_script(), max_depth=1) as (funnel, _small, _):
        answer = await funnel.answer(query())
    assert (answer.reason, answer.trace.closer) == (Reason.BELOW_THRESHOLD, ())
    assert (answer.trace.usage["small"].calls, answer.trace.attempts["small"]) == (2, 3)
