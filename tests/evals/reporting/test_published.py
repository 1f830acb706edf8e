"""The published table: as it was printed, and in one place."""

from __future__ import annotations

from statistics import mean

import pytest

from speceyes.evals.published import COLUMNS, ROWS, published_row
from speceyes.evals.sweeps.published import PUBLISHED


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_means_are_those_of_the_columns(row: object) -> None:
    row = published_row(row.name)  # type: ignore[attr-defined]
    assert len(row.cells) == len(COLUMNS) == 7
    assert row.mean.accuracy == pytest.approx(mean(cell.accuracy for cell in row.cells), abs=0.02)
    speedups = [cell.speedup for cell in row.cells if cell.speedup is not None]
    if row.system == "agent":
        assert speedups == []
    else:
        assert row.mean.speedup == pytest.approx(mean(speedups), abs=0.021)


def test_single_figures() -> None:
    assert published_row("SpecEyes on DeepEyes").cell("pope/random").speedup == 2.19
    assert published_row("Thyme").cell("hrbench/8k").accuracy == 72.43
    with pytest.raises(KeyError):
        published_row("Thyme").cell("nano/all")


def test_sweeps_show_the_same_figures() -> None:
    assert [(p.name, p.accuracy, p.agent_accuracy, p.speedup) for p in PUBLISHED] == [
        ("SpecEyes on DeepEyes", 84.26, 81.39, 1.73),
        ("SpecEyes on Thyme", 83.99, 82.29, 1.42),
    ]
