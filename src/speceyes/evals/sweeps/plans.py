"""What a plan costs: the order in which the phases run, and the time that each query then takes.

A draft is accepted only if phase I lets the query through *and* phase III passes the draft, so the order of the two
is free. For one query with phase times s (screen), d (draft) and a (agent), and L where phase I lets it through:

    plan         gate passes, L     gate passes, not L    gate refuses, L    gate refuses, not L
    paper        s + d              s + a                 s + d + a          s + a
    draft-first  d + s              d + s + a             d + a              d + a
    parallel     max(s, d)          s + a                 d + a              min(s, d) + a
    hedged       min(max(s, d), a)  a                     a                  a
    no-screen    d                  d                     d + a              d + a

`parallel` runs I beside II and turns to the agent at the first refusal; `hedged` starts the agent beside both and
cancels it on accept. Where the agent of `hedged` is done first, its answer counts and not the draft's. The gate's own
time is nil. Latency is what the user waits; *work* is the sum of seconds that all model calls ran until they ended or
were cancelled: it is what a loaded server pays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from speceyes.gating.answers import BoolArray
from speceyes.gating.separability import FloatArray
from speceyes.scheduling import Plan


@dataclass(frozen=True, slots=True, eq=False)
class PlanTimes:
    """What each of M queries takes under a plan, for either decision of the gate. All of shape (M,).

    Attributes:
        passed: Seconds that the user waits where the gate passes the draft.
        refused: Where it does not.
        passed_work: Seconds of model time, where the gate passes the draft.
        refused_work: Where it does not.
        eligible: Where passing the gate makes the draft the answer.
    """

    passed: FloatArray
    refused: FloatArray
    passed_work: FloatArray
    refused_work: FloatArray
    eligible: BoolArray


def plan_times(
    plan: Plan, screen: FloatArray, draft: FloatArray, agent: FloatArray, let_through: BoolArray
) -> PlanTimes:
    """The table above for many queries at once.

    Args:
        plan: Which plan.
        screen: Seconds of phase I. Shape (M,). So `draft` (II) and `agent` (IV).
        draft: Seconds of phase II.
        agent: Seconds of a whole agent run.
        let_through: Where phase I lets the query through. Shape (M,).
    """
    if plan is Plan.PAPER:
        return _in_a_row(screen + draft, screen + np.where(let_through, draft, 0.0), screen, agent, let_through)
    if plan is Plan.DRAFT_FIRST:
        return _in_a_row(draft + screen, draft, draft + screen, agent, let_through)
    if plan is Plan.NO_SCREEN:
        return _in_a_row(draft, draft, draft, agent, np.ones(let_through.shape, dtype=np.bool_))
    return _side_by_side(screen, draft, agent, let_through, hedged=plan is Plan.HEDGED)


def _in_a_row(
    accepted: FloatArray, refused: FloatArray, blocked: FloatArray, agent: FloatArray, eligible: BoolArray
) -> PlanTimes:
    """One model call at a time, so that work is latency. `blocked`: the gate would pass, phase I does not."""
    passed = np.where(eligible, accepted, blocked + agent)
    return PlanTimes(passed, refused + agent, passed, refused + agent, eligible)


def _side_by_side(
    screen: FloatArray, draft: FloatArray, agent: FloatArray, let_through: BoolArray, *, hedged: bool
) -> PlanTimes:
    # When both phases have said what they had to, or one of them has refused, the other is cancelled.
    stop_passed = np.where(let_through, np.maximum(screen, draft), screen)
    stop_refused = np.where(let_through, draft, np.minimum(screen, draft))
    if not hedged:
        eligible = let_through
        passed, refused = np.where(eligible, stop_passed, stop_passed + agent), stop_refused + agent
        agent_passed, agent_refused = np.where(eligible, 0.0, agent), agent
    else:
        eligible = let_through & (stop_passed < agent)
        stop_passed, stop_refused = np.minimum(stop_passed, agent), np.minimum(stop_refused, agent)
        passed, refused = np.where(eligible, stop_passed, agent), agent
        agent_passed, agent_refused = passed, agent
    front_passed = np.minimum(screen, stop_passed) + np.minimum(draft, stop_passed)
    front_refused = np.minimum(screen, stop_refused) + np.minimum(draft, stop_refused)
    return PlanTimes(passed, refused, front_passed + agent_passed, front_refused + agent_refused, eligible)
