"""Closer looks in a record: each depth of each question, and arrays that say what the lists say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_rows import MANIFEST, observed, row, token
from scripted_pair import K, Knowing, scripted_pair

from speceyes.engines.scripted import Outcome, Status
from speceyes.errors import ConfigError
from speceyes.evals.datasets.readers import open_dataset
from speceyes.evals.datasets.samples import make_samples
from speceyes.evals.datasets.scenes import SIDE
from speceyes.evals.records import COLUMNS, Manifest, Observed, RunWriter, is_failed, load_run, make_row, read_rows
from speceyes.evals.records.journal import line_of, parse_line
from speceyes.evals.records.parts import as_table, part_path, write_part
from speceyes.evals.records.recorder import record
from speceyes.evals.records.rows import Asked
from speceyes.evals.records.session import make_manifest
from speceyes.evals.records.summary import summarise_run
from speceyes.gating import AnswerTable
from speceyes.phases import AgentModel, DraftModel
from speceyes.types import Crop, Draft, Reason, Trace, Usage

NAME = "nano:8:3"
SAMPLES = make_samples(8, 3)
ITEMS = open_dataset(NAME).items
ONE_SIGN = [len(sample.boxes) <= 1 for sample in SAMPLES]
DEEP = MANIFEST.model_copy(update={"setup": {"draft_max_depth": 2}})
LISTS = [column.name for column in COLUMNS if column.name.startswith("closer_") and column.type != "string"]


def looked(seed: int, depth: int, fault: Reason | None = None) -> Draft:
    """A draft after so many looks."""
    import random

    rng = random.Random(seed)
    crops = tuple(Crop(0, (i, 2.5, 30.0, 40.0), (56, 56)) for i in range(depth))
    usage = Usage(100 + depth, 2, None, 2)
    word = rng.choice("ABCD")
    return Draft(word, (token(rng, word, 8),), fault, usage, 0.5 * depth, depth, crops)


FAILED_LOOK = Draft(
    "", (), Reason.LOOK_FAILED, Usage(90, 7, 80, 1), 0.125, 2, (Crop(0, (0, 2.5, 30.0, 40.0), (56, 56)),)
)


def seen(seed: int, *closer: Draft, **more: Any) -> Observed:
    return replace(observed(seed), closer=closer, **more)


def test_a_row_has_one_entry_for_each_look() -> None:
    made = row(0, seen(0, looked(1, 1), FAILED_LOOK))
    assert {len(made[name]) for name in LISTS} == {2}
    assert made["closer_text"] == [looked(1, 1).text, ""]
    assert made["closer_fault"] == [None, "look_failed"]
    assert (made["closer_image"], made["closer_box"]) == ([0, None], [[0, 2.5, 30.0, 40.0], None])
    assert (made["closer_seconds"], made["closer_calls"]) == ([0.5, 0.125], [2, 1])
    assert (made["closer_prompt_tokens"], made["closer_cached_tokens"]) == ([101, 90], [None, 80])
    assert made["closer_tokens"] == [[made["closer_text"][0]], []]
    assert made["closer_right"] == [made["closer_text"][0] == "B", False]
    assert made["closer_agrees"][1] is False
    assert made["closer_error"] is None
    assert [row(0)[name] for name in LISTS] == [[]] * len(LISTS)


def test_journal_and_parquet_give_it_back(tmp_path: Path) -> None:
    rows = [row(0, seen(0, looked(1, 1), looked(2, 2))), row(1, seen(1, looked(3, 1), FAILED_LOOK)), row(2)]
    assert [parse_line(line_of(one)) for one in rows] == rows
    with RunWriter(tmp_path, DEEP) as writer:
        writer.write_rows(rows)
    assert list(read_rows(tmp_path)) == as_table(rows).to_pylist()


def test_the_arrays_of_each_depth(tmp_path: Path) -> None:
    """Row 0 looked twice, 1 once and then in vain, 2 in vain at once, 3 met a failing server, 4 was never to look."""
    in_vain = replace(FAILED_LOOK, depth=1, crops=())
    drafts = [(looked(1, 1), looked(2, 2)), (looked(3, 1), FAILED_LOOK), (in_vain,), (looked(4, 1),), ()]
    errors = [{}, {}, {}, {"closer": "EngineTimeout: too slow"}, {}]
    rows = [
        row(i, seen(i, *closer, errors=error)) for i, (closer, error) in enumerate(zip(drafts, errors, strict=True))
    ]
    with RunWriter(tmp_path, DEEP, rows_per_part=2) as writer:
        for one in rows:  # two parts, and the rest a journal for a while
            writer.write_rows([one])
        during = load_run(tmp_path)
    after = load_run(tmp_path)
    for table in (during, after):
        first, second = table.closer
        assert first.known.tolist() == [True, True, True, True, False]
        assert second.known.tolist() == [True, True, True, False, False]
        assert first.looked.tolist() == [True, True, False, True, False]
        assert second.looked.tolist() == [True, False, False, False, False]
        assert second.usable.tolist() == [True, False, False, False, False]
        np.testing.assert_array_equal(first.seconds, [0.5, 0.5, 0.125, 0.5, np.nan])
        np.testing.assert_array_equal(second.seconds, [1.0, 0.125, np.nan, np.nan, np.nan])
        assert first.right.tolist() == [one["closer_right"][0] if one["closer_right"] else False for one in rows]
        assert first.agrees.tolist() == [one["closer_agrees"][0] if one["closer_agrees"] else False for one in rows]
        assert table.complete.all(), "whatever became of the looks, the three phases ran"
        assert table.complete_to(0).tolist() == [True] * 5
        assert table.complete_to(1).tolist() == first.known.tolist()
        for depth, closer in enumerate(table.closer):
            answers = [made[depth].tokens if len(made) > depth else () for made in drafts]
            expected = AnswerTable.of(answers).score("separability", 8, "min")
            found = closer.answers.score("separability", 8, "min")
            np.testing.assert_allclose(found.values, expected.values, rtol=1e-6)
            assert found.reasons.tolist() == expected.reasons.tolist()


def test_a_fault_of_a_deeper_draft_is_known(tmp_path: Path) -> None:
    with RunWriter(tmp_path, DEEP) as writer:
        writer.write_rows([row(0, seen(0, looked(1, 1, Reason.TRUNCATED_ANSWER), looked(2, 2)))])
    first, second = load_run(tmp_path).closer
    assert (first.looked[0], first.usable[0], second.usable[0]) == (True, False, True)


def test_a_run_from_before_has_no_looks_and_goes_on(tmp_path: Path) -> None:
    """Its parts lack the columns, its journal the keys, and its manifest the depth."""
    with RunWriter(tmp_path, MANIFEST) as writer:
        writer.write_rows([row(0)])
    names = [name for name in row(0) if not name.startswith("closer_")]
    write_part(tmp_path, 0, as_table([row(0)]).select(names))
    (tmp_path / "journal-00001.jsonl").write_bytes(line_of({name: row(1)[name] for name in names}))
    table = load_run(tmp_path)
    assert (len(table), table.closer, Manifest.load(tmp_path).max_depth) == (2, (), 0)
    assert not any(map(is_failed, read_rows(tmp_path)))
    now = MANIFEST.model_copy(update={"setup": {"draft_max_depth": 0}})
    with RunWriter(tmp_path, now) as writer:
        assert writer.ids == {"q0", "q1"}
        assert writer.failed == set()
        writer.write_rows([row(2)])
    assert len(load_run(tmp_path)) == 3
    with pytest.raises(ConfigError, match="draft_max_depth: recorded with 0, in use is 2"), RunWriter(tmp_path, DEEP):
        raise AssertionError
    assert part_path(tmp_path, 0).exists()


def test_a_trace_in_service_keeps_its_looks() -> None:
    trace = Trace(Reason.ACCEPTED_CLOSER, observed(1).screening, observed(1).draft, closer=(looked(1, 1),))
    made = make_row(Asked("q", 0, "Which?"), Observed.of_trace(trace))
    assert made["closer_text"] == [looked(1, 1).text]
    assert made["closer_agrees"] == made["closer_right"] == [None]


async def record_all(folder: Path, draft: DraftModel, agent: AgentModel, *, again: bool = False) -> None:
    with RunWriter(folder, make_manifest(open_dataset(NAME), draft, agent)) as writer:
        if again:
            writer.drop_failed()
        await record(ITEMS, draft, agent, writer)


@pytest.mark.parametrize("depth", [1, 3])
async def test_every_question_is_looked_at_whatever_a_gate_would_say(tmp_path: Path, depth: int) -> None:
    async with scripted_pair(Knowing(SAMPLES), max_depth=depth) as (draft, agent):
        await record_all(tmp_path, draft, agent)
    for made, sample, one in zip(read_rows(tmp_path), SAMPLES, ONE_SIGN, strict=True):
        # one look shows the sign; the next names nothing, and is the last
        expected = [None, "look_failed"][: depth if one else 0] or ["look_failed"]
        assert made["closer_fault"] == expected
        assert all(seconds > 0 for seconds in made["closer_seconds"])
        assert made["closer_calls"] == ([2, 1] if one else [1])[: len(expected)]
        if one:
            assert (made["closer_text"][0], made["closer_right"][0]) == (sample.gold, True)
            assert [len(top) for top in made["closer_top_logprobs"][0]] == [K]
            wanted = sample.boxes[0] if sample.boxes else (100, 100, 400, 400)
            assert made["closer_box"][0] == pytest.approx(wanted, abs=2 * SIDE / 192)
        assert made["draft_right"] is not sample.tool_helps
        assert made["agent_right"] is True
    table = load_run(tmp_path)
    assert "look_prompt" in table.bound_to
    assert len(table.closer) == depth
    assert table.complete_to(depth).all()
    assert table.closer[0].usable.tolist() == ONE_SIGN
    summary = summarise_run(tmp_path)
    assert summary.failed == 0
    assert summary.closer[0]["looked"] == pytest.approx(np.mean(ONE_SIGN))
    assert summary.closer[0]["accuracy"] == 1.0
    assert json.dumps(summary.as_json()["closer"])


class FailingLooks(Knowing):
    """A draft's server that answers at a glance, and fails in the midst of a look."""

    healthy = False

    def draft(self, request: dict[str, Any], turn: int) -> Outcome:
        looked = any(message["role"] == "assistant" for message in request["messages"])
        return super().draft(request, turn) if self.healthy or not looked else Status(500, "out of memory")


