"""Phase II: a small model answers from the images alone, and where that is not enough, from looks of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from speceyes.agents.dialects.base import Message, image_part, text_part
from speceyes.agents.dialects.literals import read_object
from speceyes.engines.client import Engine
from speceyes.engines.logprobs import answer_tokens, visible_answer
from speceyes.errors import EngineError
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import PixelLimits
from speceyes.imaging.view import View
from speceyes.tools.base import ToolContext
from speceyes.tools.budget import run_tool
from speceyes.tools.zoom import ZoomTool
from speceyes.types import ChatRequest, Completion, Crop, Draft, Query, Reason

PROMPT = "Answer with one word or a short phrase."
LOOK = (
    'Which part of the image must be seen up close for that? Reply with its box as JSON: {"bbox_2d": [x1, y1, x2, y2]}'
)
LOOK_TOKENS = 96
"""A box, a label, and some words around them."""


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
        max_depth: How often it may look closer by itself before a query that it is not sure of goes to the agent.
        look_prompt: Follows the question in place of `prompt` where it is to look closer. It must ask for a JSON object
            with `bbox_2d`, a box in the first look; of several images, `img_idx` says which, from 0.
        coordinates: What the numbers of that box mean.
        zoom_context: Margin of what it is shown around the box, as a share of the box's side.
    """

    engine: Engine
    limits: PixelLimits
    prompt: str = PROMPT
    max_tokens: int = 32
    logprobs: int = 64
    fingerprint: str = ""
    max_depth: int = 0
    look_prompt: str = LOOK
    coordinates: Coordinates = Coordinates.RESIZED
    zoom_context: float = 0.0

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
    asked = _opening(query, views)
    completion = await draft.engine.complete(_answer_request(query, draft, asked))
    tokens, fault = answer_tokens(completion)
    return Draft(visible_answer(completion), tokens, fault, completion.usage, completion.seconds, asked=asked)


async def speculate_closer(query: Query, views: Sequence[View], draft: DraftModel, before: Draft | None) -> Draft:
    """Let the draft model name a part of the images, show it that up close, and ask it again.

    Its conversation goes on from where the last picture was shown, so that the server's prefix cache holds all of it
    but the last lines. Two short calls and a crop: less than a turn of an agent, which thinks.

    Args:
        query: The question.
        views: The images as the draft model sees them.
        draft: The draft model.
        before: Its draft of one depth less. None: it was not asked yet.

    Returns:
        The answer, one deeper. Where the model names no part that could be shown, a draft without an answer, whose
        fault is `LOOK_FAILED`. Usage and seconds are those of this depth alone.

    Raises:
        EngineError: The draft's server did not answer.
    """
    asked = before.asked if before else _opening(query, views)
    looked = await draft.engine.complete(_look_request(query, draft, asked))
    depth, crops = (before.depth, before.crops) if before else (0, ())
    view = await _shown(query, views, draft, looked)
    crop = None if view is None else Crop(view.image_index, view.region.as_tuple(), view.size)
    if view is None or crop is None or crop in crops:  # to see the same again would change nothing
        return Draft("", (), Reason.LOOK_FAILED, looked.usage, looked.seconds, depth + 1, crops, asked)
    asked = (
        *_with_words(asked, query, draft.look_prompt),
        {"role": "assistant", "content": looked.text},
        {"role": "user", "content": [image_part(view)]},
    )
    try:
        completion = await draft.engine.complete(_answer_request(query, draft, asked))
    except EngineError as error:
        error.spent = looked.usage
        raise
    tokens, fault = answer_tokens(completion)
    usage, seconds = looked.usage + completion.usage, looked.seconds + completion.seconds
    return Draft(visible_answer(completion), tokens, fault, usage, seconds, depth + 1, (*crops, crop), asked)


def _opening(query: Query, views: Sequence[View]) -> tuple[Message, ...]:
    """The messages up to the images; the words follow them."""
    system = ({"role": "system", "content": query.system},) if query.system else ()
    return (*system, {"role": "user", "content": [*map(image_part, views)]})


def _with_words(asked: Sequence[Message], query: Query, prompt: str) -> tuple[Message, ...]:
    """The question after the last picture, and what is to be done with it."""
    *earlier, last = asked
    return (*earlier, {**last, "content": [*last["content"], text_part(f"{query.question}\n\n{prompt}")]})


def _answer_request(query: Query, draft: DraftModel, asked: Sequence[Message]) -> ChatRequest:
    return ChatRequest(
        _with_words(asked, query, draft.prompt),
        min(draft.max_tokens, query.sampling.max_answer_tokens or draft.max_tokens),
        temperature=0.0,
        top_logprobs=draft.logprobs,
        seed=query.sampling.seed,
    )


def _look_request(query: Query, draft: DraftModel, asked: Sequence[Message]) -> ChatRequest:
    return ChatRequest(
        _with_words(asked, query, draft.look_prompt), LOOK_TOKENS, temperature=0.0, seed=query.sampling.seed
    )


async def _shown(query: Query, views: Sequence[View], draft: DraftModel, looked: Completion) -> View | None:
    """The part that the model wants to see up close. None where it does not say, or where there is nothing."""
    try:
        arguments = read_object(looked.text, looked.text.index("{")).value
    except ValueError:
        return None
    zoom = ZoomTool(coordinates=draft.coordinates, context=draft.zoom_context, notes=False)
    result = await run_tool(zoom, arguments, ToolContext(query.images, list(views), draft.limits))
    return result.views[0] if result.views else None
