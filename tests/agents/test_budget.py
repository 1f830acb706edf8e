"""What a run may spend."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.agents.budget import Budget
from speceyes.errors import ConfigError
from speceyes.types import Finish


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_turns": 0},
        {"max_tokens_per_turn": 0},
        {"max_tokens": 256, "closing_tokens": 256},
        {"closing_tokens": 0},
        {"max_seconds": 0},
        {"max_seconds": float("nan")},
    ],
)
def test_a_budget_that_allows_nothing_is_refused(wrong: dict) -> None:
    with pytest.raises(ConfigError, match="Budget"):
        Budget(**wrong)


@settings(max_examples=100)
@given(st.integers(1, 400), st.integers(1, 3000), st.integers(1, 300))
def test_turns_and_closing_request_never_exceed_the_tokens(per_turn: int, extra: int, closing: int) -> None:
    budget = Budget(
        max_turns=10**9,
        max_tokens_per_turn=per_turn,
        max_tokens=closing + extra,
        closing_tokens=closing,
    )
    spent = turns = 0
    while budget.exhausted(turns=turns, spent=spent, seconds=0) is None:
        assert 0 < budget.turn_tokens(spent) <= per_turn
        spent += budget.turn_tokens(spent)
        turns += 1
    assert spent + closing <= budget.max_tokens
    assert budget.exhausted(turns=turns, spent=spent, seconds=0) is Finish.TOKEN_LIMIT


def test_each_limit_has_its_own_name() -> None:
    budget = Budget(max_turns=2, max_tokens=1000, max_seconds=5.0)
    assert budget.exhausted(turns=1, spent=0, seconds=4.9) is None
    assert budget.exhausted(turns=2, spent=0, seconds=0.0) is Finish.TURN_LIMIT
    assert budget.exhausted(turns=1, spent=744, seconds=0.0) is Finish.TOKEN_LIMIT
    assert budget.exhausted(turns=1, spent=0, seconds=5.0) is Finish.TIME_LIMIT
