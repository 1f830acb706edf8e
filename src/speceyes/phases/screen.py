"""Phase I: the agent says in one token whether a tool would help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from speceyes.agents.loop import agent_request
from speceyes.gating.answers import LOGPROB_CEILING
from speceyes.imaging.view import View
from speceyes.phases.fall_back import AgentModel
from speceyes.types import ChatRequest, Completion, Query, Screening

SCREEN_LOGPROBS = 19
"""Enough for all spellings of two words, and within the 20 that the most restrictive servers give."""


async def screen(query: Query, views: Sequence[View], agent: AgentModel, asked: ChatRequest | None = None) -> Screening:
    """Ask the agent for one token: would a tool help?

    System prompt, tools and images are those of the agent's own first turn, so that the server's prefix cache serves
    phase IV from this request's work.

    Args:
        query: The question.
        views: The images as the agent sees them.
        agent: The agent.
        asked: The request itself, where the agent's loop is run elsewhere and so in other words. None: made here.

    Raises:
        EngineError: The agent's server did not answer.
    """
    if asked is None:
        messages = agent.dialect.opening_messages(query, views, screening=True)
        form: dict[str, Any] = {"top_logprobs": SCREEN_LOGPROBS, "stop": (), "seed": query.sampling.seed}
        form["affinity"] = views[0] if views else None
        asked = agent_request(agent.dialect, messages, max_tokens=1, **form)
    return read_screening(await agent.engine.complete(asked))


def read_screening(completion: Completion) -> Screening:
    """P(yes) and P(no) from the first token's log-probs: every spelling counts, whatever its case or spaces.

    Values that cannot be log-probs make the reply unreadable as a whole: to leave out one word would decide for the
    other.
    """
    p = {"yes": 0.0, "no": 0.0}
    for token in completion.tokens[:1]:
        if any(math.isnan(logprob) or logprob > LOGPROB_CEILING for logprob in token.top_logprobs):
            break
        for text, logprob in zip(token.top_tokens, token.top_logprobs, strict=False):
            if (word := text.strip().casefold()) in p:
                p[word] += math.exp(logprob)
    return Screening(min(p["yes"], 1.0), min(p["no"], 1.0), completion.usage, completion.seconds)
