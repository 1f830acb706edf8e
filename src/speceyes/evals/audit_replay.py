"""An audit over a recorded run: what it would have seen, and done, had the run been traffic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speceyes.errors import InputError
from speceyes.evals.records.table import RecordTable
from speceyes.gating import Calibration
from speceyes.gating.audit import Audited, AuditEvent, AuditPlan, AuditState, Served, begin, is_chosen, step


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay led to.

    Attributes:
        state: The audit's state after the last query.
        events: What the audit told, each with the index of its query, from 0.
        queries: Queries of the run.
        accepted: Those that the gate accepted, at the threshold in service then.
    """

    state: AuditState
    events: tuple[tuple[int, AuditEvent], ...]
    queries: int
    accepted: int


def replay(
    table: RecordTable,
    calibration: Calibration,
    plan: AuditPlan,
    *,
    key: str = "replay",
    advance: Callable[[], None] = lambda: None,
) -> Replay:
    """Send a run's queries through gate and audit, in their order.

    Args:
        table: The run. An agent that failed gives an audit without a result.
        calibration: Names score, K, aggregate and screening; the thresholds are the plan's.
        plan: The audit. Its `share` of the accepted queries is audited.
        key: Another one draws other queries.
        advance: Is called after each query.

    Raises:
        CalibrationMismatch: The run was made with other models or prompts than the calibration.
        InputError: The plan's risk needs labels that the run has not.
        ConfigError: The record cannot be scored so.
    """
    calibration.check(**table.bound_to)
    lost, known = _losses(table, plan)
    scored = table.answers.score(calibration.score, calibration.k, calibration.aggregate).values
    scores = np.where(table.draft_usable, scored, np.nan)
    screened = table.screened(calibration.screen_threshold)
    state, told, accepted = begin(plan), [], 0
    for index, (query_id, score) in enumerate(zip(table.ids.tolist(), scores.tolist(), strict=True)):
        threshold, level, through = state.threshold, state.level, bool(screened[index])
        taken = threshold is not None and through and score >= threshold
        accepted += taken
        value = score if score == score else None  # NaN: there is no score
        seen = Served(accepted=taken, level=level, screened=through, drafted=through, score=value)
        state, events = step(state, seen)
        told += [(index, event) for event in events]
        if taken and is_chosen(query_id, plan.share, key):
            loss = bool(lost[index]) if known[index] else None
            state, events = step(state, Audited(loss=loss, level=level))
            told += [(index, event) for event in events]
        advance()
    return Replay(state, tuple(told), len(table), accepted)


def _losses(table: RecordTable, plan: AuditPlan) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each draft loses, and whether that is known. Each (N,)."""
    if plan.risk == "disagreement":
        return ~table.agrees, table.complete
    if not table.labelled.all():
        raise InputError(
            f"The risk {plan.risk} needs labels, and {int((~table.labelled).sum()):,} of the run's {len(table):,} "
            "queries have none. Audit disagreement instead."
        )
    wrong = ~table.draft_right
    return (wrong & table.agent_right if plan.risk == "excess" else wrong), table.complete
