"""Who is right: judged by the labels, or, where there are none, by the agent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from speceyes.errors import InputError
from speceyes.evals.records import RecordTable
from speceyes.gating.answers import BoolArray
from speceyes.gating.separability import IntArray


class Against(StrEnum):
    """What answers are judged against."""

    LABELS = "labels"
    """The right answers. Records without one are left out."""
    AGENT = "agent"
    """The agent's own answers: "right" then means "says what the agent says"."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """M of a run's N records, and who was right in each: those that a calibration rests on, too.

    Attributes:
        against: What "right" means.
        rows: Which records these are. Shape (M,).
        draft_right: Shape (M,). Judged against the agent: the draft agrees with it.
        agent_right: Shape (M,). Judged against the agent: true everywhere.
        usable: False where the draft is at fault (cut off, say); the gate never accepts these. Shape (M,).
        incomplete: Records left out since a phase failed or did not run: draft and agent cannot be compared there.
        unlabelled: Records left out since nobody knows the right answer.
    """

    against: Against
    rows: IntArray
    draft_right: BoolArray
    agent_right: BoolArray
    usable: BoolArray
    incomplete: int
    unlabelled: int

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, table: RecordTable, against: Against | None = None) -> Outcomes:
        """Judge a run.

        Args:
            table: The run.
            against: None takes the labels where there are any, else the agent.

        Raises:
            InputError: No record can be judged.
        """
        if not len(table):
            raise InputError("The run holds no records, so there is nothing to sweep. Record some samples first.")
        chosen = against or (Against.LABELS if table.labelled.any() else Against.AGENT)
        by_labels = chosen is Against.LABELS
        complete = table.complete
        if not complete.any():
            raise InputError(
                f"In none of the run's {len(table)} records did screen, draft and agent all run, so there is nothing "
                "to compare. Look for errors in the record, and record again."
            )
        judged = complete & table.labelled if by_labels else complete
        rows = np.flatnonzero(judged)
        if not rows.size:
            raise InputError(
                f"None of the run's {int(complete.sum())} complete records has a label. Judge them against the agent."
            )
        return cls(
            against=chosen,
            rows=rows,
            draft_right=(table.draft_right if by_labels else table.agrees)[rows],
            agent_right=table.agent_right[rows] if by_labels else np.ones(rows.shape, dtype=np.bool_),
            usable=table.draft_usable[rows],
            incomplete=int((~complete).sum()),
            unlabelled=int(complete.sum()) - rows.size,
        )
