"""Phase II: a small, stateless model answers from the images alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from speceyes.agents.dialects.base import image_part, text_part
from speceyes.engines.client import Engine
from speceyes.engines.logprobs import answer_tokens, visible_answer
from speceyes.imaging.resize import PixelLimits
from speceyes.imaging.view import View
from speceyes.types import ChatRequest, Draft, Query

PROMPT = "Answer with one word or a short phrase."


@dataclass(frozen=True, slots=True)
class DraftModel:
    """The small model and how it is asked.

    Attributes:
        engine: Its server.
        limits: Sizes of picture that it takes.
        prompt: Follows the question.
        max_tokens: Longest answer; a draft that reaches it is not accepted.
        logprobs: K, how many log-probs of each token to ask for.
        fingerprint: What a calibration is bound to; by default the engine's model name.
    """

    engine: Engine
    limits: PixelLimits
    prompt: str = PROMPT
    max_tokens: int = 32
    logprobs: int = 64
    fingerprint: str = ""

    @property
    def identity(self) -> str:
        return self.fingerprint or self.engine.model


async def speculate(query: Query, views: Sequence[View], draft: DraftModel) -> Draft:
    """Ask the draft model for a short answer with the top-K log-probs of its tokens.

    The images stand before the question, so that further questions about them reuse the server's prefix cache.
    Temperature is 0: the gate scores the most probable token, so it must be the one that was taken.

    Raises:
        EngineError: The draft's server did not answer.
    """
    content = [*map(image_part, views), text_part(f"{query.question}\n\n{draft.prompt}")]
    messages = [{"role": "user", "content": content}]
    if query.system:
        messages.insert(0, {"role": "system", "content": query.system})
    request = ChatRequest(
        tuple(messages),
        min(draft.max_tokens, query.sampling.max_answer_tokens or draft.max_tokens),
        temperature=0.0,
        top_logprobs=draft.logprobs,
        seed=query.sampling.seed,
    )
    completion = await draft.engine.complete(request)
    tokens, fault = answer_tokens(completion)
    return Draft(visible_answer(completion), tokens, fault, completion.usage, completion.seconds)
