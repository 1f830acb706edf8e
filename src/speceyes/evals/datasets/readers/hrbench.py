"""HR-Bench as a table: tab-separated, one row a question and turn of its options, the picture in base64.

The real tables have gigabytes. They are read once, row by row, to find where each row begins; a picture is read from
there when it is needed.
"""

from __future__ import annotations

import base64
import binascii
import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from speceyes.errors import DatasetError, ImageError
from speceyes.evals.datasets.readers.items import Item
from speceyes.gating import fingerprint
from speceyes.imaging.decode import DecodedImage, DecodeLimits, decode

LONGEST_CELL: Final = 1 << 30
_NEEDED: Final = ("index", "question", "answer", "image")
_OPTIONS: Final = "ABCD"


def is_hrbench(folder: Path) -> bool:
    """Whether a folder looks like HR-Bench."""
    return any(folder.glob("*.tsv"))


def read_hrbench(folder: Path, limits: DecodeLimits) -> list[Item]:
    """The rows, as they stand. Where there are several tables, each id begins with its table's name.

    Raises:
        DatasetError: A table is damaged.
    """
    tables = sorted(folder.glob("*.tsv"))
    return [
        item for table in tables for item in _read_table(table, limits, f"{table.stem}/" if len(tables) > 1 else "")
    ]


def _read_table(table: Path, limits: DecodeLimits, prefix: str) -> list[Item]:
    rows = _rows(table, 0)
    _, columns = next(rows, (0, []))
    if missing := [name for name in _NEEDED if name not in columns]:
        raise DatasetError(f"{table} lacks the column {', '.join(missing)}. Its first line must name the columns.")
    items = []
    for offset, cells in rows:
        if len(cells) != len(columns):
            raise DatasetError(f"{table}: the row at byte {offset} has {len(cells)} cells, not {len(columns)}.")
        row = dict(zip(columns, cells, strict=True))
        options = tuple(row[letter] for letter in _OPTIONS if row.get(letter))
        if options and row["answer"] not in _OPTIONS[: len(options)]:
            raise DatasetError(f"{table}: row {row['index']} has the answer {row['answer']!r}, which is no option.")
        items.append(
            Item(
                prefix + row["index"],
                row["question"],
                partial(_picture, table, offset, columns.index("image"), limits),
                options,
                row["answer"],
                row.get("category", ""),
                fingerprint(row["image"]),
            )
        )
    return items


def _picture(table: Path, offset: int, column: int, limits: DecodeLimits) -> DecodedImage:
    name = f"{table}, the row at byte {offset}"
    try:
        _, cells = next(_rows(table, offset))
        data = base64.b64decode(cells[column], validate=True)
    except (StopIteration, IndexError, DatasetError, binascii.Error) as error:
        raise ImageError(f"{name}: its picture is not base64, or the file has changed ({error}).") from error
    return decode(data, limits, name)


def _rows(table: Path, offset: int) -> Iterator[tuple[int, list[str]]]:
    """(offset in bytes, cells) of each row from an offset on."""
    csv.field_size_limit(LONGEST_CELL)
    position = offset
    try:
        with table.open("rb") as file:
            file.seek(offset)

            def lines() -> Iterator[str]:
                nonlocal position
                for line in file:
                    position += len(line)
                    yield line.decode("utf-8")

            reader = csv.reader(lines(), delimiter="\t")
            while True:
                start = position
                cells = next(reader, None)
                if cells is None:
                    return
                if cells:
                    yield start, cells
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{table} is damaged near byte {position}: {error}.") from error
