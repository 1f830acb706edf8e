"""A client's own words, put to the two models: to the draft as a question, to the agent as the screening.

The agent's screening is the client's request, to the letter, with one instruction behind it; so it shares the prefix of
the turn that follows it on the same server. Where the client reads the agent's text, its question ends in lines that
tell the agent how to write. There the screening's instruction stands in their place, as it does in the agent's own
loop, and the draft does not see them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from speceyes.gateway.conversation import History, Message, Part, text_of
from speceyes.gateway.templates import TextForm
from speceyes.gateway.wire.content import Conversation, read_conversation
from speceyes.gateway.wire.requests import ChatBody
from speceyes.gateway.wire.requests import Message as TypedMessage
from speceyes.phases.screen import SCREEN_LOGPROBS
from speceyes.types import ChatRequest


def draft_question(history: History, form: TextForm | None, *, system: bool) -> Conversation:
    """What the draft is asked: the last question with its images; earlier questions and their answers before it.

    Args:
        history: Ends with a question.
        form: The text dialect that the client reads; None where it has tools.
        system: Whether the client's system prompt is for the draft too.

    Raises:
        ApiError: A part of a message cannot be read.
    """
    shown: list[Message] = []
    for part, message in history.dialogue:
        if part is Part.PROMPT and not system:
            continue
        if form is not None and part is Part.QUESTION:
            message = _without_instructions(message, form)
        elif form is not None and part is Part.ANSWER:
            message = {"role": "assistant", "content": form.answer(text_of(message))}
        shown.append(message)
    return read_conversation(msgspec.convert(shown, list[TypedMessage]))


def screening_request(
    history: History, form: TextForm | None, screen: str, body: ChatBody, extra: Mapping[str, Any]
) -> ChatRequest:
    """The client's request with the screening's instruction, for one token.

    Args:
        history: Ends with a question.
        form: As for `draft_question`.
        screen: The instruction.
        body: The request; its tools stay, and none of them is called.
        extra: Fields that shape the prompt on the agent's server.
    """
    *before, last = history.messages
    asked = last if form is None else _without_instructions(last, form)
    choice = {"tool_choice": "none"} if body.tools else {}
    return ChatRequest(
        (*before, _with_text(asked, screen)),
        max_tokens=1,
        top_logprobs=SCREEN_LOGPROBS,
        tools=tuple(body.tools or ()),
        seed=body.seed,
        extra={**extra, **choice},
    )


def _without_instructions(message: Message, form: TextForm) -> Message:
    """A question up to the first line of the instructions; as it is where nothing would be left."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    kept: list[Any] = []
    asked = instructed = False
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else part
        if not isinstance(text, str):
            kept.append(part)
        elif not instructed:
            text, instructed = form.before_instructions(text)
            if text.strip():
                asked = True
                kept.append({**part, "text": text} if isinstance(part, dict) else text)
    if not asked:
        return message
    return {**message, "content": kept if isinstance(content, list) else kept[0]}


def _with_text(message: Message, text: str) -> Message:
    """A message with a further paragraph at its end."""
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": f"{content}\n\n{text}" if content else text}
    match content:
        case [*before, {"text": str(said)} as last]:
            return {**message, "content": [*before, {**last, "text": f"{said}\n\n{text}"}]}
        case [*before, str(said)]:
            return {**message, "content": [*before, f"{said}\n\n{text}"]}
    return {**message, "content": [*content, {"type": "text", "text": text}]}
