"""The shipped weights say the same through llama.cpp as through transformers in 32 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hugging_face import HuggingFaceModel

from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.agents.loop import agent_request
from speceyes.engines.client import ChatClient, OnDelta
from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.nano import NANO_LIMITS, NANO_ZOOM_CONTEXT
from speceyes.evals.datasets.samples import Sample
from speceyes.imaging.geometry import Box
from speceyes.imaging.resize import render
from speceyes.imaging.view import View
from speceyes.phases import AgentModel, DraftModel, screen, speculate
from speceyes.phases.screen import SCREEN_LOGPROBS
from speceyes.tools.base import ToolResult
from speceyes.types import ChatRequest, Completion, Query

pytestmark = pytest.mark.slow

K = 20
TOLERANCE = 1e-2
AGENT_TOLERANCE = 3e-2
"""The agent has twice the draft's layers and reads 250 to 400 tokens, so 16-bit products drift further: up to 0.013 was
measured, on words that it holds for next to impossible. A picture or a position in the wrong place moves them by whole
nats."""
DIALECT = DeepEyes(limits=NANO_LIMITS, zoom_context=NANO_ZOOM_CONTEXT, zoom_notes=False)
CALL = """<think>The red sign looks small.</think>
<tool_call>
{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [68, 56, 100, 88], "label": "red sign"}}
</tool_call>"""


class Listening:
    """An engine that keeps what went through it."""

    def __init__(self, engine: ChatClient) -> None:
        self.engine = engine
        self.model = engine.model
        self.asked: list[tuple[ChatRequest, Completion]] = []

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        completion = await self.engine.complete(request, on_delta=on_delta)
        self.asked.append((request, completion))
        return completion


def query_of(sample: Sample) -> Query:
    return Query(sample.question, (sample.image,), id=sample.id)


def difference(
    completion: Completion, request: ChatRequest, views: Sequence[View], reference: HuggingFaceModel
) -> float:
    """How far llama.cpp's candidates for the first token are from transformers', rank by rank and word by word."""
    token = completion.tokens[0]
    expected = reference.next_logprobs(reference.prompt(request.messages, request.tools), views)
    said = np.array(token.top_logprobs)
    ranked = expected.topk(len(said)).values.numpy()
    words = [
        (float(expected[named[0]]), logprob)
        for text, logprob in zip(token.top_tokens, said, strict=True)
        if len(named := reference.named.get(text, [])) == 1
    ]
    assert len(said) >= SCREEN_LOGPROBS
    assert len(words) > len(said) / 2
    return max(np.abs(said - ranked).max(), *(abs(a - b) for a, b in words))


async def test_the_draft_s_first_answer_token(
    nano_draft_server: EmbeddedServer, hf_draft: HuggingFaceModel, samples: list[Sample], first_looks: list[View]
) -> None:
    found = []
    async with ChatClient(nano_draft_server.url, nano_draft_server.model) as client:
        engine = Listening(client)
        for sample, view in zip(samples, first_looks, strict=True):
            await speculate(query_of(sample), [view], DraftModel(engine, NANO_LIMITS, logprobs=K))
            request, completion = engine.asked[-1]
            found.append(difference(completion, request, [view], hf_draft))
    assert max(found) < TOLERANCE, found


async def test_the_agent_s_screening_token(
    nano_agent_server: EmbeddedServer, hf_agent: HuggingFaceModel, samples: list[Sample], first_looks: list[View]
) -> None:
    """With system prompt and tools, which llama.cpp renders by a template engine of its own."""
    found = []
    async with ChatClient(nano_agent_server.url, nano_agent_server.model) as client:
        engine = Listening(client)
        for sample, view in zip(samples, first_looks, strict=True):
            await screen(query_of(sample), [view], AgentModel(engine, DIALECT))
            request, completion = engine.asked[-1]
            assert request.tools
            found.append(difference(completion, request, [view], hf_agent))
    assert max(found) < AGENT_TOLERANCE, found


async def test_the_agent_s_first_word_after_a_crop(
    nano_agent_server: EmbeddedServer, hf_agent: HuggingFaceModel, samples: list[Sample], first_looks: list[View]
) -> None:
    """Two pictures with a turn of the agent's own between them, up to where it says what it sees."""
    found = []
    async with ChatClient(nano_agent_server.url, nano_agent_server.model) as client:
        for sample, look in zip(samples, first_looks, strict=True):
            crop = render(sample.image, Box(256, 192, 640, 576), NANO_LIMITS)
            messages = [
                *DIALECT.opening_messages(query_of(sample), [look]),
                *DIALECT.assistant_messages(Completion(CALL, "stop")),
                *DIALECT.observation_messages(ToolResult(views=(crop,))),
            ]
            request = agent_request(DIALECT, messages, max_tokens=1, top_logprobs=K)
            completion = await client.complete(request)
            found.append(difference(completion, request, [look, crop], hf_agent))
    assert max(found) < AGENT_TOLERANCE, found
