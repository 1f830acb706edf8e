"""Tab-separated tables with pictures in them, read row by row: the real ones have gigabytes.

A row is held while it is looked at and not longer. What stays is where it begins, so that its picture can be read again
when it is needed. Cells may be quoted as in CSV, with line ends inside; a line without any quote, which nearly all are,
is cut at its tabs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from speceyes.errors import DatasetError, ImageError
from speceyes.evals.datasets.readers.pictures import decoded_base64
from speceyes.imaging.decode import DecodedImage, DecodeLimits, decode

LONGEST_ROW: Final = 1 << 28
"""Bytes. A longer row is a quote that was never closed, or no table."""
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row of a table.

    Attributes:
        offset: Where it begins, in bytes.
        number: From 1 for the first row below the column names, which are row 0.
        cells: UTF-8.
    """

    offset: int
    number: int
    cells: list[bytes]


def scan(table: Path, digest: Any = None, offset: int = 0) -> Iterator[RawRow]:
    """The rows of a table, the column names first; empty lines are passed over.

    Args:
        table: The file.
        digest: A hash object that is fed every byte.
        offset: Where to begin, in bytes; numbers count from there.

    Raises:
        DatasetError: The file cannot be read, or a row has no end.
    """
    number = 0
    try:
        with table.open("rb") as file:
            file.seek(offset)
            lines = _lines(file, table, digest)
            for start, line in lines:
                text = line[len(_BOM) :] if start == 0 and line.startswith(_BOM) else line
                if text.strip(b"\r\n"):
                    yield RawRow(start, number, _cells(text, lines, table))
                    number += 1
    except OSError as error:
        raise DatasetError(f"{table} cannot be read: {error.strerror or error}.") from error


def columns_of(table: Path) -> list[str]:
    """The names of a table's columns; empty for an empty file.

    Raises:
        DatasetError: As `scan`, or the names are not UTF-8.
    """
    head = next(scan(table), None)
    try:
        return [cell.decode("utf-8").strip() for cell in head.cells] if head else []
    except UnicodeDecodeError as error:
        raise DatasetError(f"{table}: its first line is not UTF-8 text ({error}). Save it as UTF-8.") from error


def picture_at(table: Path, offset: int, column: int, limits: DecodeLimits, where: str) -> DecodedImage:
    """The picture in the row at an offset.

    Raises:
        ImageError: It is damaged or no base64, or the file has changed.
    """
    try:
        data = decoded_base64(next(scan(table, offset=offset)).cells[column])
    except (StopIteration, IndexError, DatasetError, ValueError) as error:
        raise ImageError(f"{where}: its picture is not base64, or the file has changed ({error}).") from error
    return decode(data, limits, where)


def _lines(file: IO[bytes], table: Path, digest: Any) -> Iterator[tuple[int, bytes]]:
    position = file.tell()
    while line := file.readline(LONGEST_ROW + 1):
        if len(line) > LONGEST_ROW:
            raise _endless(table, position)
        if digest is not None:
            digest.update(line)
        yield position, line
        position += len(line)


def _cells(line: bytes, lines: Iterator[tuple[int, bytes]], table: Path) -> list[bytes]:
    if b'"' not in line:
        return line.rstrip(b"\r\n").split(b"\t")
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))
    try:
        cells = next(csv.reader(_texts(line, lines, table), delimiter="\t"))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DatasetError(f"{table} is damaged near {line[:40]!r}: {error}. Save it as UTF-8 again.") from error
    return [cell.encode("utf-8") for cell in cells]


def _texts(first: bytes, lines: Iterator[tuple[int, bytes]], table: Path) -> Iterator[str]:
    """As many lines as the row has; `csv` takes another one only inside a quote."""
    length = len(first)
    yield first.decode("utf-8")
    for position, line in lines:
        length += len(line)
        if length > LONGEST_ROW:
            raise _endless(table, position)
        yield line.decode("utf-8")


def _endless(table: Path, position: int) -> DatasetError:
    return DatasetError(
        f"{table}: a row near byte {position:,} has more than {LONGEST_ROW:,} bytes. Close its quote, or name a table."
    )
