"""Writing a run: every row is safe as soon as `write_rows` returns, whatever becomes of the process.

    run/
      run.json                what the run was recorded with
      parts/00000.parquet     rows, finished
      journal-00001.jsonl     rows that will be part 1
      .lock                   held by the process that writes

A row is first a line of the journal. Once there are enough of them, the whole journal becomes the part of its number:
the part is written beside, moved into its place, and then the journal is removed. A journal whose part is there has
been dealt with, so a crash between any two steps loses no row and doubles none.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from speceyes.errors import ConfigError, DatasetError
from speceyes.evals.records.durable import remove_file, remove_unfinished, sync_folder
from speceyes.evals.records.journal import Journal
from speceyes.evals.records.lock import LOCK, locked
from speceyes.evals.records.manifest import MANIFEST, Manifest, Session, now
from speceyes.evals.records.parts import as_table, need_pyarrow, part_numbers, part_path, read_part, write_part
from speceyes.evals.records.schema import ERRORS, NAMES, Row, is_failed

ROWS_PER_PART: Final = 1000


class RunWriter:
    """A run to add rows to, as a context manager. It makes the folder, or takes up the run that is there.

        with RunWriter(Path("run"), manifest) as writer:
            writer.write_rows([make_row(asked, observed)])

    Args:
        folder: The run's folder: new, empty, or holding a run that was recorded with the same.
        manifest: What the rows are made with. Its sessions are not looked at.
        session: How this stretch of writing is done. None: with nothing to say about it.
        rows_per_part: How many rows become one Parquet file. Until then they stand in the journal.

    Attributes:
        ids: Names of all rows in the run.
        failed: Names of those that hold an error.

    Raises:
        ConfigError: The folder is not a run's, cannot be written, is in use by another process, or holds a run that
            was recorded with something else (on entering).
        DatasetError: What is there is damaged (on entering).
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        *,
        session: Session | None = None,
        rows_per_part: int = ROWS_PER_PART,
    ) -> None:
        if rows_per_part < 1:
            raise ConfigError(f"A part needs at least 1 row, not {rows_per_part}.")
        self.folder = folder
        self.ids: set[str] = set()
        self.failed: set[str] = set()
        self._manifest, self._session = manifest, session or Session(started=now())
        self._rows_per_part = rows_per_part
        self._held = ExitStack()

    def __enter__(self) -> Self:
        need_pyarrow()
        _make_folder(self.folder)
        with ExitStack() as held:
            held.enter_context(locked(self.folder))
            try:
                self._open()
            except OSError as error:
                raise _not_writable(self.folder, error) from error
            self._held = held.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._held:
            try:
                self._seal()
                self._manifest = self._manifest.ending(len(self.ids))
                self._manifest.save(self.folder)
            except OSError as problem:
                if error is None:
                    raise _not_writable(self.folder, problem) from problem

    def write_rows(self, rows: Iterable[Row]) -> None:
        """Add rows. They are on the disk when this returns, all of them; when it raises, none is.

        Raises:
            DatasetError: A row lacks a column, has an unknown one or a value of another type, or its id is there.
            ConfigError: They cannot be written.
        """
        added = list(rows)
        self._check(added)
        try:
            self._journal.append(added)
            self._note(added)
            if len(self._journal.rows) >= self._rows_per_part:
                self._seal()
        except OSError as error:
            raise _not_writable(self.folder, error) from error

    def drop_failed(self) -> int:
        """Take out the rows that hold an error, so that their queries are recorded again. Returns how many there were.

        Raises:
            ConfigError: The parts cannot be written again.
        """
        try:
            self._seal()
            for number in part_numbers(self.folder):
                self._drop_failed_from(number)
        except OSError as error:
            raise _not_writable(self.folder, error) from error
        dropped = len(self.failed)
        self.ids -= self.failed
        self.failed.clear()
        return dropped

    def _open(self) -> None:
        """Take up what is there, and mend what a crash left."""
        remove_unfinished(self.folder)
        if (self.folder / MANIFEST).exists():
            found = Manifest.load(self.folder)
            found.check_same(self._manifest, self.folder)
        else:
            found = self._manifest.model_copy(update={"sessions": ()})
        self._manifest = found.starting(self._session)
        self._manifest.save(self.folder)
        done = part_numbers(self.folder)
        for number in done:
            remove_file(journal_path(self.folder, number))
            columns = ["id", *ERRORS]
            self._note(read_part(part_path(self.folder, number), columns).to_pylist())
        waiting = journal_numbers(self.folder)
        if len(waiting) > 1:
            raise DatasetError(f"{self.folder} has several journals, which no crash leaves. Keep the right one.")
        self._number = waiting[0] if waiting else max(done, default=-1) + 1
        self._journal = Journal(journal_path(self.folder, self._number))
        self._note(self._journal.rows)

    def _seal(self) -> None:
        """Make the journal a part."""
        if not self._journal.rows:
            return
        write_part(self.folder, self._number, as_table(self._journal.rows))
        remove_file(self._journal.path)
        self._number += 1
        self._journal = Journal(journal_path(self.folder, self._number))

    def _drop_failed_from(self, number: int) -> None:
        table = read_part(part_path(self.folder, number))
        keep = [identity not in self.failed for identity in table.column("id").to_pylist()]
        if not any(keep):
            remove_file(part_path(self.folder, number))
        elif not all(keep):
            write_part(self.folder, number, table.filter(need_pyarrow().array(keep)))

    def _check(self, rows: list[Row]) -> None:
        seen: set[str] = set()
        for row in rows:
            if row.keys() != set(NAMES):
                wrong = ", ".join(sorted(row.keys() ^ set(NAMES)))
                raise DatasetError(f"A row must have the record's columns, no more and no less. Wrong: {wrong}.")
            if row["id"] in self.ids or row["id"] in seen:
                raise DatasetError(f"{self.folder} has a row of the id {row['id']!r} already.")
            seen.add(row["id"])
        as_table(rows)

    def _note(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.ids.add(row["id"])
            if is_failed(row):
                self.failed.add(row["id"])


def journal_path(folder: Path, number: int) -> Path:
    """The journal that will be a part."""
    return folder / f"journal-{number:05d}.jsonl"


def journal_numbers(folder: Path) -> list[int]:
    """The journals that there are, in order."""
    names = [path.stem.removeprefix("journal-") for path in folder.glob("journal-*.jsonl")]
    return sorted(int(name) for name in names if name.isdigit())


def _make_folder(folder: Path) -> None:
    """A folder for a run: new, empty but for what a run's first steps leave, or a run's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = [path.name for path in folder.iterdir() if path.name != LOCK and not path.name.startswith(".making-")]
        sync_folder(folder.parent)
    except OSError as error:
        raise _not_writable(folder, error) from error
    if foreign and MANIFEST not in foreign:
        raise ConfigError(f"{folder} is not empty and holds no recorded run. Name another folder.")


def _not_writable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{folder} cannot be written: {error.strerror or error}. What was recorded so far is kept.")
