"""A race is fair: everybody answers everything, in rounds in which each takes another part and its turn to go first."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_pair import CALIBRATION, Knowing, scripted_pair

from speceyes.engines.scripted import Outcome, Status
from speceyes.errors import EngineError, ImageError
from speceyes.evals.baselines import Models, make_system
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.demo import SYSTEMS
from speceyes.evals.race import question_of, race, run_block, schedule, split
from speceyes.evals.systems import Question, Reply, Role, System, SystemName
from speceyes.phases import AgentModel, DraftModel
from speceyes.types import Query, Reason, Route, Usage

SAMPLES = make_samples(20, 9)


class Recorder:
    """A system that says the same to everything and notes who ran when."""

    def __init__(self, name: SystemName, ran: list[tuple[SystemName, str]]) -> None:
        self.name = name
        self._ran = ran

    async def answer(self, query: Query, question: Question) -> Reply:
        assert query.id == question.id
        self._ran.append((self.name, query.id))
        await asyncio.sleep(0)
        return Reply("A", 0.1, {Role.AGENT: Usage(1, 1, None, 1)})


def all_three(draft: DraftModel, agent: AgentModel) -> list[System]:
    models = Models(draft, agent, CALIBRATION)
    return [make_system(name, models, 3) for name in SYSTEMS]


@given(st.integers(0, 300), st.integers(1, 4))
def test_parts_hold_every_sample_once_and_divide_among_the_systems(count: int, systems: int) -> None:
    samples = [*SAMPLES, *SAMPLES] * 8
    parts = split(samples[:count], systems)
    assert [sample for part in parts for sample in part] == samples[:count]
    assert len(parts) % systems == 0
    lengths = [len(part) for part in parts]
    assert max(lengths) - min(lengths) <= 1


@given(st.integers(1, 9), st.integers(1, 5))
def test_the_schedule_is_made_of_latin_squares(systems: int, times: int) -> None:
    blocks = systems * times
    order = schedule(systems, blocks)
    assert sorted(order) == [(system, block) for system in range(systems) for block in range(blocks)]
    rounds = [order[i : i + systems] for i in range(0, len(order), systems)]
    for turns in rounds:
        assert sorted(system for system, _ in turns) == list(range(systems))
        assert len({block for _, block in turns}) == systems
        assert len({block // systems for _, block in turns}) == 1, "one square after another"
    for system in range(systems):
        assert [turns[0][0] for turns in rounds].count(system) == times
    first_at: dict[int, int] = {}
    for system, block in order:
        first_at.setdefault(block, system)
    assert all(list(first_at.values()).count(system) == times for system in range(systems))


@given(st.integers(3, 9), st.integers(1, 3))
def test_between_two_turns_at_a_block_lie_other_blocks(systems: int, times: int) -> None:
    order = schedule(systems, systems * times)
    turns: dict[int, list[int]] = {}
    for place, (_, block) in enumerate(order):
        turns.setdefault(block, []).append(place)
    assert all(after - before >= systems - 1 for at in turns.values() for before, after in itertools.pairwise(at))


async def test_everybody_answers_everything_and_first_turns_are_shared() -> None:
    ran: list[tuple[SystemName, str]] = []
    systems: list[System] = [Recorder(name, ran) for name in SYSTEMS]
    told: list[SystemName] = []
    courses = await race(systems, SAMPLES, done=told.append)
    for name in SYSTEMS:
        assert sorted(i for who, i in ran if who is name) == sorted(s.id for s in SAMPLES)
        assert [result.sample for result in courses[name].results] == SAMPLES
        assert told.count(name) == len(SAMPLES)
        laps = courses[name].laps
        assert [lap.queries for lap in laps] == [len(part) for part in split(SAMPLES, len(systems))]
        assert courses[name].seconds == pytest.approx(sum(lap.seconds for lap in laps))
        assert all(lap.seconds > 0 for lap in laps)
    turns = [(name, {i for _, i in group}) for name, group in itertools.groupby(ran, key=lambda pair: pair[0])]
    assert {turns[0][0], turns[3][0], turns[6][0]} == set(SYSTEMS)
    for before, after in [*itertools.pairwise(turns), *zip(turns, turns[2:], strict=False)]:
        assert not before[1] & after[1], "a system would find its prompts in the server's cache"


async def test_so_many_are_under_way_and_no_more() -> None:
    under_way, most = 0, 0

    class Slow:
        async def answer(self, query: Query, question: Question) -> Reply:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            for _ in range(5):
                await asyncio.sleep(0)
            under_way -= 1
            return Reply(query.id)

    replies, lap = await run_block(Slow(), list(map(question_of, SAMPLES[:10])), 3, lambda question, reply: None)
    assert most == 3
    assert [reply.text for reply in replies] == [sample.id for sample in SAMPLES[:10]]
    assert lap.queries == 10


async def test_a_picture_that_cannot_be_loaded_is_a_row_and_not_asked() -> None:
    def broken() -> Query:
        raise ImageError("torn")

    ran: list[tuple[SystemName, str]] = []
    questions = [question_of(SAMPLES[0]), Question("bad", broken, lambda text: None)]
    told: list[str] = []
    replies, lap = await run_block(
        Recorder(SystemName.AGENT, ran), questions, 2, lambda question, reply: told.append(question.id)
    )
    assert [reply.error for reply in replies] == [None, "ImageError: torn"]
    assert lap.queries == len(ran) == 1
    assert sorted(told) == sorted(["bad", SAMPLES[0].id])


async def test_who_is_told_may_end_the_block() -> None:
    def stop(question: Question, reply: Reply) -> None:
        raise EngineError("enough")

    with pytest.raises(EngineError, match="enough"):
        await run_block(Recorder(SystemName.AGENT, []), list(map(question_of, SAMPLES[:4])), 2, stop)


async def test_a_race_of_fewer_samples_than_systems() -> None:
    systems: list[System] = [Recorder(name, []) for name in SYSTEMS]
    courses = await race(systems, SAMPLES[:1])
    assert [len(course.results) for course in courses.values()] == [1, 1, 1]


@pytest.fixture
def answered() -> list[Sample]:
    return SAMPLES


async def test_the_three_systems_on_real_sockets(answered: list[Sample]) -> None:
    async with scripted_pair(Knowing(answered)) as (draft, agent):
        courses = await race(all_three(draft, agent), answered, 3)
    agent_course, draft_course, speceyes_course = (courses[name] for name in SYSTEMS)
    assert all(result.right for result in agent_course.results)
    assert all(result.right for result in speceyes_course.results)
    assert [result.right for result in draft_course.results] == [not sample.tool_helps for sample in answered]
    for result in speceyes_course.results:
        assert result.reply.answer is not None
        helps = result.sample.tool_helps
        assert result.reply.answer.route is (Route.AGENT if helps else Route.DRAFT)
        assert result.reply.answer.reason is (Reason.TOOL_WOULD_HELP if helps else Reason.ACCEPTED)
        # Screening and draft, or screening and one turn more than there are signs to look at.
        assert result.reply.total.calls == (2 + len(result.sample.boxes) if helps else 2)
    for result in agent_course.results:
        assert result.reply.total.calls == 1 + len(result.sample.boxes)


class Failing(Knowing):
    """Its agent fails on one sample."""

    bad: Sample

    def agent(self, request: dict[str, object], turn: int) -> Outcome:
        return (
            Status(400, {"error": {"message": "no"}})
            if self.sample(request) is self.bad
            else super().agent(request, turn)
        )


async def test_a_failed_query_keeps_its_row_and_counts_as_not_right(answered: list[Sample]) -> None:
    knowing = Failing(answered)
    knowing.bad = next(sample for sample in answered if sample.tool_helps)
    async with scripted_pair(knowing) as (draft, agent):
        told: list[SystemName] = []
        agent_and_speceyes = [system for system in all_three(draft, agent) if system.name is not SystemName.DRAFT]
        courses = await race(agent_and_speceyes, answered, 3, done=told.append)
    assert len(told) == 2 * len(answered)
    for course in courses.values():
        assert len(course.results) == len(answered)
        (failed,) = [result for result in course.results if result.reply.error]
        assert failed.sample == knowing.bad
        assert not failed.right
        assert failed.reply.seconds is None
        assert failed.reply.total.prompt_tokens is None
        assert "EngineRefused" in (failed.reply.error or "")
