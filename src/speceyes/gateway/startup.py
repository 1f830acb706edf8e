"""What the models' servers lack, found out before the first request comes.

A draft's server that gives fewer log-probs than the gate scores ends the start: every query would go to the agent, and
nobody would know why. A server that is not there now may be later, so that is a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from speceyes.config import Settings
from speceyes.engines.client import ChatClient
from speceyes.engines.findings import Feature, Outcome
from speceyes.engines.probe import Probe, probe
from speceyes.errors import ConfigError
from speceyes.gateway.serving import Gateway
from speceyes.phases.screen import SCREEN_LOGPROBS

CHECK_S = 20.0
"""Seconds that one question may take."""

_OF_DRAFT = (Feature.LOGPROBS, Feature.LOGPROB_COUNT, Feature.RAW_LOGPROBS, Feature.SENTINELS, Feature.IMAGES)
_OF_AGENT = (Feature.LOGPROBS, Feature.LOGPROB_COUNT, Feature.TWO_IMAGES, Feature.STOP, Feature.TOOLS_RENDERED)


async def check_upstreams(gateway: Gateway, settings: Settings, say: Callable[[str], None]) -> list[str]:
    """Ask the servers that are not ours for what the gate and the agent need.

    Args:
        gateway: Its clients are used.
        settings: They say which servers are in this process, and need no check.
        say: Is told what is being done.

    Returns:
        Sentences for the person who runs the gateway.

    Raises:
        ConfigError: The draft's server gives too few log-probs, or knows no such model; or the agent's does not.
    """
    k = gateway.funnel.calibration.k
    jobs: dict[str, asyncio.Task[Probe]] = {}
    async with asyncio.TaskGroup() as group:
        if settings.draft.url is not None:
            jobs["draft"] = group.create_task(_ask(gateway.draft.client, k, _OF_DRAFT))
        if settings.agent.url is not None:
            jobs["agent"] = group.create_task(_ask(gateway.agent.client, SCREEN_LOGPROBS, _OF_AGENT))
        if jobs:
            say("Asking the models' servers what they can do")
    for role, job in jobs.items():
        _refuse_unusable(role, job.result())
    if "draft" in jobs:
        _refuse_few_logprobs(jobs["draft"].result(), k)
    wanted = {"draft": k, "agent": SCREEN_LOGPROBS}
    return [
        f"{role} ({job.result().model}): {sentence}"
        for role, job in jobs.items()
        for sentence in job.result().warnings(wanted[role])
    ]


async def _ask(client: ChatClient, k: int, features: tuple[Feature, ...]) -> Probe:
    return await probe(client, want_logprobs=k, check_timeout_s=CHECK_S, features=features)


def _refuse_unusable(role: str, found: Probe) -> None:
    chat = found[Feature.CHAT]
    if chat.outcome is Outcome.NO:
        raise ConfigError(f"the {role}'s server refuses a plain question to the model {found.model}: {chat.detail}")


def _refuse_few_logprobs(found: Probe, k: int) -> None:
    count = found[Feature.LOGPROB_COUNT]
    if count.outcome is Outcome.NO and 0 < found.usable_k < k:
        raise ConfigError(
            f"the draft's server gives {found.usable_k} log-probs a token, and the gate scores {k} ({count.detail}). "
            f"Start vLLM with --max-logprobs {k + 1}, or use a calibration that was made for K = {found.usable_k} "
            f"(--calibration; by hand, --threshold with --k {found.usable_k})"
        )
