"""What an agent's answer holds, and what is told while it works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from speceyes.agents.dialects.base import Message
from speceyes.events import TextStreamed, TurnEnded
from speceyes.imaging.view import View
from speceyes.types import AgentRun, Crop, Finish, Query, Turn, Usage


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """An answer, and how the agent came to it.

    Attributes:
        text: The answer, in the form that the question asked for; empty where the agent gave none.
        whole: False where a limit cut it.
        run: The run: turns with their texts, tools, crops and token counts.
        query: The question, with its images decoded.
        views: All that the model has seen, in order: the images, then what tools showed.
        history: The conversation up to and including the answer, as the API takes it.
    """

    text: str
    whole: bool
    run: AgentRun
    query: Query = field(repr=False)
    views: tuple[View, ...] = field(repr=False)
    history: tuple[Message, ...] = field(repr=False)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """What the model wrote, turn by turn, and what came back."""
        return self.run.turns

    @property
    def crops(self) -> tuple[Crop, ...]:
        """The parts of the images that tools showed, in pixels of the originals."""
        return tuple(crop for turn in self.run.turns for crop in turn.crops)

    @property
    def usage(self) -> Usage:
        """Tokens of all calls."""
        return self.run.usage

    @property
    def finish(self) -> Finish:
        """How the run ended: with an answer, or at a limit."""
        return self.run.finish

    @property
    def seconds(self) -> float:
        """Wall time of the run."""
        return self.run.seconds

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ToolRan:
    """A tool has run. Its turn's `TurnEnded` follows.

    Attributes:
        name: The tool's name.
        arguments: As the model gave them.
        text: What the model is told.
        views: The pictures that it is shown; `view.pixels` is one as a Pillow image.
        error: Why there is no result, where there is none.
    """

    name: str
    arguments: Mapping[str, Any]
    text: str = ""
    views: tuple[View, ...] = ()
    error: str | None = None


AgentEvent = TextStreamed | ToolRan | TurnEnded | AgentAnswer
"""What `Agent.stream` gives: texts, tools and turns as they come, and the answer at last."""
