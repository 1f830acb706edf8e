"""Who screens: the agent, as in the funnel, or the draft model."""

from __future__ import annotations

from typing import Final

from speceyes.agents.dialects.base import image_part, text_part
from speceyes.imaging.looks import look
from speceyes.logbook import Logbook
from speceyes.phases import screen
from speceyes.phases.screen import SCREEN_LOGPROBS, read_screening
from speceyes.types import ChatRequest, Query, Screening

DRAFT_SCREEN: Final = "Would it take a closer look at a part of the image to answer this? Reply yes or no."
"""Follows the question where the draft model screens. It has no tool, so the words name none."""


async def screened_by_agent(query: Query, log: Logbook) -> Screening:
    """Phase I as it is.

    Raises:
        EngineError: The agent's server did not answer.
    """
    log.agent_views = await look(query.images, log.agent_model.dialect.limits)
    return await screen(query, log.agent_views, log.agent_model)


async def screened_by_draft(query: Query, log: Logbook) -> Screening:
    """The draft model says in one token whether a closer look would help.

    Images stand before the question, so the draft's own answer reuses the server's work on them.

    Raises:
        EngineError: The draft's server did not answer.
    """
    log.draft_views = await look(query.images, log.draft_model.limits)
    content = [*map(image_part, log.draft_views), text_part(f"{query.question}\n\n{DRAFT_SCREEN}")]
    messages = [{"role": "user", "content": content}]
    if query.system:
        messages.insert(0, {"role": "system", "content": query.system})
    request = ChatRequest(tuple(messages), 1, 0.0, SCREEN_LOGPROBS, seed=query.sampling.seed)
    return read_screening(await log.draft_model.engine.complete(request))
