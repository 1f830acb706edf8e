"""Which records a calibration may rest on, how sure their drafts were, and what accepting each would have cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speceyes.errors import InputError
from speceyes.evals.records import DRAFT_FAULT, CloserTable, RecordTable
from speceyes.gating import find_score
from speceyes.gating.certify import Limit, Outcomes, losses_of
from speceyes.types import Reason

BoolArray = NDArray[np.bool_]

MOST_K = 64
"""Log-probs that the score uses where nobody says, if so many were recorded."""


@dataclass(frozen=True, slots=True)
class GateSetting:
    """All of a gate but its threshold. ConfigError where there is no such score, or K is too small for it."""

    score: str = "separability"
    k: int = MOST_K
    aggregate: str = "min"
    screen_threshold: float = 0.5

    def __post_init__(self) -> None:
        chosen = find_score(self.score, self.aggregate)
        if self.k < chosen.min_k:
            raise InputError(f"The score {self.score!r} needs k >= {chosen.min_k}; this says {self.k}.")
        if not 0.0 <= self.screen_threshold <= 1.0:
            raise InputError(f"The screening's threshold is {self.screen_threshold}; it must lie between 0 and 1.")


@dataclass(frozen=True, slots=True)
class Coverage:
    """What became of the recorded queries.

    Attributes:
        recorded: All.
        incomplete: Left out, since a phase failed or did not run: nobody knows how draft and agent compare.
        unlabelled: Left out, since the right answer is not known and some risk asks for it.
        kept_back: Of those used, kept from the first draft by screening.
        unscored: Of those that screening let through, without confidence, by reason.
        unscored_closer: The same after each closer look, of all that are used: screening keeps none from it. Those of
            which an earlier look came to nothing are not counted again.
    """

    recorded: int
    incomplete: int
    unlabelled: int
    kept_back: int
    unscored: Mapping[str, int]
    unscored_closer: tuple[Mapping[str, int], ...] = ()

    @property
    def used(self) -> int:
        return self.recorded - self.incomplete - self.unlabelled


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """N queries that a calibration may rest on.

    Attributes:
        outcomes: Scores and losses, those after closer looks too. N queries, a row of losses for each limit.
        screened: Whether screening lets each through. (N,).
        categories: What kind of question each is. (N,) of str.
        coverage: What became of the others.
    """

    outcomes: Outcomes
    screened: BoolArray
    categories: NDArray[np.str_]
    coverage: Coverage


def collect(table: RecordTable, gate: GateSetting, limits: Sequence[Limit], max_depth: int = 0) -> Evidence:
    """Score the recorded drafts as the gate would, and count what accepting them would have cost.

    Args:
        table: The recorded run.
        gate: All of the gate but its threshold.
        limits: The risks.
        max_depth: How often the draft model may look closer by itself.

    Raises:
        InputError: Fewer log-probs or closer looks were recorded than are asked for, or no record is left.
    """
    if not 0 <= max_depth <= len(table.closer):
        raise InputError(_not_so_deep(max_depth, len(table.closer)))
    width = table.answers.logprobs.shape[1]
    if gate.k > width:
        raise InputError(
            f"The score is to use {gate.k} log-probs of each token, but {width} were recorded. "
            f"Use k = {width} or less, or record with more."
        )
    complete = table.complete_to(max_depth)
    labels = any(limit.risk.needs_labels for limit in limits)
    used = complete & table.labelled if labels else complete
    if not used.any():
        raise InputError(_nothing_left(len(table), complete))
    scored = table.answers.score(gate.score, gate.k, gate.aggregate)
    screened = table.screened(gate.screen_threshold)
    fit = screened & table.draft_usable & ~np.isnan(scored.values)
    silent = used & screened & ~fit
    reasons = np.where(table.draft_usable, scored.reasons, DRAFT_FAULT)[silent]
    deeper = [_after_look(table, closer, gate, limits, used) for closer in table.closer[:max_depth]]
    return Evidence(
        outcomes=Outcomes(
            np.where(fit, scored.values, np.nan)[used],
            _losses(limits, table, table.draft_right, table.agrees, used),
            tuple(outcomes for outcomes, _ in deeper),
        ),
        screened=screened[used],
        categories=table.categories[used],
        coverage=Coverage(
            recorded=len(table),
            incomplete=int((~complete).sum()),
            unlabelled=int((complete & ~used).sum()),
            kept_back=int((used & ~screened).sum()),
            unscored=_counted(reasons),
            unscored_closer=tuple(counts for _, counts in deeper),
        ),
    )


def _after_look(
    table: RecordTable, closer: CloserTable, gate: GateSetting, limits: Sequence[Limit], used: BoolArray
) -> tuple[Outcomes, Mapping[str, int]]:
    """Scores and losses after one more look, and why there is no score. Whatever screening said has no say here."""
    scored = closer.answers.score(gate.score, gate.k, gate.aggregate)
    fit = closer.usable & ~np.isnan(scored.values)
    outcomes = Outcomes(
        np.where(fit, scored.values, np.nan)[used], _losses(limits, table, closer.right, closer.agrees, used)
    )
    why = np.where(closer.looked, np.where(closer.usable, scored.reasons, DRAFT_FAULT), Reason.LOOK_FAILED.value)
    tried = ~np.isnan(closer.seconds)
    return outcomes, _counted(why[used & tried & ~fit])


def _losses(
    limits: Sequence[Limit], table: RecordTable, draft_right: BoolArray, agrees: BoolArray, used: BoolArray
) -> BoolArray:
    """A row for each limit. (R, N)."""
    lost = [
        losses_of(limit.risk, draft_right=draft_right, agent_right=table.agent_right, agrees=agrees)[used]
        for limit in limits
    ]
    return np.array(lost, dtype=np.bool_)


def _counted(reasons: NDArray[np.object_]) -> dict[str, int]:
    return dict(Counter(str(reason) for reason in reasons).most_common())


def _not_so_deep(asked: int, recorded: int) -> str:
    if asked < 0:
        return f"The depth is {asked}; it must be 0 or more."
    there = f"with {recorded} of them at most" if recorded else "without any"
    return (
        f"The promise is to be about {asked} closer looks of the draft model, and the run was recorded {there}. "
        f"Calibrate with --max-depth {recorded}, or record with --max-depth {asked}."
    )


def _nothing_left(recorded: int, complete: BoolArray) -> str:
    if not complete.any():
        return f"In none of the {recorded} records did screen, draft and agent all run. Record with `speceyes record`."
    return (
        "None of the complete records has a right answer to compare with. Calibrate for the risk `disagreement`, which "
        "needs none, or record a data set with labels."
    )
