"""Rollout: a share of the requests, always the same users or keys, and whoever is in stays in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.config import TrustSettings
from speceyes.gateway.trust.rollout import Rollout

names = st.text(min_size=1, max_size=12)
percents = st.floats(0, 100)


def rollout(**settings: Any) -> Rollout:
    return Rollout(TrustSettings(**settings))


@given(names, st.none() | names, st.none() | names, st.sampled_from(["user", "key", "request"]))
def test_nobody_is_in_nothing_and_everybody_in_all(request: str, key: str | None, user: str | None, by: str) -> None:
    assert not rollout(rollout=0, rollout_by=by).includes(request, key=key, user=user)
    assert rollout(rollout=100, rollout_by=by).includes(request, key=key, user=user)


@given(names, names, names, percents, percents, st.sampled_from(["user", "key", "request"]))
def test_who_is_in_stays_in_when_the_share_grows(
    request: str, key: str, user: str, one: float, other: float, by: str
) -> None:
    low, high = sorted((one, other))
    if rollout(rollout=low, rollout_by=by).includes(request, key=key, user=user):
        assert rollout(rollout=high, rollout_by=by).includes(request, key=key, user=user)


@given(names, names, names, names, percents)
def test_the_same_user_or_key_always_fares_alike(first: str, second: str, key: str, user: str, percent: float) -> None:
    by_user, by_key = rollout(rollout=percent), rollout(rollout=percent, rollout_by="key")
    assert by_user.includes(first, key=key, user=user) == by_user.includes(second, key=key, user=user)
    assert by_key.includes(first, key=key, user=user) == by_key.includes(second, key=key)


@pytest.mark.parametrize(
    ("settings", "who"),
    [
        ({"rollout_by": "user"}, lambda i: {"key": "team", "user": f"u{i}"}),
        ({"rollout_by": "user"}, lambda i: {"key": "team"}),  # without a user each request is drawn by itself
        ({"rollout_by": "key"}, lambda i: {"key": f"k{i}"}),
        ({"rollout_by": "key"}, lambda i: {}),
        ({"rollout_by": "request"}, lambda i: {"key": "team", "user": "u"}),
    ],
    ids=["users", "no user", "keys", "no key", "requests"],
)
def test_the_share_is_what_was_asked_for(settings: dict[str, Any], who: Any) -> None:
    drawn = rollout(rollout=30, **settings)
    share = sum(drawn.includes(f"r{i}", **who(i)) for i in range(4000)) / 4000
    assert abs(share - 0.3) < 0.03  # more than four standard errors


def test_a_key_may_have_a_share_of_its_own() -> None:
    drawn = rollout(rollout=0, rollout_keys={"pilot": 100, "half": 50})
    assert drawn.includes("r", key="pilot")
    assert not drawn.includes("r", key="other")
    assert not drawn.includes("r")
    assert {drawn.includes(f"r{i}", key="half") for i in range(50)} == {True, False}
