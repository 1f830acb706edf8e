"""Readers: from a name on the command line to questions.

- `nano:N:SEED`: N generated scenes. `nano:N:SEED@calibration` and `@test` take them from the splits that are kept apart
  (`datasets/seeds.py`).
- A folder or a file of a benchmark, whose form shows from names and columns. `speceyes data make` writes such folders.
- `FORM:PATH`, where that is not clear: `hrbench:bench/`.
"""

from __future__ import annotations

from speceyes.evals.datasets.readers.items import Dataset, Item
from speceyes.evals.datasets.readers.opening import Checked, check_dataset, open_dataset

__all__ = ["Checked", "Dataset", "Item", "check_dataset", "open_dataset"]
