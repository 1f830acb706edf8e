"""From a record to a workload: judged as the gate judges, whole queries only, and drawn together."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from speceyes.errors import CalibrationMismatch, InputError
from speceyes.evals.records import DatasetFacts, Manifest, RecordTable, Row, RunWriter
from speceyes.evals.records.manifest import Session
from speceyes.evals.simulation import QueryTimes, Workload, load_workload
from speceyes.evals.simulation.workload import workload_of
from speceyes.gating import Calibration
from speceyes.phases import gate
from speceyes.types import Draft, Usage

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("records", "sweeps")]

from made_rows import failed_row, observed, row
from made_runs import lifelike, looks

CALIBRATION = Calibration.manual(2.0, k=8)


def rows_of(table: RecordTable) -> list[Row]:
    return [
        {"look_seconds": 0.01, "agent_turns": 1 + i % 3, "image_width": [64], "image_height": [48], "question": "What?"}
        for i in range(len(table))
    ]


def test_a_query_keeps_its_own_times_and_what_the_phases_say() -> None:
    table = lifelike(60, k=8)
    workload = workload_of(table, rows_of(table), CALIBRATION, 1)
    scores = table.answers.score("separability", 8, "min").values
    assert len(workload.queries) == 60
    for i, query in enumerate(workload.queries):
        assert (query.screen, query.draft) == (table.screen_seconds[i], table.draft_seconds[i])
        assert query.agent == query.agent_after_screen == table.agent_seconds[i]
        assert (query.look, query.turns, query.kind) == (0.01, 1 + i % 3, "1 images, about 0.125 MP, open")
        assert query.passed == bool(table.draft_usable[i] and scores[i] >= 2.0)
        assert query.let_through == bool(table.help_probability[i] <= 0.5)
    assert {query.accepted for query in workload.queries} == {True, False}


def test_a_gate_that_accepts_nothing_accepts_nothing() -> None:
    table = lifelike(20, k=8)
    infeasible = CALIBRATION.model_copy(update={"threshold": None})
    assert not any(query.passed for query in workload_of(table, rows_of(table), infeasible).queries)


def test_a_record_of_other_models_is_refused() -> None:
    table = lifelike(20, k=8)
    other = Calibration.manual(2.0, k=8, draft_model="another")
    with pytest.raises(CalibrationMismatch, match="another"):
        workload_of(table, rows_of(table), other)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_closer_looks_end_with_the_first_that_the_gate_passes_or_that_fails(depth: int) -> None:
    table = looks(lifelike(80, k=8), 2)
    workload = workload_of(table, rows_of(table), CALIBRATION, max_depth=depth)
    scores = [part.answers.score("separability", 8, "min").values for part in table.closer]
    for i, query in enumerate(workload.queries):
        seconds, passed = 0.0, False
        for part, score in zip(table.closer[:depth], scores, strict=False):
            if np.isnan(part.seconds[i]):
                break
            seconds += part.seconds[i]
            if passed := bool(part.usable[i] and score[i] >= 2.0):
                break
        assert (query.closer, query.passed_closer) == (pytest.approx(seconds), passed)
    left = sum(not (query.accepted or query.passed_closer) for query in workload.queries)
    assert workload.left_over == left / 80
    assert {query.passed_closer for query in workload.queries} == ({True, False} if depth else {False})


def test_a_calibration_says_how_often_the_draft_model_looks() -> None:
    table = looks(lifelike(30, k=8), 1)
    twice = CALIBRATION.model_copy(update={"max_depth": 2})
    with pytest.raises(InputError, match=r"up to 2 times, and the run was recorded with 1: record it again with --max"):
        workload_of(table, rows_of(table), twice)
    assert any(query.closer for query in workload_of(table, rows_of(table), CALIBRATION, max_depth=1).queries)
    assert not any(query.closer for query in workload_of(table, rows_of(table), CALIBRATION).queries)


def test_where_a_closer_look_is_not_known_the_query_is_left_out() -> None:
    table = looks(lifelike(60, k=8), 1, broken=0.2)
    known = int(table.closer[0].known.sum())
    workload = workload_of(table, rows_of(table), CALIBRATION, max_depth=1)
    assert (len(workload.queries), workload.left_out) == (known, 60 - known)
    assert 0 < known < 60


def test_queries_that_lack_a_phase_are_left_out() -> None:
    table = lifelike(20, k=8)
    seconds = table.agent_seconds.copy()
    seconds[[3, 7]] = np.nan
    workload = workload_of(dataclasses.replace(table, agent_seconds=seconds), rows_of(table), CALIBRATION)
    assert (len(workload.queries), workload.left_out) == (18, 2)


def test_a_folder_of_records(tmp_path: Path) -> None:
    facts = DatasetFacts(name="made", kind="made", digest="sha256:0", samples=9)
    manifest = Manifest(dataset=facts, bound_to={"draft_model": "small", "agent_model": "large"}, k=8)
    with RunWriter(tmp_path / "run", manifest, session=Session(started="2026-11-30T00:00:00", concurrency=3)) as out:
        out.write_rows([*(row(i) for i in range(8)), failed_row(8)])
    workload = load_workload(tmp_path / "run", CALIBRATION)
    assert (len(workload.queries), workload.left_out, workload.concurrency) == (8, 1, 3)
    for i, query in enumerate(workload.queries):
        seen = observed(i)
        assert seen.draft is not None
        assert (query.look, query.agent, query.turns) == (0.01, 2.5, 2)
        draft = Draft(seen.draft.text, seen.draft.tokens, None, Usage(), 0.0)
        assert query.passed == gate(draft, CALIBRATION).accepted


def test_whole_queries_are_drawn() -> None:
    """A long run never meets another query's short draft."""
    pairs = tuple(QueryTimes(1.0, float(i), 10.0 * i, 10.0 * i, True, True) for i in range(1, 9))
    workload = Workload(pairs)
    drawn = workload.drawn(500, np.random.default_rng(0))
    assert set(drawn) == set(pairs)
    assert workload.in_order(10) == [*pairs, *pairs[:2]]


def test_means_and_chances() -> None:
    two = Workload((QueryTimes(1.0, 2.0, 8.0, 6.0, True, True), QueryTimes(3.0, 4.0, 10.0, 10.0, False, True)))
    assert dataclasses.astuple(two.times) == (2.0, 3.0, 9.0, 8.0)
    assert dataclasses.astuple(two.chances) == (0.5, 1.0, 0.5)


@pytest.mark.parametrize(
    "query",
    [
        QueryTimes(-1.0, 0.0, 0.0, 0.0, True, True),
        QueryTimes(0.0, float("nan"), 0.0, 0.0, True, True),
        QueryTimes(0.0, 0.0, 0.0, 0.0, True, True, turns=0),
    ],
    ids=["negative", "no number", "no turn"],
)
def test_impossible_times_are_refused(query: QueryTimes) -> None:
    with pytest.raises(InputError, match="seconds must be at least 0"):
        Workload((query,))


def test_no_queries_are_refused() -> None:
    with pytest.raises(InputError, match="no query was recorded with all its phases"):
        Workload(())


def test_looks_that_the_calibration_was_not_made_for_are_refused() -> None:
    table = looks(lifelike(30, k=8), 1)
    certified = CALIBRATION.model_copy(update={"method": "ltt", "max_depth": None})
    with pytest.raises(CalibrationMismatch, match="max_depth"):
        workload_of(table, rows_of(table), certified, max_depth=1)
