"""Measured models: a place for every question under way, and no memory for those of others."""

from __future__ import annotations

import pytest

from speceyes.config import FunnelSettings, Settings, load_settings
from speceyes.evals.serving import measured


@pytest.mark.parametrize(("plan", "loops"), [("paper", 1), ("hedged", 6), ("auto", 1)])
def test_places_follow_from_the_concurrency(plan: str, loops: int) -> None:
    given = load_settings(overrides={"funnel.plan": plan, "funnel.stateless": 50, "trust.mode": "observe"}, env={})
    chosen = measured(given, 6)
    assert (chosen.funnel.stateless, chosen.funnel.loops, chosen.funnel.plan) == (6, loops, plan)
    assert (chosen.trust.draft_calls, chosen.trust.agent_calls) == (0, 0)


def test_only_models_in_this_process_forget_and_not_if_told_otherwise() -> None:
    assert measured(Settings(), 1).draft.prompt_cache_mib == measured(Settings(), 1).agent.prompt_cache_mib == 0
    served = load_settings(overrides={"agent.url": "http://127.0.0.1:1"}, env={})
    assert measured(served, 1).agent.prompt_cache_mib is None
    told = load_settings(overrides={"draft.prompt_cache_mib": 8}, env={})
    assert measured(told, 1).draft.prompt_cache_mib == 8
    assert Settings().funnel == FunnelSettings()
