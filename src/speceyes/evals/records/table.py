"""A recorded run as arrays: what sweeps and calibrations compute on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from speceyes.gating import AnswerTable

DRAFT_FAULT: Final = "draft_fault"
"""Why a draft has no score: it was cut off, or its log-probs do not spell its text."""
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class CloserTable:
    """What the draft model said to N queries after one more look of its own: the drafts of one depth.

    Attributes:
        answers: Their tokens; no tokens where there is no draft.
        known: Whether it is known what the draft model says at this depth, and be it nothing. False where a server
            failed at this depth or before it. (N,).
        looked: Whether it named a part of the images and was shown it. (N,).
        usable: Whether there is a draft, without a fault of its own. (N,).
        right: Whether it is right; False where not labelled. (N,).
        agrees: Whether draft and agent state the same answer. (N,).
        seconds: Wall time of this look and the answer after it, also of a look that came to nothing; NaN where there
            was none. (N,).
    """

    answers: AnswerTable
    known: BoolArray
    looked: BoolArray
    usable: BoolArray
    right: BoolArray
    agrees: BoolArray
    seconds: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class RecordTable:
    """N recorded queries, in the order of the data set.

    Attributes:
        ids: Name of each query. (N,) of str.
        categories: What kind of question each is, "" where the data set has no kinds. (N,) of str.
        help_probability: Phase I's estimate that a tool would help, NaN where it was unreadable or failed. (N,).
        answers: The drafts' answer tokens with their log-probs; K is at most `answers.logprobs.shape[1]`.
        draft_usable: False where the draft failed or has a fault of its own (truncated, misaligned). (N,).
        labelled: Whether the right answer is known. (N,).
        draft_right: Whether the draft is right; False where not labelled. (N,).
        agent_right: Whether the agent is right; False where not labelled. (N,).
        agrees: Whether draft and agent state the same answer. (N,).
        screen_seconds: Wall time of phase I. (N,). So `draft_seconds` and `agent_seconds`, NaN where a phase failed.
        draft_seconds: Of phase II.
        agent_seconds: Of phase IV, the whole loop.
        depth: Tool calls of the agent's run. (N,) of int.
        bound_to: What the run was made with, under the names of `speceyes.gating.calibration.BOUND_FIELDS` (models,
            prompts, log-prob mode): a calibration made of it is bound to the same.
        digest: `sha256:...` of the records, for `Calibration.data`.
        closer: The drafts of depth 1, 2, ...: as many as the run was recorded with.
    """

    ids: NDArray[np.str_]
    categories: NDArray[np.str_]
    help_probability: FloatArray
    answers: AnswerTable
    draft_usable: BoolArray
    labelled: BoolArray
    draft_right: BoolArray
    agent_right: BoolArray
    agrees: BoolArray
    screen_seconds: FloatArray
    draft_seconds: FloatArray
    agent_seconds: FloatArray
    depth: NDArray[np.int64]
    bound_to: Mapping[str, str]
    digest: str
    closer: tuple[CloserTable, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def complete(self) -> BoolArray:
        """Queries of which all three phases ran: only these say how draft and agent compare. (N,)."""
        ran: BoolArray = ~np.isnan(self.screen_seconds + self.draft_seconds + self.agent_seconds)
        return ran

    def complete_to(self, depth: int) -> BoolArray:
        """Complete queries of which it is also known what the draft model says after so many closer looks. (N,)."""
        complete = self.complete
        for closer in self.closer[:depth]:
            complete = complete & closer.known
        return complete

    def screened(self, screen_threshold: float) -> BoolArray:
        """Queries that phase I lets through: readable, and at most this likely to need a tool. (N,)."""
        # NaN compares false: what could not be read is not let through
        passes: BoolArray = self.help_probability <= screen_threshold
        return passes
