"""Both models and the calibration from the settings, and the funnel over them."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from speceyes.agents import Budget, Dialect, default_budget, make_dialect
from speceyes.agents.dialects import is_coding
from speceyes.config import AgentSettings, BreakerSettings, FunnelSettings, Settings
from speceyes.engines.breaker import CircuitBreaker
from speceyes.engines.circuit import Circuit
from speceyes.engines.client import Engine
from speceyes.engines.nano import NANO_ZOOM_CONTEXT, nano_files
from speceyes.errors import ConfigError
from speceyes.events import Listener, ignore
from speceyes.funnel import Funnel
from speceyes.gating import Calibration
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import PixelLimits
from speceyes.phases import AgentModel, DraftModel
from speceyes.phases.speculate import LOOK, PROMPT
from speceyes.scheduling import AdaptiveLimit, planner_of
from speceyes.tools.base import Tool
from speceyes.wiring.code import code_tools
from speceyes.wiring.engines import open_engine
from speceyes.wiring.prompts import read_prompts

LOOPS_HERE = 16
"""Agent loops for which a model in this process has room where their number is found out. Each slot takes memory from
the start, and on processors that few machines have so many of, more would not get more done."""
NANO_TURN_TOKENS = 256
"""Far more than a turn of the nano agent needs, and little enough that six such turns fit its context."""


@asynccontextmanager
async def open_funnel(
    settings: Settings, *, listen: Listener = ignore, in_service: bool = False
) -> AsyncIterator[Funnel]:
    """Everything that the settings name, ready to answer; closed in reverse order, also on errors and cancellation.

    `in_service` as for `make_funnel`.

    Raises:
        ConfigError: The settings cannot be carried out, or name no calibration for these models.
        EngineError: A server cannot be reached or does not start.
    """
    find_calibration(settings)  # its faults show before anything is started
    async with open_draft(settings) as draft, open_agent(settings) as agent:
        yield make_funnel(settings, draft, agent, listen=listen, in_service=in_service)


@asynccontextmanager
async def open_draft(settings: Settings) -> AsyncIterator[DraftModel]:
    """The draft model alone. Raises as `open_funnel`, but needs no calibration."""
    chosen = settings.draft
    async with open_engine("draft", chosen, calls=settings.funnel.stateless + settings.trust.draft_calls) as engine:
        yield DraftModel(
            engine.client,
            engine.limits,
            prompt=chosen.prompt or PROMPT,
            max_tokens=chosen.max_tokens,
            logprobs=chosen.logprobs or _k(settings),
            fingerprint=engine.fingerprint,
            **looks_of(settings),
        )


@asynccontextmanager
async def open_agent(settings: Settings) -> AsyncIterator[AgentModel]:
    """The agent alone. Raises as `open_funnel`, but needs no calibration."""
    chosen, funnel = settings.agent, settings.funnel
    calls = funnel.stateless + _loops(funnel, chosen) + settings.trust.agent_calls
    # Faults show before anything is started.
    code = await code_tools(make_agent_dialect(chosen), settings.sandbox)
    async with open_engine("agent", chosen, calls=calls) as engine:
        dialect = make_agent_dialect(chosen, engine.limits, code)
        yield AgentModel(engine.client, dialect, _budget(chosen, dialect), engine.fingerprint)


def make_funnel(
    settings: Settings, draft: DraftModel, agent: AgentModel, *, listen: Listener = ignore, in_service: bool = False
) -> Funnel:
    """The funnel over models that are open already.

    Args:
        settings: What it is to be like.
        draft: The draft model.
        agent: The agent.
        listen: Is told of everything.
        in_service: For a program that has to go on: each server gets a circuit breaker (the models' `engine` is one
            then), and one that is not set up as it must be is an event and not an error.

    Raises:
        ConfigError: There is no calibration for them; `CalibrationMismatch` where it is for others.
    """
    chosen = settings.funnel
    calibration = find_calibration(settings)
    if in_service:
        draft = dataclasses.replace(draft, engine=_breaker(draft.engine, settings.breaker, listen))
        agent = dataclasses.replace(agent, engine=_breaker(agent.engine, settings.breaker, listen))
    return Funnel(
        draft,
        agent,
        calibration,
        stateless=chosen.stateless,
        loops=AdaptiveLimit(most=chosen.max_loops) if chosen.loops == "auto" else chosen.loops,
        listen=listen,
        deadline_s=chosen.deadline_s,
        retries=chosen.retries,
        stand_in_threshold=chosen.draft_when_agent_down_threshold,
        planner=planner_of(chosen.plan),
        strict=not in_service,
    )


def looks_of(settings: Settings) -> dict[str, Any]:
    """How the draft model looks closer: fields of `DraftModel`."""
    chosen, nano = settings.speculation, settings.draft.is_nano
    context = chosen.zoom_context
    return {
        "max_depth": chosen.max_depth,
        "look_prompt": chosen.look_prompt or LOOK,
        "coordinates": Coordinates(chosen.coordinates or ("per_mille" if nano else "resized")),
        "zoom_context": (NANO_ZOOM_CONTEXT if nano else 0.0) if context is None else context,
    }


def _loops(funnel: FunnelSettings, agent: AgentSettings) -> int:
    """For how many loops the agent's engine is set up. More may run; then calls wait in the engine."""
    if funnel.loops != "auto":
        return funnel.loops
    return funnel.max_loops if agent.url is not None else min(funnel.max_loops, LOOPS_HERE)


