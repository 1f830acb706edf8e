"""The state machine: what tightens the gate, what does not, and that nothing loosens it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import ConfigError, InputError
from speceyes.gating.audit import (
    Alarm,
    Audited,
    AuditEvent,
    AuditPlan,
    AuditsMissing,
    AuditState,
    Detector,
    Reference,
    Served,
    Tightened,
    Wealth,
    begin,
    dump,
    load,
    log_factors,
    resume,
    step,
)


def plan(**settings: Any) -> AuditPlan:
    return AuditPlan(**({"thresholds": (4.0, 5.0), "alpha": 0.05} | settings))


def audit(state: AuditState, *losses: bool | None, **more: Any) -> tuple[AuditState, list[AuditEvent]]:
    """Audit queries one after another, each accepted at the level of the moment, until nothing is accepted."""
    events: list[AuditEvent] = []
    for loss in losses:
        if state.threshold is None:
            break
        state, told = step(state, Audited(loss=loss, level=state.level, **more))
        events += told
    return state, events


def test_the_first_alarm_comes_where_the_arithmetic_says():
    """Losses only, alpha 1/2, delta 1/2, one threshold: alarm at a wealth of 2.

    The bets multiply by 6/5, 10/7, 5/3, 20/11, 60/31 at each loss, and get fresh capital each time.
    """
    hits = [12 / 11, 6 / 5, 10 / 7, 5 / 3, 20 / 11, 60 / 31]
    kept = [1 / (1 + math.log(1 + t)) for t in range(5)]
    own, wealth = [0.0] * 6, []
    for t in range(1, 5):
        own = [(o + (kept[t - 1] - kept[t]) / 6) * hit for o, hit in zip(own, hits, strict=True)]
        wealth.append(sum(own) + kept[t])
    expected = next(t for t, w in enumerate(wealth, 1) if w >= 2.0)
    state, events = audit(begin(plan(thresholds=(4.0,), alpha=0.5, delta=0.5)), *[True] * 10)
    assert expected == 3
    assert events == [
        Alarm(monitor="test", level=0, threshold=4.0, audited=3, losses=3, missing=0, at=None),
        Tightened(level=1, threshold=None),
    ]
    assert state.threshold is None
    assert state.alarms == (events[0],)


def test_delta_is_shared_over_the_thresholds():
    assert plan(thresholds=(1.0,), delta=0.05).log_alarm == pytest.approx(math.log(20))
    assert plan(thresholds=(1.0, 2.0, 3.0), delta=0.05).log_alarm == pytest.approx(math.log(60))


def test_each_alarm_moves_one_threshold_on_and_begins_a_new_test():
    state, events = audit(begin(plan()), *[True] * 100, at="now")
    assert [type(event) for event in events] == [Alarm, Tightened, Alarm, Tightened]
    assert [event.threshold for event in events] == [4.0, 5.0, 5.0, None]
    first, second = state.alarms
    assert (first.audited, first.losses) == (second.audited, second.losses)
    assert first.at == "now"
    assert state.level == 2
    assert state.current.audited == 0
    assert state.current.test == Wealth.start()


def test_no_losses_never_alarm():
    state, events = audit(begin(plan(alpha=0.001, run_length=10_000)), *[False] * 12_000)
    assert events == []
    assert state.level == 0


def test_a_late_fault_is_found_by_the_detector_and_the_test_goes_on():
    good = [False] * 3000
    state, events = audit(begin(plan(thresholds=(4.0,))), *good, *[True] * 20)
    assert isinstance(events[0], Alarm)
    assert events[0].losses <= 5
    warned, told = audit(begin(plan(thresholds=(4.0,), on_change="warn")), *good, *[True] * 20)
    assert [type(event) for event in told] == [Alarm, Alarm, Tightened]
    assert [event.monitor for event in told if isinstance(event, Alarm)] == ["detector", "test"]
    assert told[0] == events[0]
    assert warned.alarms == (told[1],)
    assert state.threshold is warned.threshold is None


def test_the_machine_bets_as_the_monitors_do():
    state, _ = audit(begin(plan()), True, False, False, share=0.1)
    wealth, detector = Wealth.start(), Detector.start()
    for x in (1.0, 0.0, 0.0):
        factors = log_factors(x, 0.05, 0.5)
        wealth, detector = wealth.after(factors), detector.after(factors)
    assert (state.current.test, state.current.detector) == (wealth, detector)
    assert state.current.weight == pytest.approx(1.5)
    assert state.current.weighted_losses == pytest.approx(0.5)


def test_audits_of_an_earlier_level_say_nothing():
    state, _ = audit(begin(plan()), *[True] * 5)
    assert state.level == 1
    after, events = step(state, Audited(loss=True, level=0))
    assert events == []
    assert after == replace(state, stale=1)


def test_levels_that_cannot_be_are_refused():
    state = begin(plan())
    with pytest.raises(InputError, match="level 1, but the audit stands at 0"):
        step(state, Audited(loss=True, level=1))
    with pytest.raises(InputError, match="level -1"):
        step(state, Served(accepted=True, level=-1))
    nothing = begin(plan(thresholds=()))
    assert nothing.threshold is None
    with pytest.raises(InputError, match="accepts nothing"):
        step(nothing, Audited(loss=False, level=0))
    assert step(nothing, Served(accepted=False, level=0)) == (nothing, [])


def test_a_missing_audit_is_no_success():
    state, events = audit(begin(plan()), None, None)
    assert (state.current.audited, state.current.missing, events) == (0, 2, [])
    assert state.current.test == Wealth.start()
    counted, _ = audit(begin(plan(on_missing="loss")), None)
    lost, _ = audit(begin(plan()), True)
    assert counted.current.test == lost.current.test
    assert (counted.current.audited, counted.current.losses, counted.current.missing) == (0, 0, 1)


def test_many_missing_audits_are_told_once():
    state, events = audit(begin(plan()), *[None] * 50, at="then")
    (told,) = events
    assert isinstance(told, AuditsMissing)
    assert (told.missing, told.audited, told.at) == (told.missing, 0, "then")
    assert told.missing <= 5
    assert state.current.blind
    assert state.level == 0
    assert audit(begin(plan()), *[*[False] * 19, None] * 30)[1] == []
    # With `loss` they tighten the gate besides
    _, events = audit(begin(plan(on_missing="loss", thresholds=(4.0,))), *[None] * 50)
    assert [type(event) for event in events if not isinstance(event, AuditsMissing)] == [Alarm, Tightened]


losses = st.lists(st.one_of(st.booleans(), st.none()), max_size=60)


@given(losses, st.sampled_from([0.01, 0.1, 0.5]), st.integers(0, 60))
def test_it_only_ever_tightens_and_survives_a_restart_anywhere(seen, alpha, restart):
    made = plan(thresholds=(1.0, 2.0, 3.0), alpha=alpha)
    state = straight = begin(made)
    for index, loss in enumerate(seen):
        if index == restart:
            state = resume(load(dump(state)), made)
        if state.threshold is None:
            break
        before = state
        state, events = step(state, Audited(loss=loss, level=state.level))
        straight, same = step(straight, Audited(loss=loss, level=straight.level))
        assert events == same
        assert state.level - before.level in (0, 1)
        assert (state.level > before.level) == any(isinstance(event, Tightened) for event in events)
        if state.threshold is not None:
            assert before.threshold is not None
            assert state.threshold >= before.threshold
        assert len(state.alarms) == state.level
    assert state == straight


def reference(**counts: Any) -> Reference:
    made = {"n": 1000, "screened": 700, "accepted": (500, 300), "score_edges": (2.0, 5.0)}
    return Reference(**(made | {"score_counts": (200, 300, 190, 10)} | counts))


def test_drift_is_told_once_and_changes_no_threshold():
    state, events = begin(plan(reference=reference())), []
    for _ in range(600):
        state, told = step(state, Served(accepted=True, level=0, screened=True, drafted=True, score=1.0, at="t"))
        events += told
    assert {(event.watched, event.direction) for event in events} == {
        ("screening", "up"),
        ("acceptance", "up"),
        ("score", "up"),
    }
    assert next(event for event in events if event.watched == "score").interval == 0
    assert {event.at for event in events} == {"t"}
    assert (state.level, state.threshold) == (0, 4.0)


def test_what_was_not_observed_is_not_watched():
    state, _ = step(begin(plan(reference=reference())), Served(accepted=None, level=0))
    assert state == begin(plan(reference=reference()))


def test_each_level_expects_its_own_acceptance():
    state, _ = audit(begin(plan(reference=reference())), *[True] * 5)
    assert state.level == 1
    assert state.acceptance is not None
    ((low, high),) = state.acceptance.ranges
    assert low < 0.3 < high < 0.5
    late, _ = step(state, Served(accepted=True, level=0))
    assert late.acceptance == state.acceptance
    done, _ = audit(state, *[True] * 5)
    assert done.acceptance is None


def test_resuming_keeps_the_level_unless_the_calibration_is_new():
    made = plan(calibration="sha256:1")
    state, _ = audit(begin(made), *[True] * 5)
    assert resume(state, made) == state
    assert resume(state, replace(made, share=0.2)).level == 1
    assert resume(state, replace(made, calibration="sha256:2")).level == 0
    for changed in ({"alpha": 0.1}, {"delta": 0.1}, {"thresholds": (4.0, 5.0, 6.0)}, {"on_change": "warn"}):
        with pytest.raises(ConfigError, match="calibrate again"):
            resume(state, replace(made, **changed))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"alpha": 0.0}, "alpha = 0.0"),
        ({"alpha": math.nan}, "alpha = nan"),
        ({"delta": 1.0}, "delta = 1.0"),
        ({"share": 0.0}, "share = 0.0"),
        ({"share": 1.5}, "share = 1.5"),
        ({"thresholds": (2.0, 1.0)}, "ascending"),
        ({"thresholds": (1.0, 1.0)}, "ascending"),
        ({"thresholds": (1.0, math.inf)}, "ascending"),
        ({"run_length": 100}, "at least 200"),
        ({"risk": "regret"}, "risk = 'regret'"),
        ({"on_change": "loosen"}, "on_change"),
        ({"drift_tolerance": -0.1}, "drift_tolerance"),
        ({"thresholds": (1.0,), "reference": reference()}, "2 thresholds, not for 1"),
    ],
)
def test_plans_that_cannot_work(settings, said):
    with pytest.raises(ConfigError, match=said):
        plan(**settings)


def test_shares_below_the_plans_are_refused():
    with pytest.raises(ConfigError, match=r"audited with share 0\.01"):
        step(begin(plan()), Audited(loss=True, level=0, share=0.01))
