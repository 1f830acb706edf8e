"""The standing audit without a gateway: order, levels, what the drift monitors are told, and its plan."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from trust_server import certified

from speceyes.config import TrustSettings
from speceyes.errors import ConfigError
from speceyes.gateway.trust import check_trust
from speceyes.gateway.trust.keeping import StateFile, read_state
from speceyes.gateway.trust.planning import at_level, identity, make_plan
from speceyes.gateway.trust.standing import Standing
from speceyes.gating import Calibration
from speceyes.gating.audit import AuditPlan, AuditState, Reference, begin
from speceyes.types import Reason, Verdict

LEVELS = (5.0, 6.0)
PLAN = AuditPlan(thresholds=LEVELS, alpha=0.1, run_length=100)


def standing(plan: AuditPlan = PLAN, **more: Any) -> tuple[Standing, list[int]]:
    levels: list[int] = []
    return Standing(begin(plan), tighten=levels.append, **more), levels


def losses_until_an_alarm(audit: Standing) -> int:
    for count in range(1, 100):
        audit.close(audit.open(), level=0, agrees=False)
        if audit.state.level:
            return count
    raise AssertionError("no alarm")


def test_results_count_in_the_order_of_acceptance() -> None:
    audit, _ = standing()
    first, second, third = audit.open(), audit.open(), audit.open()
    audit.close(third, level=0, agrees=True)
    audit.close(second, level=0, agrees=None)
    assert audit.state.current.audited == 0, "the first is still under way"
    audit.close(first, level=0, agrees=False)
    current = audit.state.current
    assert (current.audited, current.losses, current.missing) == (2, 1, 1)


def test_an_alarm_tightens_before_anything_else_and_is_told_once(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    order: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            order.append(record.getMessage())

    audit = Standing(begin(PLAN), tighten=lambda level: order.append(f"level {level}"))
    handler = Handler()
    logging.getLogger("speceyes.audit").addHandler(handler)
    count = losses_until_an_alarm(audit)
    logging.getLogger("speceyes.audit").removeHandler(handler)
    assert order[0] == "level 1"
    assert f"{count} of {count} audited answers differ from the agent's at the threshold 5" in order[1]
    assert "tightened to the threshold 6 (level 1 of 2)" in order[2]
    assert len(order) == 3


async def test_what_was_tightened_is_on_the_disk_at_once(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "audit.json")
    audit, levels = standing(file=file)
    losses_until_an_alarm(audit)
    saved = read_state(file.path)  # the event loop had no turn in between
    assert saved == audit.state
    assert levels == [1]
    await audit.aclose()
    file.close()


def test_a_verdict_belongs_to_the_level_whose_threshold_gave_it() -> None:
    audit, _ = standing()
    losses_until_an_alarm(audit)
    assert audit.level_of(Verdict(Reason.ACCEPTED, 5.5, None, 5.0)) == 0, "it was on its way when the gate moved"
    assert audit.level_of(Verdict(Reason.ACCEPTED, 6.5, None, 6.0)) == 1
    assert audit.level_of(Verdict(Reason.TOOL_WOULD_HELP)) == 1
    assert audit.level_of(Verdict(Reason.ACCEPTED, 6.5, None, 9.0)) is None
    audit.close(audit.open(), level=0, agrees=False)
    assert audit.state.stale == 1
    assert audit.state.current.audited == 0


REFERENCE = Reference(n=100, screened=80, accepted=(50, 40), score_edges=(4.0,), score_counts=(30, 45, 5))


@pytest.mark.parametrize(
    ("verdict", "seen"),
    [
        (Verdict(Reason.ACCEPTED, 5.5, None, 5.0), (1, 1, (0, 1, 0))),
        (Verdict(Reason.BELOW_THRESHOLD, 3.0, None, 5.0), (1, 0, (1, 0, 0))),
        (Verdict(Reason.LOGPROBS_MISSING, threshold=5.0), (1, 0, (0, 0, 1))),
        (Verdict(Reason.TOOL_WOULD_HELP), (0, 0, None)),
        (Verdict(Reason.SCREEN_UNREADABLE), (0, 0, None)),
        (Verdict(Reason.DRAFT_FAILED), None),
        (Verdict(Reason.SCREEN_FAILED), None),
        (Verdict(Reason.AGENT_DOWN, 9.0, None, 9.0), None),
        (Verdict(Reason.FORCED_AGENT), None),
    ],
    ids=lambda value: value.reason.value if isinstance(value, Verdict) else "",
)
@pytest.mark.parametrize("gated", [True, False])
def test_drift_monitors_are_told_of_traffic_and_not_of_faults(verdict: Verdict, seen: Any, gated: bool) -> None:
    audit, _ = standing(AuditPlan(thresholds=LEVELS, alpha=0.1, reference=REFERENCE))
    audit.served(verdict, gated=gated)
    screening, acceptance, scores = audit.state.screening, audit.state.acceptance, audit.state.scores
    assert screening is not None
    assert acceptance is not None
    assert scores is not None
    if seen is None:
        assert screening.n == acceptance.n == scores.n == 0
        return
    through, accepted, counts = seen
    assert (screening.n, screening.counts) == (1, (through,))
    assert (acceptance.n, acceptance.counts) == ((1, (accepted,)) if gated else (0, (0,)))
    assert scores.counts == (counts or (0, 0, 0))


def test_drift_is_a_warning_said_once(caplog: pytest.LogCaptureFixture) -> None:
    audit, levels = standing(AuditPlan(thresholds=LEVELS, alpha=0.1, reference=REFERENCE))
    with caplog.at_level(logging.WARNING, "speceyes.audit"):
        for _ in range(300):
            audit.served(Verdict(Reason.TOOL_WOULD_HELP), gated=True)
    told = [record.getMessage() for record in caplog.records]
    assert sorted("screening" in line for line in told) == [False, True]
    assert all("calibrate again" in line for line in told)
    assert levels == []


def test_what_goes_wrong_in_an_audit_stays_there(caplog: pytest.LogCaptureFixture) -> None:
    def broken(level: int) -> None:
        raise RuntimeError("the gate is stuck")

    audit = Standing(begin(PLAN), tighten=broken)
    with caplog.at_level(logging.ERROR):
        losses_until_an_alarm(audit)
    assert "the gate is stuck" in caplog.text


# The plan


def test_without_a_limit_there_is_nothing_to_audit() -> None:
    by_hand = Calibration.manual(5.0)
    with pytest.raises(ConfigError, match=r"trust\.audit_alpha.*--risk disagreement"):
        check_trust(TrustSettings(mode="audit"), by_hand)
    check_trust(TrustSettings(mode="enforce"), by_hand)
    assert make_plan(TrustSettings(mode="audit", audit_alpha=0.05), by_hand).alpha == 0.05


def test_the_plan_is_the_calibrations_promise_and_the_settings() -> None:
    made = certified(7.0, 6.0, 5.0)
    plan = make_plan(TrustSettings(audit_share=0.2, audit_on_missing="loss", audit_on_change="warn"), made)
    assert plan.thresholds == (5.0, 6.0, 7.0)
    assert (plan.alpha, plan.delta, plan.share) == (0.1, 0.05, 0.2)
    assert (plan.on_missing, plan.on_change, plan.calibration) == ("loss", "warn", made.digest)


def test_every_level_of_the_plan_is_a_calibration() -> None:
    made = certified(7.0, 6.0, 5.0)
    plan = make_plan(TrustSettings(), made)
    for level in range(5):
        assert at_level(made, level).threshold == plan.threshold(level)
    assert at_level(made, 1).promises == made.promises
    by_hand = Calibration.manual(5.0, k=8)
    assert [at_level(by_hand, level).threshold for level in range(3)] == [5.0, None, None]


def test_a_threshold_by_hand_is_the_same_one_tomorrow_and_another_one_for_other_models() -> None:
    today = Calibration.manual(5.0)
    tomorrow = today.model_copy(update={"created": "2031-01-01"})
    assert identity(today, ["draft=a"]) == identity(tomorrow, ["draft=a"])
    assert identity(today, ["draft=a"]) != identity(today, ["draft=b"])
    assert identity(today) != identity(Calibration.manual(5.5))


def test_states_are_plain_data() -> None:
    audit, _ = standing()
    assert isinstance(audit.state, AuditState)
    assert audit.snapshot is audit.snapshot, "computed once for each state"
