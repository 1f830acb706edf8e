"""Readers: from a name on the command line to questions.

- `nano:N:SEED`: N generated scenes. `nano:N:SEED@calibration` and `@test` take them from the splits that are kept apart
  (`datasets/seeds.py`).
- A folder: benchmark files, whose kind shows from their names. `speceyes data make` writes such folders.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers.generated import PREFIX, read_generated
from speceyes.evals.datasets.readers.hrbench import is_hrbench, read_hrbench
from speceyes.evals.datasets.readers.items import Dataset, Item
from speceyes.evals.datasets.readers.pope import is_pope, read_pope
from speceyes.evals.datasets.readers.vstar import is_vstar, read_vstar
from speceyes.imaging.decode import DEFAULT_LIMITS, DecodeLimits

__all__ = ["Dataset", "Item", "open_dataset"]

_READERS: tuple[tuple[str, Callable[[Path], bool], Callable[[Path, DecodeLimits], list[Item]]], ...] = (
    ("vstar", is_vstar, read_vstar),
    ("hrbench", is_hrbench, read_hrbench),
    ("pope", is_pope, read_pope),
)


def open_dataset(name: str, limits: DecodeLimits = DEFAULT_LIMITS) -> Dataset:
    """The data set of a name. Its files are read once, to hash them; pictures are decoded when they are needed.

    Args:
        name: A folder, or `nano:N:SEED`.
        limits: What pictures may be.

    Raises:
        DatasetError: There is no such folder, it holds no known format, or a file is damaged.
        InputError: A generated set's count or seed is out of range.
    """
    if name.startswith(PREFIX):
        return Dataset(name, "nano", read_generated(name))
    folder = Path(name)
    if not folder.is_dir():
        raise DatasetError(f"{name}: there is no such folder. Name one, or generated scenes as nano:N:SEED.")
    for kind, is_it, read in _READERS:
        if is_it(folder):
            return Dataset(name, kind, read(folder, limits))
    raise DatasetError(
        f"{name} holds no benchmark files that are known: V* (direct_attributes/, relative_position/), HR-Bench "
        "(*.tsv) or POPE (*pope_*.json)."
    )
