"""A race is fair: everybody answers everything, in rounds in which each takes another part and its turn to go first."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_pair import CALIBRATION, Knowing, scripted_pair

from speceyes.engines.scripted import Outcome, Status
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.race import race, rounds, split
from speceyes.evals.systems import AgentAlone, Done, DraftAlone, Reply, SpecEyes, System, SystemName
from speceyes.types import Query, Reason, Route, Usage

SAMPLES = make_samples(20, 9)


class Recorder:
    """A system that says the same to everything and notes who ran when."""

    def __init__(self, name: SystemName, ran: list[tuple[SystemName, tuple[str, ...]]]) -> None:
        self.name = name
        self._ran = ran

    async def answer_many(self, queries: Sequence[Query], done: Done) -> list[Reply]:
        self._ran.append((self.name, tuple(query.id for query in queries)))
        await asyncio.sleep(0)
        for _ in queries:
            done()
        return [Reply("A", 0.1, Usage(1, 1, None, 1)) for _ in queries]


@given(st.integers(0, 300), st.integers(1, 4))
def test_parts_hold_every_sample_once_and_divide_among_the_systems(count: int, systems: int) -> None:
    samples = [*SAMPLES, *SAMPLES] * 8
    parts = split(samples[:count], systems)
    assert [sample for part in parts for sample in part] == samples[:count]
    assert len(parts) % systems == 0
    lengths = [len(part) for part in parts]
    assert max(lengths) - min(lengths) <= 1


@given(st.integers(1, 4), st.integers(1, 5))
def test_rounds_are_a_latin_square(systems: int, times: int) -> None:
    parts = systems * times
    order = rounds(systems, parts)
    taken = [[(number - index) % parts for index in range(systems)] for number in range(parts)]
    assert all(sorted(row) == list(range(systems)) for row in order)
    assert all(len(set(row)) == systems for row in taken)
    for system in range(systems):
        assert sorted(row[system] for row in taken) == list(range(parts))
        assert [row.index(system) for row in order].count(0) == times


async def test_everybody_answers_everything_and_first_turns_are_shared() -> None:
    ran: list[tuple[SystemName, tuple[str, ...]]] = []
    systems: list[System] = [Recorder(name, ran) for name in SystemName]
    told: list[SystemName] = []
    courses = await race(systems, SAMPLES, done=told.append)
    for name in SystemName:
        assert sorted(i for who, ids in ran if who is name for i in ids) == sorted(s.id for s in SAMPLES)
        assert [result.sample for result in courses[name].results] == SAMPLES
        assert told.count(name) == len(SAMPLES)
        laps = courses[name].laps
        assert [lap.queries for lap in laps] == [len(part) for part in split(SAMPLES, len(systems))]
        assert courses[name].seconds == pytest.approx(sum(lap.seconds for lap in laps))
        assert all(lap.seconds > 0 for lap in laps)
    assert {ran[0][0], ran[3][0], ran[6][0]} == set(SystemName)
    for before, after in [*itertools.pairwise(ran), *zip(ran, ran[2:], strict=False)]:
        assert not set(before[1]) & set(after[1]), "a system would find its prompts in the server's cache"


async def test_a_race_of_fewer_samples_than_systems() -> None:
    systems: list[System] = [Recorder(name, []) for name in SystemName]
    courses = await race(systems, SAMPLES[:1])
    assert [len(course.results) for course in courses.values()] == [1, 1, 1]


@pytest.fixture
def answered() -> list[Sample]:
    return SAMPLES


async def test_the_three_systems_on_real_sockets(answered: list[Sample]) -> None:
    async with scripted_pair(Knowing(answered)) as (draft, agent):
        systems: list[System] = [AgentAlone(agent, 3), DraftAlone(draft, 3), SpecEyes(draft, agent, CALIBRATION, 3)]
        courses = await race(systems, answered)
    agent_course, draft_course, speceyes_course = (courses[name] for name in SystemName)
    assert all(result.right for result in agent_course.results)
    assert all(result.right for result in speceyes_course.results)
    assert [result.right for result in draft_course.results] == [not sample.tool_helps for sample in answered]
    for result in speceyes_course.results:
        assert result.reply.answer is not None
        helps = result.sample.tool_helps
        assert result.reply.answer.route is (Route.AGENT if helps else Route.DRAFT)
        assert result.reply.answer.reason is (Reason.TOOL_WOULD_HELP if helps else Reason.ACCEPTED)
        # Screening and draft, or screening and one turn more than there are signs to look at.
        assert result.reply.usage.calls == (2 + len(result.sample.boxes) if helps else 2)
    for result in agent_course.results:
        assert result.reply.usage.calls == 1 + len(result.sample.boxes)


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
        systems: list[System] = [AgentAlone(agent, 3), SpecEyes(draft, agent, CALIBRATION, 3)]
        told: list[SystemName] = []
        courses = await race(systems, answered, done=told.append)
    assert len(told) == 2 * len(answered)
    for course in courses.values():
        assert len(course.results) == len(answered)
        (failed,) = [result for result in course.results if result.reply.error]
        assert failed.sample == knowing.bad
        assert not failed.right
        assert failed.reply.seconds is None
        assert failed.reply.usage.prompt_tokens is None
        assert "EngineRefused" in (failed.reply.error or "")
