"""The files of a run: what is written is read, torn ends are no lines, and nothing foreign is taken for a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import ConfigError, DatasetError
from speceyes.evals.runs.format import (
    FORMAT,
    CropLine,
    DatasetFacts,
    GateFacts,
    Header,
    Lap,
    ModelFacts,
    Result,
    Sample,
    Session,
    TurnLine,
    UsageLine,
    from_line,
    to_line,
)
from speceyes.evals.runs.lines import Lines
from speceyes.evals.runs.loading import HEADER, LAPS, RESULTS, SAMPLES, open_run, read_lines

TEXT = st.text(max_size=20)
SHARE = st.floats(0, 1)
SECONDS = st.one_of(st.none(), st.floats(0, 1e4))
CROPS = st.builds(CropLine, st.integers(0, 3), st.tuples(SHARE, SHARE, SHARE, SHARE), TEXT)
TURNS = st.builds(
    TurnLine,
    TEXT,
    st.one_of(st.none(), TEXT),
    st.one_of(st.none(), st.dictionaries(TEXT, st.one_of(TEXT, st.integers(-9, 9), st.lists(st.integers(0, 9))))),
    st.one_of(st.none(), TEXT),
    st.lists(CROPS, max_size=2).map(tuple),
    st.sampled_from(("agent", "draft")),
    st.one_of(st.none(), st.integers(0, 9)),
    st.booleans(),
)
USAGE = st.builds(UsageLine, st.one_of(st.none(), st.integers(0, 99)), st.integers(0, 9), st.none(), st.integers(0, 9))
RESULTS_MADE = st.builds(
    Result,
    system=st.sampled_from(("agent", "no-screen")),
    id=TEXT,
    block=st.integers(0, 99),
    text=TEXT,
    parsed=st.one_of(st.none(), TEXT),
    right=st.one_of(st.none(), st.booleans()),
    error=st.one_of(st.none(), TEXT),
    seconds=SECONDS,
    score=SECONDS,
    phase_seconds=st.dictionaries(st.sampled_from(("screen", "fall_back")), st.floats(0, 9)),
    usage=st.dictionaries(st.sampled_from(("draft", "agent")), USAGE),
    turns=st.lists(TURNS, max_size=2).map(tuple),
)


def header(**changes: object) -> Header:
    made = {
        "dataset": DatasetFacts("set", "vstar", "sha256:1", 2, 2, 0),
        "systems": ("agent", "draft"),
        "models": {"draft": ModelFacts("small", "s"), "agent": ModelFacts("large", "l")},
        "gate": GateFacts("separability", 64, "min", 4.0, 0.5, "manual"),
        "rule": "strict",
        "concurrency": (1,),
        "batch": (),
        "block": 20,
        "blocks": 2,
        "seed": 0,
        "images": False,
        "sessions": (Session("2026-01-01", "speceyes eval", {}, {}),),
    }
    return Header(**{**made, **changes})  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / HEADER).write_bytes(to_line(header()))
    (tmp_path / SAMPLES).write_bytes(to_line(Sample("a", "A?")) + to_line(Sample("b", "B?")))
    rows = [Result("agent", "b", 1, "old"), Result("agent", "a", 0), Result("agent", "b", 1, "new")]
    (tmp_path / RESULTS).write_bytes(b"".join(map(to_line, rows)))
    laps = [Lap("agent", 0, 1, 1, 2.0, errors=1), Lap("agent", 0, 1, 1, 1.0)]
    (tmp_path / LAPS).write_bytes(b"".join(map(to_line, laps)))
    return tmp_path


@given(RESULTS_MADE)
def test_a_result_is_read_as_it_was_written(result: Result) -> None:
    line = to_line(result)
    assert line.count(b"\n") == 1
    assert line.count(b"\r") == 0
    json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not strict JSON"))
    assert from_line(line, Result, "here") == result


def test_the_last_line_counts_and_the_order_is_that_of_the_questions(folder: Path) -> None:
    run = open_run(folder)
    assert run.header == header()
    assert [(row.id, row.text) for row in run.results["agent"]] == [("a", ""), ("b", "new")]
    assert run.results["draft"] == []
    assert [lap.seconds for lap in run.laps] == [1.0]
    assert not run.complete
    assert run.header.ended is None


@pytest.mark.parametrize("name", [SAMPLES, RESULTS, LAPS])
def test_a_torn_end_is_no_line_and_a_damaged_middle_is_an_error(folder: Path, name: str) -> None:
    path = folder / name
    good = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"system": "ag')
    open_run(folder)
    path.write_bytes(b'{"system": 1}\n' + good)
    with pytest.raises(DatasetError, match=rf"{name}, line 1, is damaged"):
        open_run(folder)


def test_lines_cut_a_torn_end_off_and_go_on(folder: Path) -> None:
    path = folder / RESULTS
    before = path.read_bytes()
    path.write_bytes(before + b'{"system": "ag')
    with Lines(path) as lines:
        lines.append(Result("draft", "a", 0))
        lines.sync()
    assert path.read_bytes() == before + to_line(Result("draft", "a", 0))
    assert len(list(read_lines(path, Result))) == 4


def test_lines_that_cannot_be_written_say_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        Lines(tmp_path / "none" / "results.jsonl")


def test_what_is_no_run_is_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="holds no evaluation run"):
        open_run(tmp_path / "nothing")
    for content, said in [
        ('{"format": "speceyes.run"}', "belongs to a record"),
        (f'{{"format": {FORMAT + 1}}}', f"reads {FORMAT}"),
        ("[1]", f"reads {FORMAT}"),
        ("{", "damaged"),
        (f'{{"format": {FORMAT}}}', "damaged"),
    ]:
        (folder / HEADER).write_text(content)
        with pytest.raises(DatasetError, match=said):
            open_run(folder)


def test_a_result_of_nobody_is_told(folder: Path) -> None:
    for stray in (Result("oracle", "a", 0), Result("agent", "c", 0)):
        kept = (folder / RESULTS).read_bytes()
        (folder / RESULTS).write_bytes(kept + to_line(stray))
        with pytest.raises(DatasetError, match="no part of this run"):
            open_run(folder)
        (folder / RESULTS).write_bytes(kept)


def test_missing_questions_are_told(folder: Path) -> None:
    (folder / SAMPLES).write_bytes(to_line(Sample("a", "A?")))
    with pytest.raises(DatasetError, match="holds 1 questions; 2 were asked"):
        open_run(folder)
