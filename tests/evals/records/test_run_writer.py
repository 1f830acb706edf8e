"""Writing a run: no crash at any step loses a row or doubles one, and only what belongs together becomes one run."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from made_rows import MANIFEST, failed_row, row

from speceyes.errors import ConfigError, DatasetError
from speceyes.evals.records import Manifest, RunWriter, Session, read_rows
from speceyes.evals.records import journal as journal_module
from speceyes.evals.records.parts import part_numbers
from speceyes.evals.records.writer import journal_numbers, journal_path


def ids(folder: Path) -> list[str]:
    return [one["id"] for one in read_rows(folder, ["id"])]


def test_rows_come_back_in_the_order_of_the_data_set(tmp_path: Path) -> None:
    with RunWriter(tmp_path, MANIFEST, rows_per_part=3) as writer:
        for index in (4, 0, 3, 1, 2, 6, 5):
            writer.write_rows([row(index)])
    assert ids(tmp_path) == [f"q{index}" for index in range(7)]
    assert part_numbers(tmp_path) == [0, 1, 2]
    assert journal_numbers(tmp_path) == []


def test_a_run_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    with RunWriter(tmp_path, MANIFEST, rows_per_part=4) as writer:
        for index in range(6):
            writer.write_rows([row(index)])
            assert ids(tmp_path) == [f"q{place}" for place in range(index + 1)]


def test_a_reader_passes_over_a_torn_line_and_leaves_it(tmp_path: Path) -> None:
    with RunWriter(tmp_path, MANIFEST) as writer:
        writer.write_rows([row(0)])
        path = journal_path(tmp_path, 0)
        with path.open("ab") as file:
            file.write(b'{"id":"q1","ind')
        size = path.stat().st_size
        assert ids(tmp_path) == ["q0"]
        assert path.stat().st_size == size


class Crash(BaseException):
    """The process is gone. Nothing that it would still like to do reaches the disk."""


class Disk:
    """Counts what changes the disk, and lets nothing more through from one such operation on."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.done = 0
        self.crashed = False

    def guard(self, operation: Callable[..., Any], *, partial: Callable[..., object] | None = None) -> Any:
        def guarded(*args: Any, **options: Any) -> Any:
            if self.done >= self.last:
                if not self.crashed and partial is not None:
                    partial(*args, **options)
                self.crashed = True
                raise Crash
            self.done += 1
            return operation(*args, **options)

        return guarded


