"""The section `trust`: where it is read from, and what is refused."""

from __future__ import annotations

import pytest

from speceyes.config import Settings, load_settings
from speceyes.errors import ConfigError


def test_percentages_by_key_come_from_the_environment_in_one_line() -> None:
    settings = load_settings(env={"SPECEYES_TRUST__ROLLOUT_KEYS": "team-a=100, team-b=0.5"})
    assert settings.trust.rollout_keys == {"team-a": 100.0, "team-b": 0.5}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("MODE", "trusting", "'observe', 'enforce' or 'audit'"),
        ("ROLLOUT", "101", "less than or equal to 100"),
        ("ROLLOUT_KEYS", "team-a", "NAME=PERCENT"),
        ("ROLLOUT_KEYS", "team-a=200", "less than or equal to 100"),
        ("AUDIT_ALPHA", "0", "greater than 0"),
        ("AUDIT_SHARE", "0", "greater than 0"),
        ("AUDITS_AT_ONCE", "0", "greater than or equal to 1"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_settings(env={f"SPECEYES_TRUST__{name}": value})


@pytest.mark.parametrize(("mode", "calls"), [("observe", (3, 3)), ("enforce", (0, 0)), ("audit", (0, 5))])
def test_what_runs_beside_the_requests_gets_calls_of_its_own(mode: str, calls: tuple[int, int]) -> None:
    chosen = load_settings(
        env={}, overrides={"trust.mode": mode, "trust.observe_at_once": 3, "trust.audits_at_once": 5}
    )
    assert (chosen.trust.draft_calls, chosen.trust.agent_calls) == calls


def test_drafts_are_trusted_where_nothing_is_said() -> None:
    trust = Settings().trust
    assert (trust.mode, trust.rollout, trust.audit_alpha) == ("enforce", 100.0, None)
