"""The baselines: who is asked what, whose answer stands, and what it costs, on real sockets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_pair import CALIBRATION, SURE, UNSURE, Knowing, scripted_pair

from speceyes.engines.scripted import Outcome, Reply, Status, token_reply
from speceyes.errors import ConfigError, EngineError
from speceyes.evals.baselines import Models, draw, make_system, system_names
from speceyes.evals.baselines.screening import DRAFT_SCREEN
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.race import question_of, run_block
from speceyes.evals.systems import Reply as Said
from speceyes.evals.systems import Role, SystemName
from speceyes.types import Reason, Route

SAMPLES = make_samples(20, 9)
HARD = {sample.id for sample in SAMPLES if sample.tool_helps}
EASY = {sample.id for sample in SAMPLES} - HARD


class Watching(Knowing):
    """Counts what it is asked; screening says no to everything, so that the gate has something to do."""

    def __init__(self, samples: list[Sample]) -> None:
        super().__init__(samples)
        self.asked: Counter[str] = Counter()

    def draft(self, request: dict[str, Any], turn: int) -> Outcome:
        self.asked["draft"] += 1
        return super().draft(request, turn)

    def agent(self, request: dict[str, Any], turn: int) -> Outcome:
        if request["max_tokens"] == 1:
            self.asked["screen"] += 1
            return Reply(tokens=[token_reply("no", [("no", -0.02), ("yes", -4.0)])])
        self.asked["agent"] += 1
        return super().agent(request, turn)


async def answers(name: SystemName, knowing: Knowing, *, drawn: frozenset[str] = frozenset()) -> dict[str, Said]:
    async with scripted_pair(knowing) as (draft, agent):
        system = make_system(name, Models(draft, agent, CALIBRATION), 4, drawn)
        assert system.name is name
        replies, _ = await run_block(system, list(map(question_of, SAMPLES)), 4, lambda question, reply: None)
    return {sample.id: reply for sample, reply in zip(SAMPLES, replies, strict=True)}


def by_draft(replies: dict[str, Said]) -> set[str]:
    return {name for name, reply in replies.items() if reply.answer and reply.answer.route is Route.DRAFT}


def right(replies: dict[str, Said]) -> set[str]:
    return {sample.id for sample in SAMPLES if question_of(sample).is_right(replies[sample.id].text)}


async def test_the_agent_alone_asks_nobody_else() -> None:
    knowing = Watching(SAMPLES)
    replies = await answers(SystemName.AGENT, knowing)
    assert by_draft(replies) == set()
    assert len(right(replies)) == 20
    assert (knowing.asked["draft"], knowing.asked["screen"]) == (0, 0)
    assert all(set(reply.usage) == {Role.AGENT} for reply in replies.values())


async def test_the_draft_alone_stands_whatever_its_score() -> None:
    knowing = Watching(SAMPLES)
    replies = await answers(SystemName.DRAFT, knowing)
    assert by_draft(replies) == EASY | HARD
    assert right(replies) == EASY
    assert knowing.asked == {"draft": 20}
    unsure = replies[min(HARD)].answer
    assert unsure is not None
    assert unsure.score is not None
    assert CALIBRATION.threshold is not None
    assert unsure.score < CALIBRATION.threshold


async def test_the_funnel_gates() -> None:
    knowing = Watching(SAMPLES)
    replies = await answers(SystemName.SPECEYES, knowing)
    assert by_draft(replies) == EASY
    assert len(right(replies)) == 20
    assert (knowing.asked["screen"], knowing.asked["draft"]) == (20, 20)
    reasons = Counter(reply.answer.reason for reply in replies.values() if reply.answer)
    assert reasons == {Reason.ACCEPTED: len(EASY), Reason.BELOW_THRESHOLD: len(HARD)}


async def test_without_the_gate_screening_decides() -> None:
    knowing = Watching(SAMPLES)
    replies = await answers(SystemName.NO_GATE, knowing)
    assert by_draft(replies) == EASY | HARD
    assert right(replies) == EASY
    assert (knowing.asked["screen"], knowing.asked["draft"], knowing.asked["agent"]) == (20, 20, 0)
    screened = await answers(SystemName.NO_GATE, Knowing(SAMPLES))
    assert by_draft(screened) == EASY


async def test_without_screening_the_gate_decides() -> None:
    knowing = Watching(SAMPLES)
    replies = await answers(SystemName.NO_SCREEN, knowing)
    assert by_draft(replies) == EASY
    assert (knowing.asked["screen"], knowing.asked["draft"]) == (0, 20)
    for reply in replies.values():
        assert reply.answer is not None
        assert reply.answer.trace.screening is None
        assert set(reply.answer.trace.phase_seconds) <= {"speculate", "gate", "fall_back"}


class SureOfEverything(Watching):
    """A draft that is as sure where it is wrong."""

    def draft(self, request: dict[str, Any], turn: int) -> Outcome:
        said = super().draft(request, turn)
        assert isinstance(said, Reply)
        sample = self.sample(request)
        assert said.tokens
        wrong = "A" if sample.options and sample.gold != "A" else "B" if sample.options else "none"
        return Reply(tokens=[token_reply(wrong if sample.tool_helps else sample.gold, SURE)])


async def test_the_oracle_accepts_the_right_drafts_and_no_others() -> None:
    assert by_draft(await answers(SystemName.SPECEYES, SureOfEverything(SAMPLES))) == EASY | HARD
    replies = await answers(SystemName.ORACLE, SureOfEverything(SAMPLES))
    assert by_draft(replies) == EASY
    assert len(right(replies)) == 20


async def test_the_oracle_accepts_what_the_gate_would_not() -> None:
    class Unsure(Watching):
        def draft(self, request: dict[str, Any], turn: int) -> Outcome:
            return Reply(tokens=[token_reply(self.sample(request).gold, UNSURE)])

    assert by_draft(await answers(SystemName.SPECEYES, Unsure(SAMPLES))) == set()
    assert by_draft(await answers(SystemName.ORACLE, Unsure(SAMPLES))) == EASY | HARD


async def test_the_random_gate_accepts_what_was_drawn() -> None:
    drawn = draw(EASY | HARD, 12, 3)
    replies = await answers(SystemName.RANDOM, Watching(SAMPLES), drawn=drawn)
    assert by_draft(replies) == drawn
    assert right(replies) == (EASY | HARD) - (drawn & HARD)
    screened = await answers(SystemName.RANDOM, Knowing(SAMPLES), drawn=drawn)
    assert by_draft(screened) == drawn & EASY  # what phase I stops stays stopped


@given(st.sets(st.text(max_size=3), max_size=12), st.data())
def test_a_draw_is_as_large_as_wanted_and_repeats_itself(names: set[str], data: st.DataObject) -> None:
    count, seed = data.draw(st.integers(0, len(names))), data.draw(st.integers(0, 9))
    drawn = draw(names, count, seed)
    assert len(drawn) == count
    assert drawn <= names
    assert drawn == draw(sorted(names, reverse=True), count, seed)


def test_every_question_is_drawn_about_as_often() -> None:
    counts = Counter(name for seed in range(2000) for name in draw("abcdefgh", 2, seed))
    assert all(abs(count - 500) < 100 for count in counts.values())


async def test_the_draft_screens_in_its_own_words() -> None:
    class Screening(Watching):
        def draft(self, request: dict[str, Any], turn: int) -> Outcome:
            if request["max_tokens"] > 1:
                return super().draft(request, turn)
            self.asked["screened by the draft"] += 1
            assert request["messages"][-1]["content"][-1]["text"].endswith(DRAFT_SCREEN)
            assert "tools" not in request
            word, other = ("yes", "no") if self.sample(request).tool_helps else ("no", "yes")
            return Reply(tokens=[token_reply(word, [(word, -0.02), (other, -4.0)])])

    knowing = Screening(SAMPLES)
    replies = await answers(SystemName.DRAFT_SCREEN, knowing)
    assert by_draft(replies) == EASY
    assert knowing.asked["screened by the draft"] == 20
    assert (knowing.asked["screen"], knowing.asked["draft"]) == (0, len(EASY))
    for name, reply in replies.items():
        assert reply.answer is not None
        helps = reply.answer.reason is Reason.TOOL_WOULD_HELP
        assert helps == (name in HARD)
        assert reply.usage[Role.DRAFT].calls == (1 if helps else 2)
        assert (Role.AGENT in reply.usage) == helps


@pytest.mark.parametrize(("fails", "reason"), [("draft", Reason.DRAFT_FAILED), ("screen", Reason.SCREEN_FAILED)])
@pytest.mark.parametrize("name", [SystemName.SPECEYES, SystemName.ORACLE, SystemName.RANDOM, SystemName.NO_GATE])
async def test_what_fails_on_the_way_is_a_reason_to_ask_the_agent(name: SystemName, fails: str, reason: Reason) -> None:
    class Failing(Watching):
        def draft(self, request: dict[str, Any], turn: int) -> Outcome:
            return Status(500) if fails == "draft" else super().draft(request, turn)

        def agent(self, request: dict[str, Any], turn: int) -> Outcome:
            return Status(500) if fails == "screen" and request["max_tokens"] == 1 else super().agent(request, turn)

    replies = await answers(name, Failing(SAMPLES), drawn=frozenset(EASY | HARD))
    assert len(right(replies)) == 20
    assert {reply.answer.reason for reply in replies.values() if reply.answer} == {reason}
    assert all(reply.answer and reply.answer.trace.notes for reply in replies.values())


async def test_an_agent_that_fails_is_an_error_in_the_row_and_a_wrong_key_ends_it() -> None:
    class Failing(Watching):
        status = 500

        def agent(self, request: dict[str, Any], turn: int) -> Outcome:
            return super().agent(request, turn) if request["max_tokens"] == 1 else Status(self.status)

    replies = await answers(SystemName.ORACLE, Failing(SAMPLES))
    assert {name for name, reply in replies.items() if reply.error} == HARD
    assert all(reply.total.prompt_tokens is None for reply in replies.values() if reply.error)
    refusing = Failing(SAMPLES)
    refusing.status = 401
    with pytest.raises(EngineError):
        await answers(SystemName.ORACLE, refusing)


def test_names() -> None:
    assert system_names("agent, speceyes,agent") == (SystemName.AGENT, SystemName.SPECEYES)
    assert set(system_names("all")) == set(SystemName)
    assert system_names("speceyes,all")[0] is SystemName.SPECEYES
    for wrong in ("", " , ", "agent,magic"):
        with pytest.raises(ConfigError, match=r"no-screen|no system"):
            system_names(wrong)
