"""What can this server do? Found out by asking it, one small request after the other.

    models, chat                            is there a model of that name, and does it answer?
    logprobs ... token_identity             what the gate reads           (probe_logprobs)
    images ... slots                        what the agent shows          (probe_vision)
    stop ... tools_rendered                 what the loop relies on       (probe_control)

A check never aborts the others, and says `unknown` rather than guess.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

from speceyes.engines.client import ChatClient
from speceyes.engines.findings import NOT_ASKED, Feature, Finding, Outcome, no, unknown, yes
from speceyes.engines.probe_asker import Asker
from speceyes.engines.probe_control import cancel, stop, stop_included, tools_rendered
from speceyes.engines.probe_logprobs import (
    logprob_count,
    logprobs,
    raw_logprobs,
    sampled_first,
    sentinels,
    token_identity,
)
from speceyes.engines.probe_vision import images, prefix_cache, slots, tool_images, two_images
from speceyes.engines.probe_warnings import warnings
from speceyes.errors import EngineError, EngineProtocolError, EngineRefused

CHECK_S = 60.0
"""Seconds that one check may take."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a server can do.

    Attributes:
        url: The base of its API.
        model: The model that was asked.
        want_logprobs: The K that was tried.
        findings: One for each `Feature`, in their order.
        seconds: How long the probe took.
    """

    url: str
    model: str
    want_logprobs: int
    findings: tuple[Finding, ...]
    seconds: float

    def __getitem__(self, feature: Feature) -> Finding:
        return next(finding for finding in self.findings if finding.feature is feature)

    @property
    def usable_k(self) -> int:
        """The largest K, up to `want_logprobs`, for which each token comes with K log-probs; 0 for none."""
        return self[Feature.LOGPROB_COUNT].number or 0

    def warnings(self, k: int) -> list[str]:
        """What a gate with this K and its agent need and do not get, as plain sentences with the way out."""
        return warnings(self.findings, self.model, k)

    def as_json(self) -> dict[str, Any]:
        """The probe in plain JSON types."""
        return {
            "url": self.url,
            "model": self.model,
            "want_logprobs": self.want_logprobs,
            "usable_k": self.usable_k,
            "seconds": round(self.seconds, 3),
            "findings": {finding.feature.value: _plain(finding) for finding in self.findings},
        }


async def probe(
    client: ChatClient,
    *,
    want_logprobs: int = 64,
    check_timeout_s: float = CHECK_S,
    features: Collection[Feature] = tuple(Feature),
) -> Probe:
    """Find out what a server can do: about 25 requests of a few tokens, one after the other.

    On a server that others use at the same time, `cancel` and `prefix_cache` may come out as unknown.

    Args:
        client: For the server and the model to ask.
        want_logprobs: The K that the gate will use.
        check_timeout_s: Seconds that one check may take.
        features: What to ask about beside `models` and `chat`; the others are `unknown`, and no warning tells of them.
    """
    begin = time.perf_counter()
    asker = Asker(client, want_logprobs)
    findings = [await _run(feature, _CHECKS[feature], asker, check_timeout_s) for feature in _FIRST]
    answers = findings[-1].outcome is Outcome.YES
    for feature in list(Feature)[len(_FIRST) :]:
        if feature not in features:
            findings.append(unknown(feature, NOT_ASKED))
        elif answers:
            findings.append(await _run(feature, _CHECKS[feature], asker, check_timeout_s))
        else:
            findings.append(unknown(feature, "not asked: a plain question got no answer"))
    return Probe(client.url, client.model, want_logprobs, tuple(findings), time.perf_counter() - begin)


async def _models(asker: Asker) -> Finding:
    names = await asker.client.models()
    if asker.client.model in names:
        return yes(Feature.MODELS, f"the server lists {asker.client.model!r}")
    return no(Feature.MODELS, f"the server lists {', '.join(map(repr, names[:8])) or 'no model'}")


async def _chat(asker: Asker) -> Finding:
    completion = await asker.ask("Name a colour.", max_tokens=8)
    usage = completion.usage
    return yes(
        Feature.CHAT,
        f"{completion.text[:40]!r} after {completion.seconds:.2f} s"
        + ("" if usage.prompt_tokens is not None else "; the server does not count tokens"),
    )


_CHECKS: dict[Feature, Callable[[Asker], Awaitable[Finding]]] = {
    Feature.MODELS: _models,
    Feature.CHAT: _chat,
    Feature.LOGPROBS: logprobs,
    Feature.LOGPROB_COUNT: logprob_count,
    Feature.RAW_LOGPROBS: raw_logprobs,
    Feature.SAMPLED_FIRST: sampled_first,
    Feature.SENTINELS: sentinels,
    Feature.TOKEN_IDENTITY: token_identity,
    Feature.IMAGES: images,
    Feature.TWO_IMAGES: two_images,
    Feature.TOOL_IMAGES: tool_images,
    Feature.PREFIX_CACHE: prefix_cache,
    Feature.SLOTS: slots,
    Feature.STOP: stop,
    Feature.STOP_INCLUDED: stop_included,
    Feature.CANCEL: cancel,
    Feature.TOOLS_RENDERED: tools_rendered,
}
_FIRST = (Feature.MODELS, Feature.CHAT)


async def _run(
    feature: Feature, check: Callable[[Asker], Awaitable[Finding]], asker: Asker, timeout_s: float
) -> Finding:
    try:
        async with asyncio.timeout(timeout_s):
            return await check(asker)
    except TimeoutError:
        return unknown(feature, f"no result within {timeout_s:g} s")
    except EngineError as error:
        return (no if _means_no(error) else unknown)(feature, str(error))
    except Exception as error:  # a server under probe may send anything, and the other checks go on
        return unknown(feature, f"the reply could not be read: {error!r}")


def _means_no(error: EngineError) -> bool:
    """Whether an error says that the server cannot do it, and not that the moment was bad."""
    if isinstance(error, EngineRefused):
        return True
    return isinstance(error, EngineProtocolError) and error.status in (500, 501)


def _plain(finding: Finding) -> dict[str, Any]:
    row = asdict(finding)
    del row["feature"]
    return row | {"outcome": finding.outcome.value}
