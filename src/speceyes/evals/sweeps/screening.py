"""What phase I does to the drafts that reach the gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from speceyes.evals.records import RecordTable
from speceyes.evals.sweeps.measures import auroc
from speceyes.evals.sweeps.outcomes import Outcomes
from speceyes.evals.sweeps.ranking import Ranking, RightAndWrong
from speceyes.gating.answers import BoolArray


@dataclass(frozen=True, slots=True)
class Screened:
    """Phase I's effect at one screen threshold. Shares are None where there is nothing to take a share of.

    Attributes:
        threshold: The greatest help probability that is let through.
        let_through: Share of queries that are (beta in the law).
        unreadable: Queries whose screening failed or could not be read: never let through.
        right_let_through: Share of right drafts among the queries let through.
        right_stopped: Among those that are not.
        right_drafts_lost: Share of all right drafts that are stopped: what screening costs.
        wrong_drafts_stopped: Share of all wrong drafts that are stopped: what it buys.
        auroc: How well the help probability alone tells right drafts from wrong ones.
    """

    threshold: float
    let_through: float
    unreadable: int
    right_let_through: float | None
    right_stopped: float | None
    right_drafts_lost: float | None
    wrong_drafts_stopped: float | None
    auroc: float | None

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def screening_effect(table: RecordTable, outcomes: Outcomes, threshold: float) -> Screened:
    """Measure phase I on its own."""
    through = table.screened(threshold)[outcomes.rows]
    help_probability = table.help_probability[outcomes.rows]
    right = outcomes.draft_right
    # A tool that would not help speaks for the draft, so the sign is turned.
    area = float(auroc(RightAndWrong.of(Ranking.of(-help_probability), right))[0])
    return Screened(
        threshold=threshold,
        let_through=float(through.mean()),
        unreadable=int(np.isnan(help_probability).sum()),
        right_let_through=_share(right, through),
        right_stopped=_share(right, ~through),
        right_drafts_lost=_share(~through, right),
        wrong_drafts_stopped=_share(~through, ~right),
        auroc=None if np.isnan(area) else area,
    )


def _share(flags: BoolArray, among: BoolArray) -> float | None:
    return float(flags[among].mean()) if among.any() else None
