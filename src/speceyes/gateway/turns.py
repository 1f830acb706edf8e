"""What to do with one request of a client that runs the agent's loop itself: speculate, or pass it on.

    The request                                                                 What is done
    ----------------------------------------------------------------------      -------------------
    a first question with an image; so in several user messages                 speculate
    a further question after an answer, an image in it or an earlier one        speculate
    since the last question: a tool call (one or several at a time)             pass: later_turn
    ... one result of several, or all of them                                   pass: later_turn
    ... a user message behind them: a picture that a tool made, a hint          pass: later_turn
    ... an assistant message that is no answer (empty; in a text dialect,       pass: later_turn
        not in its form)
    a question without an image; images in tool results only                    pass: no_image
    an answer at the end, to be continued (a prefill)                           pass: needs_agent
    `tool_choice` "required", or a tool by name                                 pass: needs_agent
    `tool_choice` "auto" or "none", `parallel_tool_calls`                       no matter
    `n` above 1, `logprobs`, `response_format` other than text, `store`,        pass: needs_agent
        `audio`, ...: what `wire.fields.FIELDS` does not serve
    a field that nobody here knows, not in `transparent.ignore_fields`          pass: needs_agent
    a part or an image that cannot be read here                                 pass: needs_agent

Whatever is passed on keeps all its fields, and the agent's server says what it thinks of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from speceyes.gateway.conversation import History
from speceyes.gateway.wire.fields import FIELDS
from speceyes.gateway.wire.requests import ChatBody
from speceyes.types import Reason

_KNOWN = frozenset(ChatBody.__struct_fields__)


@dataclass(frozen=True, slots=True)
class Pass:
    """Why a request is passed on. `note` names the cause, where the reason alone does not."""

    reason: Reason
    note: str = ""


def why_pass(body: ChatBody, names: Collection[str], history: History, ignored: Collection[str]) -> Pass | None:
    """Decide by the history and the fields, before any image is looked at. None: speculate, if there is an image.

    Args:
        body: The request.
        names: All fields that it has, those too that are not known here.
        history: What its messages hold.
        ignored: Unknown fields that a draft need not heed.
    """
    if history.in_run:
        return Pass(Reason.LATER_TURN)
    if not history.asks:
        return needs_agent("the last message is not a user's")
    for field in FIELDS:
        value = getattr(body, field.name)
        if field.name == "tools" or value is None or field.served is None or value in field.served:
            continue
        return needs_agent(field.name)
    unknown = sorted(set(names) - _KNOWN - set(ignored))
    return needs_agent(", ".join(unknown)) if unknown else None


def needs_agent(note: str) -> Pass:
    """For what a draft cannot give."""
    return Pass(Reason.NEEDS_AGENT, note)