def _breaker(engine: Engine, chosen: BreakerSettings, listen: Listener) -> CircuitBreaker:
    circuit = Circuit(failures=chosen.failures, pause_s=chosen.pause_s, max_pause_s=chosen.max_pause_s)
    return CircuitBreaker(engine, circuit, silent_s=chosen.silent_s, listen=listen)


def find_calibration(settings: Settings) -> Calibration:
    """The calibration that the settings name; for the nano pair, the one that comes with it.

    Raises:
        ConfigError: There is none, or its file is damaged.
    """
    found = _calibration(settings)
    if found is not None:
        return found
    if _is_nano_pair(settings):
        file = nano_calibration_file(settings.speculation.max_depth)
        raise ConfigError(
            f"the nano pair's calibration {file} is missing: fetch it with the repository, make it "
            "with `make train-nano`, or set a threshold by hand (--threshold, gate.threshold), which promises nothing"
        )
    raise ConfigError(
        "no threshold is known for these models: it depends on both of them and on their prompts. Name a calibration "
        "that was made for them (--calibration, gate.calibration), or set a threshold by hand (--threshold, "
        "gate.threshold), which promises nothing"
    )


def nano_calibration_file(max_depth: int = 0) -> Path:
    """Where the nano pair's calibration for looks of this depth is, or should be.

    Raises:
        ConfigError: The nano models are not there.
    """
    name = "calibration.json" if max_depth == 0 else f"calibration-depth-{max_depth}.json"
    return nano_files().draft.parent / name


def nano_options(dialect: str) -> dict[str, Any]:
    """The options of a dialect as the nano agent has learned to speak it, but for the size of its pictures."""
    options: dict[str, Any] = {"max_tokens_per_turn": NANO_TURN_TOKENS}
    if is_coding(dialect):  # its own code crops
        return options
    return options | {"zoom_context": NANO_ZOOM_CONTEXT, "zoom_notes": False}


def make_agent_dialect(chosen: AgentSettings, limits: PixelLimits | None = None, code: Sequence[Tool] = ()) -> Dialect:
    """The dialect as the settings have it, for a model that takes these sizes of picture, with what runs its code.

    Raises:
        ConfigError: There is no such dialect, it lacks an option, or the prompts' file is wrong.
    """
    options: dict[str, Any] = {} if limits is None else {"limits": limits}
    if code:
        options["toolbox"] = code
    if chosen.is_nano:
        options |= nano_options(chosen.dialect)
    if chosen.coordinates is not None:
        options["coordinates"] = Coordinates(chosen.coordinates)
    for name in ("zoom_context", "result_form", "max_turns", "max_tokens_per_turn"):
        if (value := getattr(chosen, name)) is not None:
            options[name] = value
    if chosen.prompts is not None:
        options["prompts"] = read_prompts(chosen.prompts, make_dialect(chosen.dialect).prompts)
    return make_dialect(chosen.dialect, **options)


def _budget(chosen: AgentSettings, dialect: Dialect) -> Budget:
    limits = {"max_tokens": chosen.max_tokens, "max_seconds": chosen.max_seconds}
    given: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    try:
        return dataclasses.replace(default_budget(dialect), **given)
    except ConfigError as error:
        raise ConfigError(f"agent: {error}") from error


def _calibration(settings: Settings) -> Calibration | None:
    gate = settings.gate
    if gate.calibration is not None:
        return Calibration.load(gate.calibration)
    if gate.threshold is not None:
        return Calibration.manual(
            gate.threshold,
            score=gate.score,
            k=gate.k,
            aggregate=gate.aggregate,
            screen_threshold=gate.screen_threshold,
            notes="threshold from the settings",
        )
    if _is_nano_pair(settings) and (shipped := nano_calibration_file(settings.speculation.max_depth)).is_file():
        return Calibration.load(shipped)
    return None


def _is_nano_pair(settings: Settings) -> bool:
    return settings.draft.is_nano and settings.agent.is_nano


def _k(settings: Settings) -> int:
    """How many log-probs the gate will score: those of the calibration, where there is one already."""
    found = _calibration(settings)
    return settings.gate.k if found is None else found.k
