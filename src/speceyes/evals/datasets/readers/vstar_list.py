"""V* Bench as a list, where options stand in the question's text and a letter says which is right.

    {"image": "direct_attributes/sa_1.jpg", "text": "What colour is it?\\n(A) red\\n(B) blue\\nAnswer with ...",
     "category": "direct_attributes", "label": "B", "question_id": "0"}

One object a line (`test_questions.jsonl`), or the same columns in Parquet with the picture's bytes in `image`. The
letters are shuffled already. The question and its options are taken out of the text and asked as in every other form.
The sentence below them, which tells a model to answer at once, is not: the phases have their own words for that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers.collecting import LEAVE_IT, Collector, Fault, Found
from speceyes.evals.datasets.readers.jsonlines import read_lines
from speceyes.evals.datasets.readers.lettered import id_prefix, parquet_picture
from speceyes.evals.datasets.readers.parquet import PictureColumn, parquet_columns, read_rows
from speceyes.evals.datasets.readers.pictures import Picture, below
from speceyes.gating.agreement import LETTERS

FIELDS: Final = ("image", "text", "label")
_LINE: Final = re.compile(
    r"^[ \t]*(?:\((?P<bracketed>[A-Z])\)|(?P<letter>[A-Z])[.):])[ \t]*(?P<text>\S.*?)[ \t\r]*$", re.MULTILINE
)
_INLINE: Final = re.compile(r"\(([A-Z])\)")


def read_vstar_list(files: Sequence[Path], collector: Collector) -> None:
    """The questions of JSON-lines lists; images are named from the list's folder.

    Raises:
        DatasetError: A line is damaged or its image is missing, unless faults are kept.
    """
    for path in files:
        for place, (where, row) in enumerate(read_lines(path, FIELDS, collector)):
            image = below(path.parent, row["image"])
            picture: Picture | Fault = (
                Fault(where, f"its image {row['image']!r} is not below {path.parent}", "Name it from there.")
                if image is None
                else collector.picture_file(where, image)
            )
            name = id_prefix(path, files) + str(row.get("question_id", place))
            _add(where, name, row["text"], row["label"], str(row.get("category") or ""), picture, collector)


def read_vstar_parquet(files: Sequence[Path], collector: Collector) -> None:
    """The same from Parquet files.

    Raises:
        DatasetError: A file is damaged or lacks a column.
    """
    row_count = 0
    for path in files:
        columns = parquet_columns(path)
        if missing := [name for name in FIELDS if name not in columns]:
            raise DatasetError(f"{path} lacks the column {', '.join(missing)}. It has {', '.join(columns)}.")
        pictures = PictureColumn(path, "image", collector.limits)
        wanted = [name for name in (*FIELDS, "category", "question_id") if name in columns]
        for number, row in enumerate(read_rows(path, wanted)):
            where = f"{path}, row {number + 1}"
            picture = parquet_picture(row["image"], partial(pictures.picture, number, where), where)
            name = row.get("question_id", row_count)
            category = str(row.get("category") or "")
            _add(where, str(name), row["text"] or "", row["label"] or "", category, picture, collector)
            row_count += 1
        collector.note_file(path)


def split_text(text: str) -> tuple[str, tuple[str, ...]]:
    """The question alone, and its options: one a line, or one after another as "(A) red (B) blue"; () for none.

    Letters go on from A. Where several such lists stand in the text, the last one counts.
    """
    found: list[re.Match[str]] = []
    for line in _LINE.finditer(text):
        letter = line["bracketed"] or line["letter"]
        if letter == "A":
            found = []
        if letter == LETTERS[len(found) : len(found) + 1]:
            found.append(line)
    if len(found) > 1:
        return text[: found[0].start()].strip(), tuple(line["text"] for line in found)
    marks = list(_INLINE.finditer(text))
    if len(marks) < 2 or "".join(mark[1] for mark in marks) != LETTERS[: len(marks)]:
        return text.strip(), ()
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    parts = (text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True))
    return text[: marks[0].start()].strip(), tuple(part.partition("\n")[0].rstrip() for part in parts)


def _add(
    where: str, name: str, text: str, label: str, category: str, picture: Picture | Fault, collector: Collector
) -> None:
    question, options = split_text(text)
    fault = None if options else Fault(where, "its text holds no options", f"Write them as lines, or {LEAVE_IT}.")
    gold = label.strip().strip("().").upper()
    collector.add(Found(where, name, question, picture, options, gold, category, fault=fault))
