"""The estimate of the time saved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gateway.observe.savings import ENOUGH, Savings


def test_drafts_before_the_first_run_are_counted_with_it() -> None:
    savings = Savings()
    assert [savings.accepted() for _ in range(3)] == [0.0, 0.0, 0.0]
    assert savings.agent_ran(4.0, accepted=False) == pytest.approx(12.0)
    assert savings.agent_ran(2.0, accepted=False) == 0.0
    assert savings.accepted() == pytest.approx(3.0)


def test_runs_on_accepted_queries_count_for_more_once_there_are_enough() -> None:
    savings = Savings()
    for _ in range(100):
        savings.agent_ran(10.0, accepted=False)
    for _ in range(ENOUGH - 1):
        savings.agent_ran(1.0, accepted=True)
    assert savings.accepted() > 5
    savings.agent_ran(1.0, accepted=True)
    assert savings.accepted() == pytest.approx(1.0)


@given(st.lists(st.tuples(st.booleans(), st.floats(0.001, 100)), max_size=60))
def test_what_is_saved_lies_between_the_shortest_and_the_longest_run(events: list[tuple[bool, float]]) -> None:
    savings = Savings()
    drafts, total, runs = 0, 0.0, []
    for is_draft, seconds in events:
        if is_draft:
            drafts += 1
            total += savings.accepted()
        else:
            runs.append(seconds)
            total += savings.agent_ran(seconds, accepted=False)
    if runs and drafts:
        assert total <= drafts * max(runs) * 1.000001
    else:
        assert total == 0.0
