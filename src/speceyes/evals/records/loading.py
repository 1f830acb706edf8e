"""Reading a run: as arrays for sweeps and calibrations, or row by row for reports.

A run may be read while it is being recorded; what counts is what was on the disk at some moment in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from speceyes.errors import DatasetError
from speceyes.evals.records.closer import CLOSER_COLUMNS, closer_tables
from speceyes.evals.records.columns import answers, flags, floats, nulls, one_array, texts
from speceyes.evals.records.journal import read_journal
from speceyes.evals.records.manifest import Manifest
from speceyes.evals.records.parts import as_table, need_pyarrow, part_numbers, part_path, read_part
from speceyes.evals.records.schema import NAMES, Row
from speceyes.evals.records.table import RecordTable
from speceyes.evals.records.writer import journal_numbers, journal_path

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES: Final = 20
"""A journal may become a part between looking for it and reading it; it does not happen often in a row."""
_USED: Final = (
    *("index", "id", "category", "gold", "p_yes", "p_no", "draft_text", "draft_fault", "tokens", "logprobs"),
    *("top_logprobs", "agent_text", "agent_depth", "draft_right", "agent_right", "agrees"),
    *("screen_seconds", "draft_seconds", "agent_seconds"),
)


def load_run(path: str | Path) -> RecordTable:
    """All rows of a run as arrays, in the order of the data set.

    Raises:
        DatasetError: There is no run, it has no rows, or it is damaged.
        ConfigError: pyarrow is not installed.
    """
    folder = Path(path)
    manifest = Manifest.load(folder)
    table, digest = _read(folder, (*_USED, *CLOSER_COLUMNS) if manifest.max_depth else _USED)
    if len(table) == 0:
        raise DatasetError(f"{folder} has no rows yet. Record some: speceyes record SET -o {folder}")
    p_yes, p_no = floats(table, "p_yes"), floats(table, "p_no")
    total = p_yes + p_no
    has_draft = ~nulls(table, "draft_text")
    return RecordTable(
        ids=texts(table, "id"),
        categories=texts(table, "category"),
        help_probability=np.divide(p_yes, total, out=np.full(len(table), np.nan), where=total > 0),
        answers=answers(table),
        draft_usable=has_draft & nulls(table, "draft_fault"),
        labelled=~nulls(table, "gold"),
        draft_right=flags(table, "draft_right"),
        agent_right=flags(table, "agent_right"),
        agrees=flags(table, "agrees"),
        screen_seconds=floats(table, "screen_seconds"),
        draft_seconds=floats(table, "draft_seconds"),
        agent_seconds=floats(table, "agent_seconds"),
        depth=one_array(table, "agent_depth").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64),
        bound_to=dict(manifest.bound_to),
        digest=digest,
        closer=closer_tables(table, manifest.max_depth),
    )


def read_rows(path: str | Path, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """The rows of a run as dictionaries, in the order of the data set.

    Args:
        path: The run's folder.
        columns: Names of the columns that are wanted. None: all.

    Raises:
        DatasetError: There is no run, it is damaged, or it has no such column.
    """
    folder = Path(path)
    Manifest.load(folder)
    if unknown := sorted(set(columns or ()) - set(NAMES)):
        raise DatasetError(f"A record has no column {', '.join(unknown)}. It has: {', '.join(NAMES)}.")
    wanted = list(columns or NAMES)
    table, _ = _read(folder, list(dict.fromkeys(["index", *wanted])))
    for batch in table.select(wanted).to_batches(max_chunksize=256):
        yield from batch.to_pylist()


def run_bytes(path: str | Path) -> int:
    """Size of a run's rows on the disk."""
    folder = Path(path)
    files = [part_path(folder, number) for number in part_numbers(folder)]
    files += [journal_path(folder, number) for number in journal_numbers(folder)]
    return sum(file.stat().st_size for file in files)


def _read(folder: Path, columns: Sequence[str]) -> tuple[pa.Table, str]:
    """The rows in the order of the data set, and a hash of what they were read from."""
    for left in reversed(range(_TRIES)):
        try:
            return _read_once(folder, columns)
        except FileNotFoundError:
            if left == 0:
                raise DatasetError(f"{folder} changes too fast to be read. Try again.") from None
    raise AssertionError


def _read_once(folder: Path, columns: Sequence[str]) -> tuple[pa.Table, str]:
    # Journals first: one that becomes a part in between is found again among the parts, and not the other way round.
    journals = journal_numbers(folder)
    parts = part_numbers(folder)
    digest = hashlib.sha256()
    tables = [as_table([]).select(list(columns))]
    for number in parts:
        path = part_path(folder, number)
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
        tables.append(read_part(path, columns))
    for number in sorted(set(journals) - set(parts)):
        path = journal_path(folder, number)
        data = path.read_bytes()
        rows, size = read_journal(path, data)
        digest.update(hashlib.sha256(data[:size]).digest())
        tables.append(as_table(rows).select(list(columns)))
    table = need_pyarrow().concat_tables(tables).combine_chunks()
    order = np.argsort(one_array(table, "index").to_numpy(), kind="stable")
    if (order != np.arange(len(order))).any():
        table = table.take(need_pyarrow().array(order))
    return table, f"sha256:{digest.hexdigest()}"