async def test_a_look_whose_server_fails_is_tried_again_and_the_phases_count(tmp_path: Path) -> None:
    knowing = FailingLooks(SAMPLES)
    async with scripted_pair(knowing, max_depth=1) as (draft, agent):
        await record_all(tmp_path, draft, agent)
        rows, table = list(read_rows(tmp_path)), load_run(tmp_path)
        failed = [made["closer_error"] is not None for made in rows]
        assert failed == ONE_SIGN
        assert [is_failed(made) for made in rows] == failed
        assert table.complete.all()
        assert table.complete_to(1).tolist() == [not one for one in failed]
        assert summarise_run(tmp_path).failed == sum(failed)
        knowing.healthy = True
        await record_all(tmp_path, draft, agent, again=True)
    assert load_run(tmp_path).complete_to(1).all()
    assert not any(map(is_failed, read_rows(tmp_path)))


async def test_a_query_without_a_first_draft_is_not_looked_at(tmp_path: Path) -> None:
    """As in service: a draft's server that has failed is not asked again."""

    class Down(Knowing):
        def draft(self, request: dict[str, Any], turn: int) -> Outcome:
            return Status(500)

    async with scripted_pair(Down(SAMPLES), max_depth=2) as (draft, agent):
        await record_all(tmp_path, draft, agent)
    assert all(made["closer_text"] == [] and made["closer_error"] is None for made in read_rows(tmp_path))
