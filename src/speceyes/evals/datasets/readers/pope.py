"""POPE as JSON lines: one file a split, `pope_random.json`, `coco_pope_popular.json`, ...; pictures in `images/`."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers.items import Item, file_hash
from speceyes.imaging.decode import DecodeLimits, load

IMAGES: Final = "images"
_FILES: Final = "*pope_*.json"


def is_pope(folder: Path) -> bool:
    """Whether a folder looks like POPE."""
    return any(folder.glob(_FILES))


def read_pope(folder: Path, limits: DecodeLimits) -> list[Item]:
    """The questions of all splits. A split is a category, and part of the ids, which the splits share.

    Raises:
        DatasetError: A file is missing or damaged.
    """
    hash_of = cache(file_hash)
    items = []
    for path in sorted(folder.glob(_FILES)):
        split = path.stem.rpartition("pope_")[2]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if not line.strip():
                continue
            row = _row(path, number, line)
            picture = folder / IMAGES / row["image"]
            items.append(
                Item(
                    f"{split}/{row['question_id']}",
                    row["text"],
                    partial(load, picture, limits),
                    (),
                    row["label"].strip().casefold(),
                    split,
                    hash_of(picture),
                )
            )
    return items


def _row(path: Path, number: int, line: str) -> dict[str, Any]:
    where = f"{path}, line {number}"
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DatasetError(f"{where} is not JSON: {error}.") from error
    if not isinstance(row, dict) or "question_id" not in row:
        raise DatasetError(f"{where} needs an object with `question_id`, `image`, `text` and `label`.")
    if wrong := [name for name in ("image", "text", "label") if not isinstance(row.get(name), str)]:
        raise DatasetError(f"{where} needs a text as {', '.join(wrong)}.")
    if Path(row["image"]).name != row["image"]:
        raise DatasetError(f"{where} names the image {row['image']!r}, which is not in {IMAGES}/.")
    return row
