"""Phase III: pure decisions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.gating import Calibration
from speceyes.phases.gate import gate, gate_screening
from speceyes.types import Draft, Reason, Route, Screening, Token

SURE = Token("B", -0.01, (-0.01, -6.0, -6.5, -7.0), ("B", "A", "C", "D"))
TORN = Token("B", -0.7, (-0.7, -0.71, -4.0, -5.0), ("B", "A", "C", "D"))
EASY = Calibration.manual(2.0, k=4)


def test_a_sure_draft_is_accepted_with_its_score() -> None:
    verdict = gate(Draft("B", (SURE,)), EASY)
    assert verdict.accepted
    assert verdict.reason is Reason.ACCEPTED
    assert verdict.reason.route is Route.DRAFT
    assert verdict.score == pytest.approx((6.5 - 0.01) / (0.5 / 1.5**0.5 + 1e-6))
    assert verdict.threshold == 2.0


def test_a_torn_draft_is_refused_and_keeps_its_score() -> None:
    verdict = gate(Draft("B", (SURE, TORN)), EASY)
    assert verdict.reason is Reason.BELOW_THRESHOLD
    assert verdict.score is not None
    assert verdict.score < 2.0


@pytest.mark.parametrize("fault", [Reason.LOGPROBS_MISSING, Reason.TRUNCATED_ANSWER, Reason.LOGPROBS_MISALIGNED])
def test_a_fault_of_the_draft_is_the_reason(fault: Reason) -> None:
    verdict = gate(Draft("B", (SURE,), fault), EASY)
    assert verdict.reason is fault
    assert verdict.score is None
    assert verdict.reason.route is Route.AGENT


def test_more_logprobs_than_the_server_gave_are_no_confidence() -> None:
    assert gate(Draft("B", (SURE,)), Calibration.manual(0.0, k=64)).reason is Reason.LOGPROBS_TOO_FEW


def test_an_infeasible_calibration_accepts_nothing() -> None:
    infeasible = Calibration(
        threshold=None, k=4, method="ltt", n=10, draft_model="d", agent_model="a", draft_prompt="p", data="h"
    )
    assert gate(Draft("B", (SURE,)), infeasible).reason is Reason.INFEASIBLE


@pytest.mark.parametrize(
    ("yes", "no", "reason"),
    [
        (0.9, 0.1, Reason.TOOL_WOULD_HELP),
        (0.1, 0.9, None),
        (0.5, 0.5, None),
        (0.0, 0.0, Reason.SCREEN_UNREADABLE),
        (0.02, 0.01, Reason.TOOL_WOULD_HELP),
    ],
)
def test_screening(yes: float, no: float, reason: Reason | None) -> None:
    verdict = gate_screening(Screening(yes, no), EASY)
    assert (verdict.reason if verdict else None) is reason


numbers = st.floats(allow_nan=True, allow_infinity=True) | st.just(-9999.0)
tokens = st.builds(
    Token, st.text(max_size=3), st.none() | numbers, st.lists(numbers, max_size=6).map(tuple), st.just(())
)


@given(st.lists(tokens, max_size=4), st.floats(0.5, 5.0))
@settings(max_examples=150)
def test_whatever_a_server_sends_the_gate_answers_and_an_accept_has_a_score(found: list[Token], at: float) -> None:
    verdict = gate(Draft("x", tuple(found)), Calibration.manual(at, k=4))
    if verdict.accepted:
        assert verdict.score is not None
        assert verdict.score >= at
    else:
        assert verdict.reason.route is Route.AGENT
