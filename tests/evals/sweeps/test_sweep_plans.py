"""Plans: the table of times, worked by hand, and what must hold for all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.evals.law import Costs, law_honest, law_ideal
from speceyes.evals.sweeps.plans import PlanTimes, plan_times
from speceyes.scheduling import SPECULATIVE, Plan

S, D, A = 2.0, 3.0, 10.0


def times(plan: Plan, through: bool, *, s: float = S, d: float = D, a: float = A) -> PlanTimes:
    one = [np.array([value]) for value in (s, d, a)]
    return plan_times(plan, one[0], one[1], one[2], np.array([through]))


@pytest.mark.parametrize(
    ("plan", "through", "passed", "refused", "passed_work", "refused_work", "eligible"),
    [
        (Plan.PAPER, True, 5, 15, 5, 15, True),
        (Plan.PAPER, False, 12, 12, 12, 12, False),
        (Plan.DRAFT_FIRST, True, 5, 13, 5, 13, True),
        (Plan.DRAFT_FIRST, False, 15, 13, 15, 13, False),
        # Beside one another: accepted when the slower one has agreed, refused as soon as one refuses.
        (Plan.PARALLEL, True, 3, 13, 5, 15, True),
        (Plan.PARALLEL, False, 12, 12, 14, 14, False),
        # The agent works until the draft is accepted.
        (Plan.HEDGED, True, 3, 10, 8, 15, True),
        (Plan.HEDGED, False, 10, 10, 14, 14, False),
        (Plan.NO_SCREEN, True, 3, 13, 3, 13, True),
        (Plan.NO_SCREEN, False, 3, 13, 3, 13, True),
    ],
)
def test_times_by_hand(
    plan: Plan,
    through: bool,
    passed: float,
    refused: float,
    passed_work: float,
    refused_work: float,
    eligible: bool,
) -> None:
    found = times(plan, through)
    assert (found.passed[0], found.refused[0]) == (passed, refused)
    assert (found.passed_work[0], found.refused_work[0]) == (passed_work, refused_work)
    assert found.eligible[0] == eligible


def test_a_hedged_agent_that_is_done_first_has_answered() -> None:
    found = times(Plan.HEDGED, True, a=2.5)
    assert not found.eligible[0]
    assert found.passed[0] == found.refused[0] == 2.5
    assert found.passed_work[0] == 2.0 + 2.5 + 2.5


seconds = st.floats(0.01, 10.0)


@given(seconds, seconds, seconds, st.booleans())
def test_orders_of_time_that_hold_for_every_query(s: float, d: float, a: float, through: bool) -> None:
    plans = {plan: times(plan, through, s=s, d=d, a=a) for plan in SPECULATIVE}
    for found in plans.values():
        assert (found.passed_work >= found.passed - 1e-12).all()
        assert (found.refused_work >= found.refused - 1e-12).all()
    hedged, parallel, paper = plans[Plan.HEDGED], plans[Plan.PARALLEL], plans[Plan.PAPER]
    assert max(hedged.passed[0], hedged.refused[0]) <= a
    assert parallel.passed[0] <= paper.passed[0] + 1e-12
    assert parallel.refused[0] <= paper.refused[0] + 1e-12


@given(seconds, seconds, seconds, st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_the_papers_plan_at_constant_costs_is_the_law(
    s: float, d: float, a: float, queries: list[tuple[bool, bool]]
) -> None:
    through, passes = (np.array(flags) for flags in zip(*queries, strict=True))
    flat = [np.full(len(queries), value) for value in (s, d, a)]
    found = plan_times(Plan.PAPER, flat[0], flat[1], flat[2], through)
    accepted = passes & found.eligible
    beta = float(through.mean())
    alpha = float(accepted.sum() / through.sum()) if through.any() else 0.0
    mean = float(np.where(passes, found.passed, found.refused).mean())
    assert a / mean == pytest.approx(law_honest(alpha, beta, Costs(s, d, a, 1)))
    ideal = law_ideal(alpha, beta)
    assert ideal is None or ideal == pytest.approx(1 / (1 - accepted.mean()))
