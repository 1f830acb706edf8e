"""What a client's history holds, where the client runs the agent's loop: is this a new question, or a turn of a run?

Nothing is remembered between requests. Reading goes from the oldest message to the newest; a *run* goes from an
assistant message that calls a tool (or that a text dialect cannot read as an answer) to one that answers.

    system, developer                       no matter where
    user, outside of a run                  a question
    assistant that answers                  the end of a run, or an answer without one
    assistant that calls, tool, function    a run
    user, within a run                      a run: the picture that a tool made, or "try again"

So a picture in a user message behind a tool's result is part of that result and not of a question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

Message = Mapping[str, Any]
"""A message as it came."""
Answers = Callable[[Message], bool]
"""Whether an assistant message is an answer, so that the run is over."""


class Part(Enum):
    """What a message is part of."""

    PROMPT = auto()
    QUESTION = auto()
    RUN = auto()
    ANSWER = auto()


@dataclass(frozen=True, slots=True)
class History:
    """A client's messages, and what each is part of."""

    messages: Sequence[Message]
    parts: tuple[Part, ...]

    @property
    def asks(self) -> bool:
        """Whether it ends with a question."""
        return self._last is Part.QUESTION

    @property
    def in_run(self) -> bool:
        """Whether it ends within a run."""
        return self._last is Part.RUN

    @property
    def dialogue(self) -> list[tuple[Part, Message]]:
        """The messages without the runs: what was asked and answered."""
        return [(part, said) for part, said in zip(self.parts, self.messages, strict=True) if part is not Part.RUN]

    @property
    def _last(self) -> Part | None:
        return next((part for part in reversed(self.parts) if part is not Part.PROMPT), None)


def read_history(messages: Sequence[Message], answers: Answers) -> History:
    """Tell questions, runs and answers apart; the module says how."""
    parts: list[Part] = []
    in_run = False
    for message in messages:
        match message.get("role"):
            case "system" | "developer":
                parts.append(Part.PROMPT)
                continue
            case "assistant":
                in_run = not answers(message)
                parts.append(Part.RUN if in_run else Part.ANSWER)
            case "user":
                parts.append(Part.RUN if in_run else Part.QUESTION)
            case _:
                in_run = True
                parts.append(Part.RUN)
    return History(messages, tuple(parts))


def answers_plainly(message: Message) -> bool:
    """Whether an assistant message of a client with tools is an answer: it has text, and calls nothing."""
    return not (message.get("tool_calls") or message.get("function_call")) and bool(text_of(message).strip())


def text_of(message: Message) -> str:
    """The text of a message, whatever shape its content has."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, str | dict))
    return "\n".join(text for text in texts if isinstance(text, str))
