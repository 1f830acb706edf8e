"""How models are served while they are measured: with a place for every question under way, and no memory for others.

A server in this process keeps prompts that were pushed out of their slot, so that a question which comes again is
quick. Where several systems answer the same questions, one would live on what another has left. So that memory is off
here, and there are only as many slots as questions under way. What a query reuses of its own remains: a later phase or
turn finds the prompt of the one before in its slot. Servers elsewhere are as they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from speceyes.config import FunnelSettings, Settings
from speceyes.config.settings import EngineSettings
from speceyes.evals.baselines import Models
from speceyes.gating import Calibration
from speceyes.wiring import open_agent, open_draft

Chosen = TypeVar("Chosen", bound=EngineSettings)


def measured(settings: Settings, places: int) -> Settings:
    """The settings with which models are measured at so many questions at a time."""
    loops = places if settings.funnel.plan == "hedged" else 1
    return settings.model_copy(
        update={
            "draft": _forgetful(settings.draft),
            "agent": _forgetful(settings.agent),
            "trust": settings.trust.model_copy(update={"mode": "enforce"}),  # which needs no place beside these
            "funnel": FunnelSettings(plan=settings.funnel.plan, stateless=places, loops=loops),
        }
    )


@asynccontextmanager
async def open_models(settings: Settings, calibration: Calibration, places: int) -> AsyncIterator[Models]:
    """The pair, for so many questions at a time; closed afterwards.

    Raises:
        ConfigError: The settings cannot be carried out.
        EngineError: A server cannot be reached or does not start.
    """
    chosen = measured(settings, places)
    async with open_draft(chosen) as draft, open_agent(chosen) as agent:
        yield Models(draft, agent, calibration, settings.funnel.plan)


def _forgetful(chosen: Chosen) -> Chosen:
    if chosen.url is not None or chosen.prompt_cache_mib is not None:
        return chosen
    return chosen.model_copy(update={"prompt_cache_mib": 0})
