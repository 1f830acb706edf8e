"""V* Bench as a folder: `direct_attributes/` and `relative_position/`, an image and a JSON file of one stem each.

In the files the first option is always the right one. It is shown among the others in an order that depends on the
item's name and on nothing else, so that it is the same in every run.
"""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any, Final

from speceyes.errors import DatasetError
from speceyes.evals.datasets.questions import LETTERS
from speceyes.evals.datasets.readers.items import Item, file_hash
from speceyes.imaging.decode import DecodeLimits, load

FOLDERS: Final = ("direct_attributes", "relative_position")
_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".JPG", ".JPEG", ".PNG")


def is_vstar(folder: Path) -> bool:
    """Whether a folder looks like V* Bench."""
    return any((folder / name).is_dir() for name in FOLDERS)


def read_vstar(folder: Path, limits: DecodeLimits) -> list[Item]:
    """The questions, in the order of their stems, the categories mixed.

    Raises:
        DatasetError: A file is missing or damaged.
    """
    files = [path for name in FOLDERS for path in (folder / name).glob("*.json")]
    return [_item(path, limits) for path in sorted(files, key=lambda path: (path.stem, path.parent.name))]


def _item(path: Path, limits: DecodeLimits) -> Item:
    name = f"{path.parent.name}/{path.stem}"
    about = _annotation(path)
    right, options = about["options"][0], list(about["options"])
    random.Random(f"vstar-order-{name}").shuffle(options)
    picture = next((found for suffix in _SUFFIXES if (found := path.with_suffix(suffix)).is_file()), None)
    if picture is None:
        raise DatasetError(f"{path} has no image of the same name beside it.")
    gold = LETTERS[options.index(right)] if len(options) <= len(LETTERS) else None
    return Item(
        name,
        about["question"],
        partial(load, picture, limits),
        tuple(options),
        gold,
        path.parent.name,
        file_hash(picture),
    )


def _annotation(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read: {error}.") from error
    options = content.get("options") if isinstance(content, dict) else None
    if (
        not isinstance(options, list)
        or not options
        or not all(isinstance(option, str) for option in options)
        or len(set(options)) < len(options)
        or not isinstance(content.get("question"), str)
    ):
        raise DatasetError(f"{path} needs a `question` and `options`, a list of different texts, the right one first.")
    return dict(content)
