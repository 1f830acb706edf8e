"""What screening and the turns of the agent's loop share in vLLM's prefix cache, by its own counts: whole blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from vllm_server import BLOCK, VllmServer

from speceyes.config import load_settings
from speceyes.evals.datasets.samples import make_samples
from speceyes.imaging.looks import look
from speceyes.imaging.view import View
from speceyes.phases import AgentModel, fall_back, screen
from speceyes.types import ChatRequest, Query
from speceyes.wiring.funnel import open_agent

SAMPLES = [sample for sample in make_samples(12, 11) if sample.tool_helps][:4]
"""Questions for which the agent needs its tool, each about a scene of its own."""


def in_blocks(tokens: int) -> int:
    """As many of them as whole blocks hold."""
    return tokens // BLOCK * BLOCK


async def trunk(agent: AgentModel, server: VllmServer, query: Query, views: Sequence[View], *, image: bool) -> int:
    """Tokens of system prompt, tools and, if wanted, the image: all that is before the first word of the question."""
    system, user = agent.dialect.opening_messages(query, views)
    kept = [part for part in user["content"] if image and part["type"] == "image_url"]
    bare = ChatRequest(
        (system, {"role": "user", "content": kept or ""}), 1, tools=agent.dialect.tools, extra=agent.dialect.extra
    )
    counted = (await agent.engine.complete(bare)).usage.prompt_tokens
    assert counted is not None
    return counted - await server.tokens("<|im_end|>\n<|im_start|>assistant\n")


async def test_every_loop_goes_on_from_its_screening_and_every_turn_from_the_one_before(
    overrides: Mapping[str, Any], vllm_agent: VllmServer
) -> None:
    zoomed = 0
    async with open_agent(load_settings(env={}, overrides=dict(overrides))) as agent:
        text_only = with_image = 0
        for sample in SAMPLES:
            query = sample.query()
            views = await look(query.images, agent.dialect.limits)
            screened = await screen(query, views, agent)
            run = await fall_back(query, views, agent)
            if not with_image:  # the first screening found nothing
                text_only = await trunk(agent, vllm_agent, query, views, image=False)
                with_image = await trunk(agent, vllm_agent, query, views, image=True)
                assert in_blocks(with_image) > in_blocks(text_only), "or nothing here would show the image"
            else:  # a picture that the server has not seen: all but it
                assert screened.usage.cached_tokens == in_blocks(text_only)
            first = run.turns[0].usage
            assert (first.cached_tokens or 0) >= in_blocks(with_image)
            assert first.prompt_tokens is not None
            assert (first.cached_tokens or 0) < first.prompt_tokens
            for before, turn in pairwise(run.turns):
                zoomed += 1
                assert (turn.usage.cached_tokens or 0) >= in_blocks(before.usage.prompt_tokens or 0)
    assert zoomed >= len(SAMPLES) / 2, "the nano agent zooms"
