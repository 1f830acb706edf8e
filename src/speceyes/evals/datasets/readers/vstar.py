"""V* Bench as a folder: `direct_attributes/` and `relative_position/`, an image and a JSON file of one stem each.

In the files the first option is always the right one, so the order that is shown is drawn: from a seed and the item's
name, and from nothing else, so that it is the same in every run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers.collecting import Collector, Fault, Found

FOLDERS: Final = ("direct_attributes", "relative_position")
_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".JPG", ".JPEG", ".PNG")


def is_vstar(folder: Path) -> bool:
    """Whether a folder looks like V* Bench."""
    return any((folder / name).is_dir() for name in FOLDERS)


def read_vstar(files: Sequence[Path], collector: Collector) -> None:
    """The questions, in the order of their stems, the categories mixed.

    Args:
        files: The folder.
        collector: Takes them.

    Raises:
        DatasetError: A file is missing or damaged, unless faults are kept.
    """
    (folder,) = files
    found = [path for name in FOLDERS for path in (folder / name).glob("*.json")]
    for path in sorted(found, key=lambda path: (path.stem, path.parent.name)):
        _collect(path, collector)


def _collect(path: Path, collector: Collector) -> None:
    try:
        about = _annotation(path)
    except DatasetError as error:
        collector.fault(Fault(str(path), str(error), "Mend the file."))
        return
    collector.note_file(path)
    category = path.parent.name
    picture = collector.picture_file(str(path), *(path.with_suffix(suffix) for suffix in _SUFFIXES))
    question, options = about["question"], tuple(about["options"])
    name = f"{category}/{path.stem}"
    collector.add(Found(str(path), name, question, picture, options, "A", category), gold_first=True)


def _annotation(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetError(f"it cannot be read ({error})") from error
    options = content.get("options") if isinstance(content, dict) else None
    if (
        not isinstance(options, list)
        or not options
        or not all(isinstance(option, str) for option in options)
        or not isinstance(content.get("question"), str)
    ):
        raise DatasetError("it needs a `question` and `options`, a list of texts, the right one first")
    return dict(content)
