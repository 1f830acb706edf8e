"""Generated sign scenes as a data set: `nano:N:SEED`, or `nano:N:SEED@SPLIT` from a split that is kept apart."""

from __future__ import annotations

import re
from typing import Final

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers.items import Item
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.datasets.seeds import CALIBRATION, MADE, TEST, VALIDATION

PREFIX: Final = "nano:"
SPLITS: Final = {"made": MADE, "calibration": CALIBRATION, "test": TEST, "validation": VALIDATION}
"""Training is not among them: nobody is to be measured on scenes that the nano models were trained on."""


def read_generated(name: str) -> list[Item]:
    """The questions of `nano:N:SEED[@SPLIT]`. The same name gives the same questions.

    Raises:
        DatasetError: The name is not of this form.
        InputError: As `make_samples`.
    """
    match = re.fullmatch(r"nano:(?P<count>\d+):(?P<seed>\d+)(?:@(?P<split>\w+))?", name)
    split = (match["split"] or "made") if match else ""
    if match is None or split not in SPLITS:
        raise DatasetError(
            f"{name}: write generated scenes as nano:N:SEED or nano:N:SEED@SPLIT, for example nano:200:0@calibration. "
            f"The splits are {', '.join(SPLITS)}."
        )
    return [_item(sample) for sample in make_samples(int(match["count"]), int(match["seed"]), SPLITS[split])]


def _item(sample: Sample) -> Item:
    return Item(
        sample.id,
        sample.asked.text,
        lambda: sample.image,
        sample.options,
        sample.gold,
        sample.kind.value,
        f"scene {sample.scene.seed}",
        sample.question,
    )
