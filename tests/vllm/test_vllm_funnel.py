"""Every way through the funnel over vLLM, held against the same weights in llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from vllm_server import VllmServer

from speceyes.config import load_settings
from speceyes.engines.client import ChatClient
from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.nano import NANO_LIMITS
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.datasets.seeds import VALIDATION
from speceyes.evals.matching import is_right
from speceyes.imaging.looks import look
from speceyes.phases import DraftModel, speculate
from speceyes.types import Answer, Draft, Finish, Reason, Route
from speceyes.wiring import open_funnel

K = 64
TOLERANCE = 1e-2
"""In log-prob, of all K candidates. Both compute in 32 bits from the same 16-bit weights, with different kernels."""
CLOSE_SCORE, CLOSE_PROBABILITY = 0.2, 0.05
"""A decision that is nearer to its threshold than this may fall either way."""
SMALL = [sample for sample in make_samples(60, 5, VALIDATION) if sample.tool_helps][:8]
"""Questions about signs that are too small to be read at a glance."""

Overrides = Mapping[str, Any]


async def answers(samples: list[Sample], overrides: Overrides, **more: Any) -> list[Answer]:
    async with open_funnel(load_settings(env={}, overrides={**overrides, **more})) as funnel:
        return list(await funnel.answer_many([sample.query() for sample in samples]))


def by_reason(found: list[Answer], reason: Reason) -> list[Answer]:
    return [answer for answer in found if answer.reason is reason]


# Routes


async def test_drafts_are_accepted_and_what_a_tool_helps_is_screened_out(
    overrides: Overrides, samples: list[Sample]
) -> None:
    found = await answers(samples, overrides)
    assert {answer.reason for answer in found} <= {
        Reason.ACCEPTED,
        Reason.TOOL_WOULD_HELP,
        Reason.BELOW_THRESHOLD,
    }, "and none because a call failed or could not be scored"
    accepted, screened_out = by_reason(found, Reason.ACCEPTED), by_reason(found, Reason.TOOL_WOULD_HELP)
    assert accepted
    assert all(answer.trace.run is None and answer.route is Route.DRAFT for answer in accepted)
    assert screened_out
    for answer in screened_out:
        run = answer.trace.run
        assert run is not None
        assert answer.trace.draft is None
        assert (answer.route, run.finish) == (Route.AGENT, Finish.ANSWERED)
        assert run.depth >= 1, "the crop went to vLLM as a second picture"
    right = [is_right(a.text, sample.gold, sample.options) for a, sample in zip(found, samples, strict=True)]
    assert sum(right) >= len(samples) - 2, "the pair is right in 95 of 100"


async def test_a_draft_under_the_threshold_is_refused(overrides: Overrides, samples: list[Sample]) -> None:
    found = await answers(samples, overrides, **{"gate.threshold": 1e6})
    refused = by_reason(found, Reason.BELOW_THRESHOLD)
    assert refused
    assert {answer.reason for answer in found} == {Reason.TOOL_WOULD_HELP, Reason.BELOW_THRESHOLD}
    for answer in refused:
        assert answer.route is Route.AGENT
        assert answer.trace.draft is not None
        assert answer.trace.run is not None
        assert answer.trace.run.finish is Finish.ANSWERED


async def test_the_draft_looks_closer_by_itself(overrides: Overrides) -> None:
    # The shipped thresholds of looks are of the same kind of score, and as the pair's, bound to llama.cpp's files.
    closer = {"speculation.max_depth": 1, "speculation.coordinates": "per_mille", "speculation.zoom_context": 0.15}
    found = await answers(SMALL, overrides, **closer)
    accepted = by_reason(found, Reason.ACCEPTED_CLOSER)
    assert accepted
    for answer in accepted:
        assert answer.trace.run is None
        assert answer.trace.answering is not None
        assert len(answer.trace.answering.crops) == 1


async def test_the_agent_alone(overrides: Overrides) -> None:
    (answer,) = await answers(SMALL[:1], overrides, **{"funnel.plan": "off"})
    assert (answer.reason, answer.trace.draft, answer.trace.screening) == (Reason.SPECULATION_OFF, None, None)
    assert answer.trace.run is not None
    assert answer.trace.run.depth >= 1


async def test_questions_take_the_same_ways_as_through_llama_cpp(overrides: Overrides, samples: list[Sample]) -> None:
    over_vllm, over_llama_cpp = await answers(samples, overrides), await answers(samples, {})
    compared = 0
    for one, other in zip(over_vllm, over_llama_cpp, strict=True):
        screened = [answer.trace.screening for answer in (one, other)]
        helps = [found.help_probability for found in screened if found is not None]
        assert helps[0] == pytest.approx(helps[1], abs=CLOSE_PROBABILITY)
        scored = other.trace.verdict
        near = abs((helps[1] or 0) - 0.5) < CLOSE_PROBABILITY
        if scored is not None and scored.score is not None and scored.threshold is not None:
            near = near or abs(scored.score - scored.threshold) < CLOSE_SCORE
        if not near:
            compared += 1
            assert one.reason is other.reason
            if one.route is Route.DRAFT:
                assert one.text == other.text
    assert compared >= len(samples) / 2


# Log-probs


async def drafts(url: str, samples: list[Sample]) -> list[Draft]:
    async with ChatClient(url, "nano-draft") as client:
        draft = DraftModel(client, NANO_LIMITS, logprobs=K)
        queries = [sample.query() for sample in samples]
        return [await speculate(query, await look(query.images, NANO_LIMITS), draft) for query in queries]


async def test_log_probs_of_the_draft_agree_with_llama_cpp_s(
    vllm_draft: VllmServer, nano_draft_server: EmbeddedServer, samples: list[Sample]
) -> None:
    """Rank by rank, and word by word where a word is that of one candidate only."""
    furthest = 0.0
    for one, other in zip(
        await drafts(vllm_draft.url, samples), await drafts(nano_draft_server.url, samples), strict=True
    ):
        assert one.text == other.text
        assert len(one.tokens) == len(other.tokens) > 0
        for mine, theirs in zip(one.tokens, other.tokens, strict=True):
            ranked = np.abs(np.array(mine.top_logprobs) - np.array(theirs.top_logprobs))
            assert ranked.shape == (K,)
            said = dict(zip(theirs.top_tokens, theirs.top_logprobs, strict=True))
            words = [
                abs(said[text] - logprob)
                for text, logprob in zip(mine.top_tokens, mine.top_logprobs, strict=True)
                if text in said and mine.top_tokens.count(text) == theirs.top_tokens.count(text) == 1
            ]
            assert len(words) > K / 2
            furthest = max(furthest, ranked.max(), *words)
    print(f"furthest: {furthest:.2g}")
    assert furthest < TOLERANCE
