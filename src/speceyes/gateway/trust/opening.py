"""From settings to trust: the plan, the saved state, the gates at their level, and what runs beside the requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from speceyes.config import Settings, TrustSettings
from speceyes.errors import ConfigError
from speceyes.events import Event, Misconfigured
from speceyes.funnel import Funnel
from speceyes.gateway.observe import Observer
from speceyes.gateway.trust.auditor import Auditor
from speceyes.gateway.trust.budget import HourlyBudget
from speceyes.gateway.trust.keeping import StateFile, read_state
from speceyes.gateway.trust.onlooker import Onlooker
from speceyes.gateway.trust.planning import at_level, identity, make_plan
from speceyes.gateway.trust.rollout import Rollout
from speceyes.gateway.trust.standing import Standing
from speceyes.gateway.trust.telling import log_resumed, watch_trust
from speceyes.gateway.trust.trust import Trust
from speceyes.gating import Calibration
from speceyes.gating.audit import AuditState, begin, resume
from speceyes.phases import AgentModel, DraftModel
from speceyes.phases.gate import in_use
from speceyes.store import state_folder
from speceyes.wiring import make_funnel

STATE_FILE = "audit.json"

Tighten = Callable[[int], None]


@asynccontextmanager
async def open_trust(
    settings: Settings,
    funnel: Funnel,
    observer: Observer,
    *,
    draft: DraftModel,
    agent: AgentModel,
    others: Sequence[Funnel] = (),
) -> AsyncIterator[Trust]:
    """Trust as the settings want it. On leaving, what runs beside the requests is ended, and the state is written.

    Args:
        settings: All of them.
        funnel: The gateway's, with its calibration as it was made.
        observer: Is told of audits, and shows the metrics.
        draft: The draft model, without a circuit breaker: what runs beside the requests gets one of its own.
        agent: The agent, likewise.
        others: Further funnels whose gates are tightened too.

    Raises:
        ConfigError: What is to be audited has no limit; or the saved state is damaged, in use, or of other settings.
    """
    chosen, deadline_s = settings.trust, settings.serve.deadline_s
    beside = _beside(settings, draft, agent, observer)
    gates = [(gate, gate.calibration) for gate in (funnel, beside, *others)]

    def tighten(level: int) -> None:
        for gate, made in gates:
            gate.use(at_level(made, level))

    async with _open_standing(chosen, funnel, tighten) as (standing, key):
        trust = Trust(chosen.mode, Rollout(chosen), funnel, standing=standing)
        if chosen.mode == "observe":
            trust.onlooker = Onlooker(beside, standing, deadline_s=deadline_s)
        if chosen.mode == "audit" and standing is not None:
            budget = HourlyBudget(chosen.audits_per_hour)
            trust.auditor = Auditor(standing, beside, observer, key=key, budget=budget, deadline_s=deadline_s)
        watch_trust(observer.metrics.gauges, trust)
        try:
            yield trust
        finally:
            await trust.close(chosen.drain_s)


@asynccontextmanager
async def _open_standing(
    chosen: TrustSettings, funnel: Funnel, tighten: Tighten
) -> AsyncIterator[tuple[Standing | None, str]]:
    """The audit, and the secret of its draws.

    Without audits it is only read: a gate that was tightened stays so, and the drift monitors look on from where they
    were.
    """
    setup = [f"{name}={value}" for name, value in sorted(in_use(funnel.draft, funnel.agent).items())]
    path = chosen.audit_state or state_folder() / STATE_FILE
    if chosen.mode != "audit":
        state = _read_only(chosen, funnel.calibration, setup, path)
        if state is None:
            yield None, ""
            return
        _resume_at(state, tighten)
        yield Standing(state, tighten=tighten), ""
        return
    file = StateFile(path)
    try:
        plan = make_plan(chosen, funnel.calibration, setup)
        saved = read_state(path)
        state = begin(plan) if saved is None else resume(saved, plan)
        file.check(state)
        _resume_at(state, tighten)
        standing = Standing(state, tighten=tighten, file=file)
        try:
            yield standing, file.secret()
        finally:
            await standing.aclose()
    finally:
        file.close()


def _read_only(chosen: TrustSettings, calibration: Calibration, setup: Sequence[str], path: Path) -> AuditState | None:
    """The saved state, if it is of this calibration; else one for the drift monitors alone, if they can be."""
    saved = read_state(path)
    if saved is not None and saved.plan.calibration == identity(calibration, setup):
        return saved
    if calibration.traffic is None:
        return None
    try:
        return begin(make_plan(chosen, calibration, setup))
    except ConfigError:
        return None  # nothing to audit, and nobody wants to


def _resume_at(state: AuditState, tighten: Tighten) -> None:
    tighten(state.level)
    log_resumed(state)


def _beside(settings: Settings, draft: DraftModel, agent: AgentModel, observer: Observer) -> Funnel:
    """A funnel over the same models, with places and breakers of its own: its faults are not those of the requests."""

    def misconfigured(event: Event) -> None:
        if isinstance(event, Misconfigured):
            observer.listen(event)

    places = {
        "stateless": settings.trust.observe_at_once,
        "loops": settings.trust.audits_at_once,
        "draft_when_agent_down_threshold": None,
        "deadline_s": None,
    }
    apart = settings.model_copy(update={"funnel": settings.funnel.model_copy(update=places)})
    return make_funnel(apart, draft, agent, listen=misconfigured, in_service=True)
