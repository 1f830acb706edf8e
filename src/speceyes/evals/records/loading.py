"""Reading a run: as arrays for sweeps and calibrations, or row by row for reports.

A run may be read while it is being recorded; what counts is what was on the disk at some moment in between.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from speceyes.errors import DatasetError
from speceyes.evals.records.journal import read_journal
from speceyes.evals.records.manifest import Manifest
from speceyes.evals.records.parts import as_table, need_pyarrow, part_numbers, part_path, read_part
from speceyes.evals.records.schema import NAMES, Row
from speceyes.evals.records.table import BoolArray, FloatArray, RecordTable
from speceyes.evals.records.writer import journal_numbers, journal_path
from speceyes.gating import AnswerTable, is_repetitive

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
    table, digest = _read(folder, _USED)
    if len(table) == 0:
        raise DatasetError(f"{folder} has no rows yet. Record some: speceyes record SET -o {folder}")
    p_yes, p_no = _floats(table, "p_yes"), _floats(table, "p_no")
    total = p_yes + p_no
    has_draft = ~_nulls(table, "draft_text")
    return RecordTable(
        ids=_texts(table, "id"),
        categories=_texts(table, "category"),
        help_probability=np.divide(p_yes, total, out=np.full(len(table), np.nan), where=total > 0),
        answers=_answers(table),
        draft_usable=has_draft & _nulls(table, "draft_fault"),
        labelled=~_nulls(table, "gold"),
        draft_right=_flags(table, "draft_right"),
        agent_right=_flags(table, "agent_right"),
        agrees=_flags(table, "agrees"),
        screen_seconds=_floats(table, "screen_seconds"),
        draft_seconds=_floats(table, "draft_seconds"),
        agent_seconds=_floats(table, "agent_seconds"),
        depth=_column(table, "agent_depth").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64),
        bound_to=dict(manifest.bound_to),
        digest=digest,
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
    order = np.argsort(_column(table, "index").to_numpy(), kind="stable")
    if (order != np.arange(len(order))).any():
        table = table.take(need_pyarrow().array(order))
    return table, f"sha256:{digest.hexdigest()}"


def _answers(table: pa.Table) -> AnswerTable:
    """The drafts' tokens, with the same values that `AnswerTable.of` makes of them."""
    tokens = _column(table, "tokens").to_pylist()
    texts = ["".join(answer or ()) for answer in tokens]
    loops = {text: is_repetitive(text) for text in set(texts)}
    lists = _column(table, "top_logprobs").flatten()
    given = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.full((len(given), int(given.max(initial=0))), np.nan)
    values = lists.flatten().to_numpy(zero_copy_only=False)
    rows[np.arange(rows.shape[1]) < given[:, None]] = values
    sampled = _column(table, "logprobs").flatten().to_numpy(zero_copy_only=False)
    answers = AnswerTable.from_arrays(rows, [len(answer or ()) for answer in tokens], sampled)
    return dataclasses.replace(
        answers,
        given=given,
        blank=np.array([not text.strip() for text in texts], dtype=np.bool_),
        repetitive=np.array([loops[text] for text in texts], dtype=np.bool_),
    )


def _column(table: pa.Table, name: str) -> Any:
    """A column as one Arrow array."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _nulls(table: pa.Table, name: str) -> BoolArray:
    found: BoolArray = _column(table, name).is_null().to_numpy(zero_copy_only=False)
    return found


def _floats(table: pa.Table, name: str) -> FloatArray:
    found: FloatArray = _column(table, name).to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def _flags(table: pa.Table, name: str) -> BoolArray:
    found: BoolArray = _column(table, name).fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def _texts(table: pa.Table, name: str) -> NDArray[np.str_]:
    return np.array(_column(table, name).to_pylist(), dtype=np.str_)
