"""Which queries are audited, and in which order they count."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import InputError
from speceyes.gating.audit import InOrder, is_chosen


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_the_share_is_kept_and_every_key_draws_anew(share):
    n = 20_000
    room = 4 * math.sqrt(n * share * (1 - share))
    first, second = ([is_chosen(f"q{i}", share, key) for i in range(n)] for key in ("a", "b"))
    assert abs(sum(first) - n * share) < room
    both = sum(x and y for x, y in zip(first, second, strict=True))
    assert abs(both - n * share * share) < room


@given(st.text(), st.text(), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_holds_the_smaller_ones_queries(query, key, one, other):
    low, high = sorted((one, other))
    assert is_chosen(query, high, key) or not is_chosen(query, low, key)
    assert is_chosen(query, 1.0, key)
    assert not is_chosen(query, 0.0, key)


def test_where_the_key_ends_counts():
    draws = [is_chosen("b" + str(i), 0.5, "a") == is_chosen(str(i), 0.5, "ab") for i in range(200)]
    assert not all(draws)


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_shares_that_cannot_be(share):
    with pytest.raises(InputError, match="share"):
        is_chosen("q", share, "key")


@given(st.permutations(range(12)))
def test_results_come_back_in_the_order_of_their_beginning(ends):
    order: InOrder[int] = InOrder()
    tickets = [order.open() for _ in range(12)]
    released: list[int] = []
    for done, index in enumerate(ends, 1):
        released += order.close(tickets[index], index)
        assert len(order) == 12 - len(released)
        # As many as there can be: all up to the first that is still under way
        assert len(released) == min(set(range(13)) - set(ends[:done]))
    assert released == list(range(12))


def test_tickets_are_closed_once():
    order: InOrder[str] = InOrder()
    first, second = order.open(), order.open()
    assert order.close(second, "b") == []
    for wrong in (second, 2, -1):
        with pytest.raises(InputError, match="not open"):
            order.close(wrong, "again")
    assert order.close(first, "a") == ["a", "b"]
    with pytest.raises(InputError, match="not open"):
        order.close(first, "again")
