"""Rows as JSON lines, one after another: the part of a run that is not in Parquet yet.

A row counts once its line is complete, with its line end. What a crash left of a line is no row: readers pass over it,
and it is cut off before the next row is appended. Only the last line can be torn, because every append is on the disk
before it returns; a bad line further up means that something else has changed the file, and is an error.

JSON has no infinity and no NaN, and servers do send them as log-probs. In the journal they stand as texts: "-inf".
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from speceyes.errors import DatasetError
from speceyes.evals.records.durable import sync_folder
from speceyes.evals.records.schema import COLUMNS, NAMES, Row

_MAY_BE_SPELLED = frozenset(column.name for column in COLUMNS if "float" in column.type or "double" in column.type)


class Journal:
    """A journal to append to. One writer at a time: the run's lock sees to that.

    Args:
        path: The file. It is made with the first row.

    Attributes:
        rows: All rows in it.

    Raises:
        DatasetError: A line before the last one is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        data = path.read_bytes() if path.exists() else b""
        self.rows, self._size = read_journal(path, data)
        if len(data) > self._size:
            with path.open("r+b", buffering=0) as file:
                _cut(file, self._size)

    def append(self, rows: Sequence[Row]) -> None:
        """Append rows. When this returns, they are on the disk; when it raises, the file is as it was.

        Raises:
            OSError: They cannot be written.
        """
        data = b"".join(map(line_of, rows))
        is_new = not self.path.exists()
        with self.path.open("ab", buffering=0) as file:
            try:
                _write(file, data)
            except OSError:
                _cut(file, self._size)
                raise
        if is_new:
            sync_folder(self.path.parent)
        self._size += len(data)
        self.rows.extend(rows)


def read_journal(path: Path, data: bytes) -> tuple[list[Row], int]:
    """The rows of a journal with this content, and the length in bytes of the lines that hold them.

    Raises:
        DatasetError: A line before the last one is damaged. The message names the path.
    """
    lines = io.BytesIO(data).readlines()
    rows: list[Row] = []
    size = 0
    for number, line in enumerate(lines, start=1):
        row = parse_line(line)
        if row is None:
            if number < len(lines):
                raise DatasetError(
                    f"{path}: line {number} of {len(lines)} is damaged, and no crash does that. Restore the file, or "
                    "remove that line: its query will be recorded again."
                )
            break
        rows.append(row)
        size += len(line)
    return rows, size


def line_of(row: Row) -> bytes:
    """A row as a line. It is ASCII, so a line end in it is the line's own."""
    plain = {name: _spelled(value) if name in _MAY_BE_SPELLED else value for name, value in row.items()}
    return json.dumps(plain, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def parse_line(line: bytes) -> Row | None:
    """The row that a line holds, or None where it is torn."""
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        return None
    return {name: _numbers(row.get(name)) if name in _MAY_BE_SPELLED else row.get(name) for name in NAMES}


def _spelled(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_spelled(one) for one in value]
    return value if value is None or math.isfinite(value) else str(float(value))


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    return float(value) if isinstance(value, str) else value


def _write(file: io.FileIO, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += file.write(data[written:])
    os.fsync(file.fileno())


def _cut(file: io.FileIO, size: int) -> None:
    file.truncate(size)
    os.fsync(file.fileno())
