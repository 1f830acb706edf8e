"""A recorded run sent through gate and audit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from speceyes.errors import CalibrationMismatch, ConfigError, InputError
from speceyes.evals.audit_replay import replay
from speceyes.evals.records import RecordTable
from speceyes.gating import AnswerTable, Calibration
from speceyes.gating.audit import Alarm, Tightened, plan_for, snapshot
from speceyes.gating.evidence import CertifiedThreshold, Promise, Traffic


def run_of(margins: list[float], agrees: list[bool], **more: Any) -> RecordTable:
    """One token a draft; its margin is its score."""
    n = len(margins)
    yes, seconds = np.ones(n, dtype=np.bool_), np.ones(n)
    fields: dict[str, Any] = {
        "ids": np.array([f"q{i}" for i in range(n)]),
        "categories": np.full(n, ""),
        "help_probability": np.zeros(n),
        "answers": AnswerTable.from_arrays([[-0.1, -0.1 - margin, -9.0] for margin in margins], [1] * n, [-0.1] * n),
        "draft_usable": yes,
        "labelled": yes,
        "draft_right": np.array(agrees),
        "agent_right": yes,
        "agrees": np.array(agrees),
        "screen_seconds": seconds,
        "draft_seconds": seconds,
        "agent_seconds": seconds,
        "depth": np.ones(n, dtype=np.int64),
        "bound_to": {"draft_model": "small", "agent_model": "large"},
        "digest": "sha256:0",
    }
    return RecordTable(**(fields | more))


def certified(threshold: float, accepted: int) -> CertifiedThreshold:
    return CertifiedThreshold(
        threshold=threshold, accepted=accepted, losses=(0, 0), bounds=(0.02, 0.05), intervals=((0.0, 0.02),) * 2
    )


def calibration(**more: Any) -> Calibration:
    fields: dict[str, Any] = {
        "score": "margin",
        "k": 3,
        "threshold": 2.0,
        "draft_model": "small",
        "agent_model": "large",
        "draft_prompt": "p",
        "data": "sha256:1",
        "method": "made",
        "n": 1000,
        "alpha": 0.02,
        "delta": 0.1,
        "promises": (Promise(risk="excess", alpha=0.02), Promise(risk="disagreement", alpha=0.05)),
        "certified": (certified(4.0, 200), certified(2.0, 500), certified(1.0, 700)),
        "traffic": Traffic(screened=1000, score_edges=(2.0, 3.0), score_counts=(500, 300, 200, 0)),
    }
    return Calibration(**(fields | more))


def test_a_calibrations_promise_becomes_a_plan():
    made = calibration()
    plan = plan_for(made, share=0.2)
    assert (plan.thresholds, plan.alpha, plan.delta, plan.share) == ((2.0, 4.0), 0.05, 0.1, 0.2)
    assert plan.calibration == made.digest
    assert plan.reference is not None
    assert plan.reference.accepted == (500, 200)
    assert plan_for(made, risk="excess").alpha == 0.02
    assert plan_for(made, risk="error", alpha=0.3).alpha == 0.3
    assert plan_for(calibration(threshold=None)).thresholds == ()
    with pytest.raises(ConfigError, match="promises excess, disagreement, so there is no limit of the error rate"):
        plan_for(made, risk="error")
    by_hand = Calibration.manual(2.0, score="margin", k=3)
    with pytest.raises(ConfigError, match="promises nothing"):
        plan_for(by_hand)
    assert plan_for(by_hand, alpha=0.1).thresholds == (2.0,)


def test_a_good_run_raises_no_alarm_and_is_counted():
    n = 600
    rng = np.random.default_rng(0)
    margins = rng.choice([1.0, 2.5, 5.0], n, p=[0.5, 0.3, 0.2]).tolist()
    told = replay(run_of(margins, [True] * n), calibration(), plan_for(calibration(), share=1.0))
    assert told.events == ()
    assert told.accepted == told.state.current.audited == sum(margin >= 2.0 for margin in margins)
    found = snapshot(told.state)
    assert (found.losses, found.level) == (0, 0)
    assert [drift.n for drift in found.drift] == [n, n, n]


def test_a_bad_stretch_tightens_and_then_fewer_are_accepted():
    margins = [2.5] * 50 + [5.0, 2.5] * 50
    agrees = [False] * 50 + [True] * 100
    told = replay(run_of(margins, agrees), calibration(), plan_for(calibration(traffic=None), share=1.0))
    (index, alarm), (same, tightened) = told.events
    assert isinstance(alarm, Alarm)
    assert isinstance(tightened, Tightened)
    assert tightened.threshold == 4.0
    assert index == same == alarm.audited - 1 < 10
    assert told.accepted == index + 1 + 50
    assert told.state.current.audited == 50


def test_what_the_gate_refuses_or_the_agent_failed_is_no_success():
    more = {
        "help_probability": np.array([0.9, np.nan, 0.0, 0.0, 0.0]),
        "draft_usable": np.array([True, True, False, True, True]),
        "agent_seconds": np.array([1.0, 1.0, 1.0, np.nan, 1.0]),
    }
    table = run_of([5.0] * 5, [True] * 5, **more)
    told = replay(table, calibration(), plan_for(calibration(), share=1.0))
    assert told.accepted == 2
    assert (told.state.current.audited, told.state.current.missing) == (1, 1)


def test_excess_counts_only_what_the_agent_knew():
    table = run_of([5.0] * 4, [False] * 4, agent_right=np.array([True, False, True, False]))
    plan = plan_for(calibration(), risk="excess", share=1.0, alpha=0.5)
    assert replay(table, calibration(), plan).state.current.losses == 2
    assert replay(table, calibration(), plan_for(calibration(), risk="error", alpha=0.9, share=1.0)).accepted == 4
    unlabelled = run_of([5.0] * 4, [True] * 4, labelled=np.array([True, False, False, False]))
    with pytest.raises(InputError, match="3 of the run's 4 queries have none"):
        replay(unlabelled, calibration(), plan)


def test_a_share_of_the_accepted_is_audited_and_another_key_audits_others():
    table = run_of([5.0] * 400, [i % 40 > 0 for i in range(400)])
    plan = plan_for(calibration(), share=0.25, alpha=0.5)
    first, second = (replay(table, calibration(), plan, key=key).state.current for key in ("a", "b"))
    assert 60 < first.audited < 140
    assert first != second


def test_another_models_run_is_refused():
    table = run_of([5.0], [True], bound_to={"draft_model": "other"})
    with pytest.raises(CalibrationMismatch, match="draft_model"):
        replay(table, calibration(), plan_for(calibration()))
