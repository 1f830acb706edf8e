"""Rows of tables whose options stand in columns A, B, C, ...: HR-Bench's, and those that VLMEvalKit reads.

Columns: `index`, `question`, the options, `answer` (a letter), and optionally `hint` and `category`. The picture is in
`image`: base64, or the index of another row whose picture it shares; or `image_path` names a file below the table's
folder. A row without options is an open question, whose answer is a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers.collecting import LEAVE_IT, Collector, Fault, Found
from speceyes.evals.datasets.readers.parquet import PictureColumn, parquet_columns, read_rows
from speceyes.evals.datasets.readers.pictures import Picture, below, cell_bytes, decoded_base64, hash_of
from speceyes.evals.datasets.readers.tables import RawRow, columns_of, picture_at, scan
from speceyes.gating.agreement import LETTERS

IMAGE: Final = "image"
PATH: Final = "image_path"
NEEDED: Final = ("index", "question")
LONGEST_REFERENCE: Final = 64
"""Characters. A shorter cell than this is no picture, but another row's index (VLMEvalKit's rule)."""


@dataclass(frozen=True, slots=True)
class Line:
    """A row without its picture's bytes.

    Attributes:
        where: File and row.
        texts: By column.
        picture: The picture, what is wrong with it, or the index of the row whose picture it is.
    """

    where: str
    texts: Mapping[str, str]
    picture: Picture | Fault | str


@dataclass(slots=True)
class Turns:
    """Finds the rows that are turns of one question: the same question, picture and options in another order.

    Where a question comes again in an order that was there before, another group begins.
    """

    _seen: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _names: dict[tuple[int, tuple[str, ...]], str] = field(default_factory=dict)

    def group(self, name: str, question: str, picture: str, options: Sequence[str]) -> str:
        """The group of a row: the id of its first."""
        key = (question, picture)
        self._seen[(*key, *options)] += 1
        round_ = self._seen[(*key, *options)]
        return self._names.setdefault((round_, (*key, *sorted(options))), name)


def collect_lines(lines: Iterable[Line], collector: Collector, prefix: str, *, turns: bool) -> None:
    """Hand the rows of one table to the collector.

    Args:
        lines: The rows.
        collector: Takes them.
        prefix: Of ids, where several tables are read.
        turns: Whether rows are turns of a question that are to be grouped, and every row must have its answer.

    Raises:
        DatasetError: As `Collector.add`.
    """
    rows = list(lines)
    pictures = {line.texts["index"]: line.picture for line in rows}
    groups = Turns()
    for line in rows:
        picture = _resolved(line, pictures)
        options = _options(line.texts)
        question, name = line.texts["question"], prefix + line.texts["index"]
        if hint := line.texts.get("hint", "").strip():
            question = f"Hint: {hint}\n{question}"
        group = ""
        if turns and not isinstance(picture, Fault):
            group = groups.group(name, question, picture.name, options)
        gold = line.texts.get("answer", "").strip() or None
        fault = None
        if turns and (gold is None or not options):
            fault = Fault(line.where, "it lacks its answer or its options", f"Mend it, or {LEAVE_IT}.")
        category = line.texts.get("category", "")
        collector.add(Found(line.where, name, question, picture, options, gold, category, group=group, fault=fault))


def table_lines(table: Path, collector: Collector) -> Iterator[Line]:
    """The rows of a tab-separated table.

    Raises:
        DatasetError: A column is missing or a row is damaged, unless faults are kept.
    """
    columns = columns_of(table)
    _check_columns(table, columns)
    digest = sha256()
    rows = scan(table, digest)
    next(rows)
    for row in rows:
        where = f"{table}, row {row.number}"
        if len(row.cells) != len(columns):
            what = f"it has {len(row.cells)} cells, not {len(columns)}"
            collector.fault(Fault(where, what, "Write the table again with every column, parted by tabs."))
            continue
        try:
            texts = {name: cell.decode("utf-8") for name, cell in zip(columns, row.cells, strict=True) if name != IMAGE}
        except UnicodeDecodeError as error:
            collector.fault(Fault(where, f"it is not UTF-8 text ({error})", "Save the table as UTF-8."))
            continue
        where = f"{where} (index {texts['index']})"
        yield Line(where, texts, _table_picture(table, columns, row, texts, where, collector))
    collector.note_file(table, f"sha256:{digest.hexdigest()}")


def parquet_lines(path: Path, collector: Collector) -> Iterator[Line]:
    """The rows of the same columns in a Parquet file.

    Raises:
        DatasetError: A column is missing, or the file is damaged.
    """
    columns = parquet_columns(path)
    _check_columns(path, [name for name in columns if name != PATH])
    pictures = PictureColumn(path, IMAGE, collector.limits)
    wanted = [name for name in columns if name in ("index", "question", "answer", "category", "hint", IMAGE, *LETTERS)]
    for number, row in enumerate(read_rows(path, wanted)):
        cell = row.pop(IMAGE, None)
        texts = {name: "" if value is None else str(value) for name, value in row.items()}
        where = f"{path}, row {number + 1} (index {texts['index']})"
        yield Line(where, texts, parquet_picture(cell, partial(pictures.picture, number, where), where))
    collector.note_file(path)


def parquet_picture(cell: Any, load: Any, where: str) -> Picture | Fault:
    """A picture whose bytes stand in a Parquet cell."""
    try:
        data = cell_bytes(cell)
    except ValueError as error:
        return Fault(where, f"its image is {error}", "Write the file again with the picture's bytes.")
    return Picture(hash_of(data), load) if data else Fault(where, "its image is missing", "Put its bytes there.")


def id_prefix(file: Path, files: Sequence[Path]) -> str:
    """What ids begin with, so that those of several files differ; empty for a single one."""
    return f"{file.stem}/" if len(files) > 1 else ""


def _check_columns(path: Path, columns: Sequence[str]) -> None:
    missing = [name for name in NEEDED if name not in columns]
    if IMAGE not in columns and PATH not in columns:
        missing.append(IMAGE)
    if missing:
        raise DatasetError(f"{path} lacks the column {', '.join(missing)}. It has {', '.join(columns) or 'none'}.")


def _table_picture(
    table: Path, columns: Sequence[str], row: RawRow, texts: Mapping[str, str], where: str, collector: Collector
) -> Picture | Fault | str:
    column = columns.index(IMAGE) if IMAGE in columns else -1
    cell = row.cells[column].strip() if column >= 0 else b""
    if cell.startswith(b"["):
        return Fault(where, "it has several images", "Only questions about one image can be asked: take it out.")
    if len(cell) > LONGEST_REFERENCE:
        try:
            name = hash_of(decoded_base64(cell))
        except ValueError:
            name = hash_of(cell)  # its picture is damaged, which shows when it is looked at
        return Picture(name, partial(picture_at, table, row.offset, column, collector.limits, where))
    if cell:
        return cell.decode("utf-8", "replace")
    if not (named := texts.get(PATH, "").strip()):
        return Fault(where, "its image is missing", "Put base64, another row's index or an image_path there.")
    places = [below(table.parent, named), below(table.parent / "images", named)]
    if not all(places):
        return Fault(where, f"its image {named!r} is not below {table.parent}", "Put it there and name it from there.")
    return collector.picture_file(where, *(place for place in places if place))


def _resolved(line: Line, pictures: Mapping[str, Picture | Fault | str]) -> Picture | Fault:
    if not isinstance(line.picture, str):
        return line.picture
    found = pictures.get(line.picture)
    if isinstance(found, Picture):
        return found
    what = f"its image says {line.picture!r}, which is neither base64 nor the index of a row with a picture"
    return Fault(line.where, what, "Put one of them there.")


def _options(texts: Mapping[str, str]) -> tuple[str, ...]:
    """Up to the last option that is there: an empty one between others is a fault, and must keep its letter."""
    found = [texts.get(letter, "") for letter in LETTERS]
    last = max((i for i, option in enumerate(found) if option.strip()), default=-1)
    return tuple(found[: last + 1])
