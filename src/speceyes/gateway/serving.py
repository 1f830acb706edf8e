"""What a running gateway is made of, and how it is put together and taken apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from speceyes.config import Settings
from speceyes.funnel import Funnel
from speceyes.gateway.access.setup import Access, build_access
from speceyes.gateway.names import Names
from speceyes.gateway.observe import Observer, open_observer
from speceyes.gateway.readiness import Readiness
from speceyes.gateway.speculation import Speculation, client_calibration, make_speculation, text_form
from speceyes.gateway.trust import Trust, check_trust, open_trust
from speceyes.gateway.upstream import Upstream
from speceyes.gating.agreement import same_answer
from speceyes.imaging.decode import DecodeLimits
from speceyes.phases import AgentModel, DraftModel
from speceyes.phases.gate import in_use
from speceyes.wiring import find_calibration, make_funnel, open_agent, open_draft


@dataclass(frozen=True)
class Gateway:
    """Everything that requests need.

    Attributes:
        funnel: Answers.
        settings: All of them.
        names: The models that clients may ask for.
        access: Who may ask, how much at a time, and how large.
        observer: What is told of requests: metrics, log lines, records, traces.
        draft: The draft's server, for what does not go down the funnel.
        agent: The agent's.
        readiness: Whether both answer.
        speculation: For clients that run the agent's loop themselves.
        trust: How far drafts are trusted, and what watches that.
    """

    funnel: Funnel
    settings: Settings
    names: Names
    access: Access
    observer: Observer
    draft: Upstream
    agent: Upstream
    readiness: Readiness
    speculation: Speculation
    trust: Trust

    @property
    def image_limits(self) -> DecodeLimits:
        """What is accepted as an image."""
        images = self.settings.images
        return DecodeLimits(max_bytes=images.max_bytes, max_pixels=images.max_pixels)


@asynccontextmanager
async def open_gateway(settings: Settings) -> AsyncIterator[Gateway]:
    """Start or reach the models that the settings name, and everything around them.

    Raises:
        ConfigError: The settings cannot be carried out.
        EngineError: A server cannot be reached or does not start.
    """
    form = text_form(settings)
    names = Names(settings.serve.aliases, form.name if form else None)
    access = build_access(settings)
    check_trust(settings.trust, find_calibration(settings))  # faults show before anything is started
    client_calibration(settings)
    try:
        async with (
            open_draft(settings) as draft,
            open_agent(settings) as agent,
            _observer(settings, draft, agent, names) as observer,
        ):
            funnel = make_funnel(settings, draft, agent, listen=observer.listen, in_service=True)
            speculation = make_speculation(settings, funnel)
            others = [speculation.funnel] if speculation.funnel else []
            async with open_trust(settings, funnel, observer, draft=draft, agent=agent, others=others) as trust:
                yield _put_together(settings, funnel, names, access, observer, speculation, trust)
    finally:
        access.fetcher.close()


def _observer(
    settings: Settings, draft: DraftModel, agent: AgentModel, names: Names
) -> AbstractAsyncContextManager[Observer]:
    return open_observer(
        settings.observe,
        settings.store,
        draft=draft.engine.model,
        agent=agent.engine.model,
        names=names.all,
        setup=in_use(draft, agent),
        agree=same_answer,
    )


def _put_together(
    settings: Settings,
    funnel: Funnel,
    names: Names,
    access: Access,
    observer: Observer,
    speculation: Speculation,
    trust: Trust,
) -> Gateway:
    pools = observer.metrics.gauges
    pools.watch_pool("stateless", funnel.stateless)
    pools.watch_pool("loops", funnel.loops)
    pools.watch_pool("admission", access.admission)
    draft, agent = Upstream.of(funnel.draft.engine), Upstream.of(funnel.agent.engine)
    return Gateway(
        funnel,
        settings,
        names,
        access,
        observer,
        draft,
        agent,
        Readiness(draft, agent),
        speculation,
        trust,
    )
