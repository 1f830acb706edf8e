"""Parquet files with pictures in them, read in small batches, so that no column of gigabytes is ever in memory.

Pictures are read again when they are needed. A Parquet file is read forwards only: a reading head stays where the last
picture was, so that a run that takes its questions about in order reads the file once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from speceyes.errors import ConfigError, DatasetError, ImageError
from speceyes.evals.datasets.readers.pictures import cell_bytes
from speceyes.imaging.decode import DecodedImage, DecodeLimits, decode

_BATCH: Final = 4
_BUFFER: Final = 1 << 20
_KEPT_BYTES: Final = 64 << 20
"""Of pictures behind the reading head, for questions that come a little out of order."""


def need_parquet() -> Any:
    """The module pyarrow.parquet.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(
            f"the data set is a Parquet file, and pyarrow is not installed ({error}): pip install 'speceyes[evals]'"
        ) from error
    return pyarrow.parquet


def parquet_columns(path: Path) -> list[str]:
    """The names of a file's columns.

    Raises:
        ConfigError: As `need_parquet`.
        DatasetError: It is no Parquet file.
    """
    try:
        return list(need_parquet().read_schema(path).names)
    except (OSError, ValueError) as error:  # pyarrow's errors are of these kinds
        raise DatasetError(f"{path} cannot be read as Parquet: {error}.") from error


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows, with these columns.

    Raises:
        DatasetError: The file is damaged.
    """
    try:
        with _open(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH, columns=list(columns)):
                yield from batch.to_pylist()
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} is damaged: {error}. Download it again.") from error


class PictureColumn:
    """The pictures of a Parquet file, by row. Threads may share it.

    Args:
        path: The file.
        column: The column that holds them.
        limits: What they may be.
    """

    def __init__(self, path: Path, column: str, limits: DecodeLimits) -> None:
        self.path, self.column, self.limits = path, column, limits
        self._lock = threading.Lock()
        self._cells: Iterator[tuple[int, Any]] = iter(())
        self._next = 0
        self._starts: list[int] = []
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._kept_bytes = 0

    def picture(self, row: int, where: str) -> DecodedImage:
        """The picture of a row, counted from 0.

        Raises:
            ImageError: It is damaged, or the file has changed.
        """
        try:
            with self._lock:
                cell = self._cell(row)
            data = cell_bytes(cell)
        except (OSError, ValueError, StopIteration) as error:
            raise ImageError(f"{where}: its picture cannot be read, or the file has changed ({error}).") from error
        if data is None:
            raise ImageError(f"{where}: its picture is missing.")
        return decode(data, self.limits, where)

    def _cell(self, row: int) -> Any:
        if row in self._kept:
            return self._kept[row]
        if not self._starts:
            with _open(self.path) as file:
                self._starts = _group_starts(file)
        group = max(i for i, start in enumerate(self._starts) if start <= row)
        if row < self._next or self._starts[group] > self._next or self._next == 0:
            self._cells = self._from_group(group)
        while True:
            place, cell = next(self._cells)
            self._next = place + 1
            self._keep(place, cell)
            if place == row:
                return cell

    def _from_group(self, group: int) -> Iterator[tuple[int, Any]]:
        with _open(self.path) as file:
            groups = range(group, file.num_row_groups)
            place = self._starts[group]
            for batch in file.iter_batches(batch_size=_BATCH, columns=[self.column], row_groups=groups):
                for cell in batch.column(0).to_pylist():
                    yield place, cell
                    place += 1

    def _keep(self, row: int, cell: Any) -> None:
        self._kept_bytes += _length(cell) - _length(self._kept.pop(row, None))
        self._kept[row] = cell
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= _length(self._kept.popitem(last=False)[1])


def _length(cell: Any) -> int:
    found = cell.get("bytes") if isinstance(cell, dict) else cell
    return len(found) if isinstance(found, str | bytes) else 0


def _open(path: Path) -> Any:
    # With a buffer, a column chunk is read piece by piece; without, all of it is taken into memory first.
    return need_parquet().ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)


def _group_starts(file: Any) -> list[int]:
    starts, place = [], 0
    for i in range(file.num_row_groups):
        starts.append(place)
        place += file.metadata.row_group(i).num_rows
    return starts or [0]
