"""The published table, to stand beside ours. None of it was measured here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

SOURCE: Final = "the SpecEyes paper"
CONDITIONS: Final = (
    "measured by the paper's authors on other machines and models, with the minimum over tokens, K = 64, and "
    "thresholds chosen for each benchmark"
)

COLUMNS: Final[Mapping[str, str]] = {
    "vstar/direct_attributes": "V* attributes",
    "vstar/relative_position": "V* positions",
    "hrbench/4k": "HR-Bench 4K",
    "hrbench/8k": "HR-Bench 8K",
    "pope/adversarial": "POPE adversarial",
    "pope/popular": "POPE popular",
    "pope/random": "POPE random",
}
"""Its columns, in order: the benchmark's format and the part of it, and the name that people read."""


@dataclass(frozen=True, slots=True)
class PublishedCell:
    """One system on one benchmark.

    Attributes:
        accuracy: In percent.
        speedup: Over the agent's own loop; None where the table gives none, which is the agent itself.
    """

    accuracy: float
    speedup: float | None = None


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One system of the published table.

    Attributes:
        name: As the table has it.
        system: What it is called here: agent, draft, specreason or speceyes.
        agent: Whose loop it speeds up.
        cells: In the order of `COLUMNS`.
        mean: The unweighted mean over the columns, as published.
    """

    name: str
    system: str
    agent: str
    cells: tuple[PublishedCell, ...]
    mean: PublishedCell

    def cell(self, column: str) -> PublishedCell:
        """The figures of a column. KeyError where the table has no such column."""
        return dict(zip(COLUMNS, self.cells, strict=True))[column]

    def as_json(self) -> dict[str, Any]:
        cells = {name: asdict(cell) for name, cell in zip(COLUMNS, self.cells, strict=True)}
        named = {"name": self.name, "system": self.system, "agent": self.agent}
        return {**named, "cells": cells, "mean": asdict(self.mean)}


def _row(
    name: str,
    system: str,
    agent: str,
    accuracies: tuple[float, ...],
    speedups: tuple[float, ...] | None,
    mean: tuple[float, float],
) -> PublishedRow:
    given = speedups or (None,) * len(accuracies)
    cells = tuple(PublishedCell(accuracy, speedup) for accuracy, speedup in zip(accuracies, given, strict=True))
    return PublishedRow(name, system, agent, cells, PublishedCell(*mean))


ROWS: Final = (
    _row(
        "Qwen3-VL-2B alone", "draft", "DeepEyes",
        (77.39, 82.89, 71.38, 68.00, 82.56, 83.80, 86.47),
        (5.44, 5.31, 3.20, 2.90, 4.20, 3.78, 4.07),
        (78.93, 4.13),
    ),
    _row(
        "DeepEyes", "agent", "DeepEyes",
        (90.43, 82.89, 75.85, 71.43, 78.43, 81.90, 88.83), None,
        (81.39, 1.0),
    ),
    _row(
        "SpecReason on DeepEyes", "specreason", "DeepEyes",
        (80.19, 73.91, 80.43, 72.54, 49.10, 51.55, 60.20),
        (0.61, 0.38, 0.44, 0.42, 0.38, 0.38, 0.37),
        (66.85, 0.43),
    ),
    _row(
        "SpecEyes on DeepEyes", "speceyes", "DeepEyes",
        (90.43, 89.47, 75.85, 71.80, 85.13, 87.00, 90.13),
        (1.53, 1.90, 1.13, 1.08, 2.13, 2.15, 2.19),
        (84.26, 1.73),
    ),
    _row(
        "Thyme", "agent", "Thyme",
        (86.96, 82.89, 77.72, 72.43, 81.32, 84.53, 90.17), None,
        (82.29, 1.0),
    ),
    _row(
        "SpecReason on Thyme", "specreason", "Thyme",
        (89.57, 75.00, 80.01, 81.02, 84.62, 85.97, 90.27),
        (0.48, 0.53, 0.52, 0.51, 0.46, 0.43, 0.46),
        (83.78, 0.48),
    ),
    _row(
        "SpecEyes on Thyme", "speceyes", "Thyme",
        (87.83, 82.89, 78.47, 73.31, 85.87, 88.30, 91.27),
        (1.32, 1.42, 1.01, 0.95, 1.77, 1.78, 1.70),
        (83.99, 1.42),
    ),
)  # fmt: skip


def published_row(name: str) -> PublishedRow:
    """The row of a name. KeyError where there is none."""
    return {row.name: row for row in ROWS}[name]
