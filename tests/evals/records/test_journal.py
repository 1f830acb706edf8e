"""The journal: whatever a crash leaves of its last line, the rows before it are there and the next one is whole."""

from __future__ import annotations

import math
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import row

from speceyes.errors import DatasetError
from speceyes.evals.records import journal as journal_module
from speceyes.evals.records import make_row
from speceyes.evals.records.journal import Journal, line_of, parse_line
from speceyes.evals.records.rows import Asked, Observed
from speceyes.types import Draft, Token

ROWS = [row(index) for index in range(4)]
LINES = [line_of(one) for one in ROWS]
texts = st.text(st.characters(codec=None), max_size=20)
logprobs = st.floats(width=32, allow_nan=False)


@given(texts, st.lists(st.tuples(texts, logprobs), max_size=4), texts)
def test_a_line_says_the_whole_row(text: str, rivals: list[tuple[str, float]], question: str) -> None:
    token = Token(text, None, tuple(value for _, value in rivals), tuple(name for name, _ in rivals))
    made = make_row(Asked("q", 0, question), Observed(draft=Draft(text, (token,))))
    line = line_of(made)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert parse_line(line) == made


def test_values_that_json_lacks_come_back() -> None:
    made = row(0) | {"top_logprobs": [[math.inf, -math.inf, math.nan]], "p_yes": math.nan}
    found = parse_line(line_of(made))
    assert found is not None
    assert found["top_logprobs"][0][:2] == [math.inf, -math.inf]
    assert math.isnan(found["top_logprobs"][0][2])
    assert math.isnan(found["p_yes"])


@given(st.integers(0, len(ROWS) - 1), st.data())
def test_a_torn_last_line_is_cut_off_before_the_next_row(whole: int, data: st.DataObject) -> None:
    torn = data.draw(st.integers(0, len(LINES[whole]) - 1).map(lambda size: LINES[whole][:size]), label="torn")
    rubbish = data.draw(st.sampled_from([b"", b"\0" * 64, b"\xff\n", b"{}\n", b"[1]\n"]), label="rubbish")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        path.write_bytes(b"".join(LINES[:whole]) + (torn or rubbish))
        journal = Journal(path)
        assert journal.rows == ROWS[:whole]
        journal.append([ROWS[whole]])
        assert path.read_bytes() == b"".join(LINES[: whole + 1])
        assert Journal(path).rows == ROWS[: whole + 1]


def test_a_bad_line_further_up_is_no_crashs_work(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(LINES[0] + LINES[1][:50] + b"\n" + LINES[2])
    with pytest.raises(DatasetError, match="line 2 of 3 is damaged"):
        Journal(path)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append(ROWS[:2])

    def half(file: object, data: bytes) -> None:
        file.write(data[: len(data) // 2])  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(journal_module, "_write", half)
        with pytest.raises(OSError, match="No space"):
            journal.append([ROWS[2]])
    assert journal.rows == ROWS[:2]
    journal.append([ROWS[3]])
    assert path.read_bytes() == LINES[0] + LINES[1] + LINES[3]


def test_rows_are_on_the_disk_before_they_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced = tmp_path / "journal.jsonl", []

    def fsync(handle: int) -> None:
        synced.append(os.fstat(handle).st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    Journal(path).append(ROWS)
    assert sum(map(len, LINES)) in synced
