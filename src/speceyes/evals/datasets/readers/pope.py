"""POPE: is this object in the image, yes or no?

As JSON lines, one file a split (`pope_random.json`, `coco_pope_popular.json`, ...) with the pictures in `images/`; or
in Parquet with the columns `question_id, question, answer, category, image`. A split is a category, and part of the
ids, which the splits share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers.collecting import LEAVE_IT, Collector, Fault, Found
from speceyes.evals.datasets.readers.jsonlines import read_lines
from speceyes.evals.datasets.readers.lettered import parquet_picture
from speceyes.evals.datasets.readers.parquet import PictureColumn, parquet_columns, read_rows
from speceyes.evals.datasets.readers.pictures import Picture

IMAGES: Final = "images"
FIELDS: Final = ("image", "text", "label")
COLUMNS: Final = ("question_id", "question", "answer", "category", "image")
_PLACES: Final = (IMAGES, "val2014", ".")
_ANSWERS: Final = ("yes", "no")


def read_pope(files: Sequence[Path], collector: Collector) -> None:
    """The questions of all splits.

    Raises:
        DatasetError: A file is missing or damaged, unless faults are kept.
    """
    splits = [path.stem.rpartition("pope_")[2] for path in files]
    for path, split in zip(files, splits, strict=True):
        prefix = split if splits.count(split) == 1 else path.stem
        for place, (where, row) in enumerate(read_lines(path, FIELDS, collector)):
            image = row["image"]
            picture: Picture | Fault = (
                Fault(where, f"it names the image {image!r}, which is not in {IMAGES}/", "Name a file in there.")
                if Path(image).name != image
                else collector.picture_file(where, *(path.parent / folder / image for folder in _PLACES))
            )
            name = f"{prefix}/{row.get('question_id', place)}"
            _add(Found(where, name, row["text"], picture, (), row["label"], split), collector)


def read_pope_parquet(files: Sequence[Path], collector: Collector) -> None:
    """The same from Parquet files.

    Raises:
        DatasetError: A file is damaged or lacks a column, unless faults are kept.
    """
    for path in files:
        columns = parquet_columns(path)
        if missing := [name for name in COLUMNS if name not in columns]:
            raise DatasetError(f"{path} lacks the column {', '.join(missing)}. It has {', '.join(columns)}.")
        pictures = PictureColumn(path, "image", collector.limits)
        for number, row in enumerate(read_rows(path, COLUMNS)):
            where = f"{path}, row {number + 1}"
            picture = parquet_picture(row["image"], partial(pictures.picture, number, where), where)
            name = f"{row['category']}/{row['question_id']}"
            question, answer = str(row["question"] or ""), str(row["answer"] or "")
            _add(Found(where, name, question, picture, (), answer, str(row["category"] or "")), collector)
        collector.note_file(path)


def _add(found: Found, collector: Collector) -> None:
    label = (found.gold or "").strip().casefold()
    fault = None
    if label not in _ANSWERS:
        fault = Fault(found.where, f"its answer {found.gold!r} is neither yes nor no", f"Mend it, or {LEAVE_IT}.")
    collector.add(replace(found, gold=label, fault=fault))