@contextmanager
def crash_after(operations: int) -> Iterator[Disk]:
    disk = Disk(operations)

    def torn(file: io.FileIO, data: bytes) -> None:
        file.write(data[: len(data) * 2 // 3])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(journal_module, "_write", disk.guard(journal_module._write, partial=torn))
        patched.setattr(Path, "replace", disk.guard(Path.replace))
        patched.setattr(Path, "unlink", disk.guard(Path.unlink))
        patched.setattr(Path, "mkdir", disk.guard(Path.mkdir))
        patched.setattr(os, "ftruncate", disk.guard(os.ftruncate))
        yield disk


def record_all(folder: Path, wanted: int, *, retry_errors: bool = False) -> None:
    """What a recorder does: write the rows that are missing."""
    with RunWriter(folder, MANIFEST, rows_per_part=2) as writer:
        if retry_errors:
            writer.drop_failed()
        for index in range(wanted):
            if f"q{index}" not in writer.ids:
                writer.write_rows([row(index)])


def test_a_crash_at_any_step_loses_no_row_and_doubles_none(tmp_path: Path) -> None:
    for operations in count():
        folder = tmp_path / str(operations)
        try:
            with crash_after(operations) as disk:
                record_all(folder, 5)
        except Crash:
            pass
        crashed = disk.crashed
        record_all(folder, 5)
        assert ids(folder) == [f"q{index}" for index in range(5)], f"crash after {operations} operations"
        assert not list(folder.glob(".making-*"))
        if not crashed:
            break
    assert operations >= 15


def test_a_crash_does_not_touch_what_was_written_before(tmp_path: Path) -> None:
    for operations in count():
        folder = tmp_path / str(operations)
        written: list[str] = []
        try:
            with crash_after(operations) as disk, RunWriter(folder, MANIFEST, rows_per_part=2) as writer:
                for index in range(5):
                    writer.write_rows([row(index)])
                    written.append(f"q{index}")
        except Crash:
            pass
        if written:
            assert ids(folder)[: len(written)] == written
        if not disk.crashed:
            break


def test_a_crash_while_failed_rows_are_dropped_loses_no_other(tmp_path: Path) -> None:
    for operations in count():
        folder = tmp_path / str(operations)
        with RunWriter(folder, MANIFEST, rows_per_part=2) as writer:
            writer.write_rows([row(0), failed_row(1)])
            writer.write_rows([failed_row(2), failed_row(3)])
            writer.write_rows([row(4)])
        try:
            with crash_after(operations) as disk:
                record_all(folder, 5, retry_errors=True)
        except Crash:
            pass
        assert {"q0", "q4"} <= set(ids(folder))
        record_all(folder, 5, retry_errors=True)
        assert ids(folder) == [f"q{index}" for index in range(5)], f"crash after {operations} operations"
        assert not any(one["draft_error"] for one in read_rows(folder, ["draft_error"]))
        if not disk.crashed:
            break


def test_failed_rows_stay_unless_they_are_dropped(tmp_path: Path) -> None:
    with RunWriter(tmp_path, MANIFEST) as writer:
        writer.write_rows([row(0), failed_row(1)])
    with RunWriter(tmp_path, MANIFEST) as writer:
        assert (writer.ids, writer.failed) == ({"q0", "q1"}, {"q1"})
        assert writer.drop_failed() == 1
        assert (writer.ids, writer.failed) == ({"q0"}, set())
        writer.write_rows([row(1)])
    assert ids(tmp_path) == ["q0", "q1"]


def test_a_row_is_not_taken_twice(tmp_path: Path) -> None:
    with RunWriter(tmp_path, MANIFEST, rows_per_part=1) as writer:
        writer.write_rows([row(0)])
        with pytest.raises(DatasetError, match="'q0' already"):
            writer.write_rows([row(0)])
        with pytest.raises(DatasetError, match="'q1' already"):
            writer.write_rows([row(1), row(1)])
    assert ids(tmp_path) == ["q0"]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"colour": 1}, "Wrong: colour"), ({"p_yes": "much"}, "does not fit"), ({"index": 2**40}, "does not fit")],
)
def test_what_does_not_fit_the_schema_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with RunWriter(tmp_path, MANIFEST) as writer:
        with pytest.raises(DatasetError, match=message):
            writer.write_rows([row(0), row(1) | change])
        assert not writer.ids


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    message = f"process {os.getpid()} records into this run"
    with RunWriter(tmp_path, MANIFEST), pytest.raises(ConfigError, match=message):
        RunWriter(tmp_path, MANIFEST).__enter__()
    with RunWriter(tmp_path, MANIFEST):
        pass


@pytest.mark.parametrize(
    "other",
    [
        MANIFEST.model_copy(update={"bound_to": MANIFEST.bound_to | {"draft_model": "tiny"}}),
        MANIFEST.model_copy(update={"k": 20}),
        MANIFEST.model_copy(update={"dataset": MANIFEST.dataset.model_copy(update={"digest": "sha256:1"})}),
        MANIFEST.model_copy(update={"setup": {"draft_max_tokens": 8}}),
    ],
    ids=["draft_model", "k", "dataset", "draft_max_tokens"],
)
def test_a_run_is_not_resumed_with_something_else(
    tmp_path: Path, other: Manifest, request: pytest.FixtureRequest
) -> None:
    with RunWriter(tmp_path, MANIFEST) as writer:
        writer.write_rows([row(0)])
    before = (tmp_path / "run.json").read_bytes()
    name = request.node.callspec.id
    with pytest.raises(ConfigError, match=f"  {name}: recorded with .*, in use is "):
        RunWriter(tmp_path, other).__enter__()
    assert (tmp_path / "run.json").read_bytes() == before
    assert ids(tmp_path) == ["q0"]


def test_the_manifest_tells_of_every_session(tmp_path: Path) -> None:
    for index in range(2):
        session = Session(started="2026-01-01T00:00:00+00:00", concurrency=index + 1)
        with RunWriter(tmp_path, MANIFEST, session=session) as writer:
            writer.write_rows([row(index)])
    found = Manifest.load(tmp_path)
    assert [(session.concurrency, session.rows) for session in found.sessions] == [(1, 1), (2, 2)]
    assert all(session.ended for session in found.sessions)


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match="not empty and holds no recorded run"):
        RunWriter(tmp_path, MANIFEST).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_damaged_manifest_is_an_error_that_names_it(tmp_path: Path) -> None:
    with RunWriter(tmp_path, MANIFEST):
        pass
    (tmp_path / "run.json").write_text('{"k": 8')
    with pytest.raises(DatasetError, match=r"run\.json is damaged"):
        RunWriter(tmp_path, MANIFEST).__enter__()


def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    MANIFEST.model_copy(update={"schema_version": 99}).save(tmp_path)
    with pytest.raises(DatasetError, match="has the schema 99"):
        Manifest.load(tmp_path)
