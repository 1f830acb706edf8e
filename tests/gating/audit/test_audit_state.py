"""An audit's state as text and as numbers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from speceyes.errors import ConfigError
from speceyes.gating.audit import (
    Audited,
    AuditPlan,
    AuditState,
    Reference,
    Served,
    begin,
    confidence_sequence,
    dump,
    load,
    snapshot,
    step,
)


def lived(queries: int = 300, rate: float = 0.1, **settings: Any) -> AuditState:
    """An audit that has seen something of everything."""
    rng = np.random.default_rng(1)
    reference = Reference.of(rng.normal(5, 2, 500), rng.random(500) < 0.7, (4.0, 5.0, 6.0))
    plan = AuditPlan(
        **({"thresholds": (4.0, 5.0, 6.0), "alpha": 0.02, "reference": reference, "calibration": "sha256:1"} | settings)
    )
    state = begin(plan)
    for query in range(queries):
        score = None if query % 7 == 0 else float(rng.normal(9, 2))
        state, _ = step(state, Served(accepted=True, level=state.level, screened=True, drafted=True, score=score))
        if state.threshold is not None:
            loss = None if query % 20 == 0 else bool(rng.random() < rate)
            state, _ = step(state, Audited(loss=loss, level=state.level, share=0.1 if query % 3 else None, at="é"))
    return state


def test_what_was_saved_is_what_is_loaded():
    state = lived()
    assert state.level > 0
    assert state.alarms
    assert state.scores is not None
    assert state.scores.found is not None
    text = dump(state)
    assert text.isascii()
    assert load(text) == state
    assert dump(load(text)) == text
    assert load(dump(begin(AuditPlan(thresholds=(), alpha=0.5)))) == begin(AuditPlan(thresholds=(), alpha=0.5))


def damaged(**changes: Any) -> str:
    content = json.loads(dump(lived()))
    for path, value in changes.items():
        here = content
        *folders, name = path.split("__")
        for folder in folders:
            here = here[folder]
        here[name] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not strict JSON"),
        ("{", "not strict JSON"),
        ("[" * 100_000, "not strict JSON"),
        ("[]", "holds no audit's state"),
        ("{}", "holds no audit's state"),
        (damaged(format=2), "has the format 2"),
        (damaged(level="1"), "level"),
        (damaged(level=7), "cannot be"),
        (damaged(level=0), "cannot be"),
        (damaged(alarms=[]), "cannot be"),
        (damaged(extra=1), "extra is no field"),
        (damaged(current__extra=1), "current.extra is no field"),
        (damaged(current__test__log_stakes=[0.0]), "6 bets"),
        (damaged(current__audited=None), "current.audited"),
        (damaged(current__audited=math.nan), "NaN is not JSON"),
        (damaged(plan__alpha=0.0), "alpha = 0.0"),
        (damaged(scores__ranges=[]), "cannot be"),
    ],
)
def test_what_is_no_state_is_refused_by_name(text, said):
    with pytest.raises(ConfigError, match=said) as caught:
        load(text, "audit.json")
    assert "audit.json" in str(caught.value) or "cannot" in str(caught.value)


def test_a_snapshot_of_nothing():
    found = snapshot(begin(AuditPlan(thresholds=(4.0,), alpha=0.02)))
    assert (found.rate, found.interval, found.wealth) == (None, (0.0, 1.0), pytest.approx(1.0))
    assert (found.alarm_at, found.detector_alarm_at) == (pytest.approx(20), pytest.approx(10_001))
    assert found.drift == ()


def test_a_snapshot_in_numbers():
    state = begin(AuditPlan(thresholds=(4.0, 5.0), alpha=0.05))
    for loss in (*[False] * 60, True, None, None):
        state, _ = step(state, Audited(loss=loss, level=0))
    found = snapshot(state)
    assert (found.audited, found.losses, found.missing, found.stale) == (61, 1, 2, 0)
    assert found.rate == pytest.approx(1 / 61)
    # Whatever the two missing ones would have shown
    assert found.interval == (confidence_sequence(1, 63)[0], confidence_sequence(3, 63)[1])
    json.dumps(found.as_json(), allow_nan=False)


@pytest.mark.parametrize("good", [0, 10, 1000])
def test_as_many_losses_as_it_says_raise_the_alarm_and_not_one_less(good):
    state = begin(AuditPlan(thresholds=(4.0,), alpha=0.05))
    for _ in range(good):
        state, _ = step(state, Audited(loss=False, level=0))
    count = snapshot(state).losses_to_alarm
    assert count is not None
    for _ in range(count - 1):
        state, events = step(state, Audited(loss=True, level=0))
        assert events == []
    assert snapshot(state).losses_to_alarm == 1
    state, events = step(state, Audited(loss=True, level=0))
    assert events
    assert snapshot(state).losses_to_alarm is None


def test_uneven_audits_have_a_weighted_rate_and_no_interval():
    """One loss in two of the often audited kind, none in one of the rare kind: (1/2) / (1/2 + 1/2 + 1)."""
    state = begin(AuditPlan(thresholds=(4.0,), alpha=0.05, share=0.1))
    for loss, share in ((True, 0.2), (False, 0.2), (False, None)):
        state, _ = step(state, Audited(loss=loss, level=0, share=share))
    found = snapshot(state)
    assert (found.rate, found.interval) == (pytest.approx(0.25), None)


def test_what_has_outgrown_all_floats_is_still_a_number():
    state = begin(AuditPlan(thresholds=(4.0,), alpha=0.05, on_change="warn"))
    rich = replace(state.current.detector, log_stakes=(1e6,) * 6)
    found = snapshot(replace(state, current=replace(state.current, detector=rich, change_suspected=True)))
    assert math.isfinite(found.detector)
    assert found.change_suspected
