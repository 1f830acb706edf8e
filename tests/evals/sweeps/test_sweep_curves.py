"""Curves: hand-worked totals, and the gate itself applied to one draft after another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import lifelike, run_of

from speceyes.evals.law import Costs, law_honest, law_ideal
from speceyes.evals.records import RecordTable
from speceyes.evals.sweeps.curves import Ledger
from speceyes.evals.sweeps.grid import GateSetting, gate_grid
from speceyes.evals.sweeps.outcomes import Outcomes
from speceyes.evals.sweeps.ranking import Ranking
from speceyes.evals.sweeps.sweep import score_gate
from speceyes.gating import Calibration
from speceyes.phases.gate import gate, gate_screening
from speceyes.scheduling import SPECULATIVE, Plan
from speceyes.types import Draft, Reason, Screening, Token


def ledger_of(table: RecordTable, plan: Plan = Plan.PAPER, screen: float = 0.5) -> Ledger:
    return Ledger.of(table, Outcomes.of(table), plan, screen)


def test_by_hand() -> None:
    # Scores 4 > 3 > 2 = 2. The third query is one that screening stops.
    table = run_of(
        [True, False, True, False],
        [True, True, False, False],
        help_probability=[0.1, 0.2, 0.9, 0.3],
        screen_seconds=[1.0, 1.0, 1.0, 1.0],
        draft_seconds=[2.0, 2.0, 2.0, 2.0],
        agent_seconds=[10.0, 20.0, 30.0, 40.0],
    )
    curve = ledger_of(table).curve(Ranking.of(np.array([4.0, 3.0, 2.0, 2.0])))
    assert curve.thresholds.tolist() == [math.inf, 4.0, 3.0, 2.0]
    assert curve.accepted.tolist() == [0, 1, 2, 3]
    assert curve.acceptance.tolist() == [0, 0.25, 0.5, 0.75]
    assert curve.selective_accuracy[1:].tolist() == [1.0, 0.5, 1 / 3]
    assert np.isnan(curve.selective_accuracy[0])
    # The agent alone has 2 of 4; accepting the second query loses one.
    assert curve.final_accuracy.tolist() == [0.5, 0.5, 0.25, 0.25]
    assert curve.accuracy_change.tolist() == [0.0, 0.0, -0.25, -0.25]
    assert curve.excess_loss[1:].tolist() == [0.0, 0.5, 1 / 3]
    # Screening 4 x 1, drafts for three 3 x 2, agents 100 less what is saved.
    assert (curve.seconds * 4).tolist() == [110.0, 100.0, 80.0, 40.0]
    assert curve.speedup.tolist() == pytest.approx([100 / 110, 1.0, 100 / 80, 100 / 40])
    assert curve.law_ideal.tolist() == pytest.approx([1.0, 4 / 3, 2.0, 4.0])
    costs = Costs(1.0, 2.0, 25.0, 4)
    expected = [law_honest(accepted / 3, 0.75, costs) for accepted in (0, 1, 2, 3)]
    assert curve.law_honest.tolist() == pytest.approx(expected)


def test_accepting_everything_has_no_bound_by_the_ideal_law() -> None:
    curve = ledger_of(run_of([True, True])).curve(Ranking.of(np.array([2.0, 1.0])))
    assert curve.law_ideal[-1] == math.inf
    assert law_ideal(1.0, 1.0) is None


def test_a_draft_at_fault_is_never_accepted() -> None:
    table = run_of([True, True], draft_usable=[True, False])
    curve = ledger_of(table).curve(Ranking.of(np.array([1.0, 2.0])))
    assert curve.accepted.tolist() == [0, 0, 1]


@given(st.integers(0, 1000), st.sampled_from(list(SPECULATIVE)))
@settings(max_examples=30)
def test_a_curve_is_the_sum_over_queries_at_each_threshold(seed: int, plan: Plan) -> None:
    table = lifelike(30, seed=seed, k=5)
    outcomes = Outcomes.of(table)
    ledger = Ledger.of(table, outcomes, plan, 0.5)
    values = score_gate(table, outcomes, GateSetting("separability", "min", 5)).values
    values = np.round(values, 1)  # ties
    curve = ledger.curve(Ranking.of(values))
    assert (np.diff(curve.acceptance) >= 0).all()
    for index, threshold in enumerate(curve.thresholds):
        passes = values >= threshold
        one = ledger.at(passes)
        for name in type(curve).__slots__[1:]:
            assert getattr(curve, name)[index] == pytest.approx(getattr(one, name)[0], nan_ok=True), name
        accepted = passes & ledger.eligible
        final = np.where(accepted, table.draft_right, table.agent_right).mean()
        assert curve.final_accuracy[index] == pytest.approx(final)
        assert curve.accuracy_change[index] == pytest.approx(final - table.agent_right.mean())


def drafts_of(table: RecordTable) -> list[Draft]:
    """The drafts as the draft model would have returned them."""
    ends = np.cumsum(table.answers.lengths)
    drafts = []
    for end, length, usable in zip(ends, table.answers.lengths, table.draft_usable, strict=True):
        rows = table.answers.logprobs[end - length : end]
        tokens = tuple(Token(f"t{i}", float(row[0]), tuple(row.tolist())) for i, row in enumerate(rows))
        drafts.append(Draft("an answer", tokens, None if usable else Reason.TRUNCATED_ANSWER))
    return drafts


@pytest.mark.parametrize("setting", gate_grid([4]), ids=lambda setting: setting.name)
def test_the_sweep_decides_as_the_gate_does_one_by_one(setting: GateSetting) -> None:
    table = lifelike(60, seed=5, k=6, faults=0.1)
    outcomes = Outcomes.of(table)
    found = score_gate(table, outcomes, setting)
    ledger = Ledger.of(table, outcomes, Plan.PAPER, 0.4)
    curve = ledger.curve(found.ranking)
    drafts = drafts_of(table)
    for index in range(1, curve.thresholds.size, 7):
        calibration = Calibration.manual(
            float(curve.thresholds[index]),
            score=setting.score,
            aggregate=setting.aggregate,
            k=setting.k,
            screen_threshold=0.4,
        )
        accepted = []
        for draft, p in zip(drafts, table.help_probability.tolist(), strict=True):
            stopped = gate_screening(Screening(p, 1.0 - p), calibration)
            accepted.append(stopped is None and gate(draft, calibration).accepted)
        assert curve.accepted[index] == sum(accepted)
        final = np.where(accepted, table.draft_right, table.agent_right).mean()
        assert curve.final_accuracy[index] == pytest.approx(final)
