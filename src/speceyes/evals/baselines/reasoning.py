"""SpecReason's conversation: what both models have read so far, and the words that are said to them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from speceyes.agents.dialects.base import Dialect, Message, Occasion, image_part, text_part
from speceyes.agents.dialects.tags import clean_answer, read_turn
from speceyes.evals.baselines.models import Models
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.looks import look
from speceyes.imaging.resize import PixelLimits
from speceyes.imaging.view import View
from speceyes.tools.base import ToolContext, ToolResult
from speceyes.types import Completion, Query

PROPOSE: Final = (
    "Solve this in small steps. Write the first step only, in one or two sentences. As soon as the answer is clear, "
    "give it in <answer> tags instead."
)
NEXT: Final = "Write the next step only, or give the answer in <answer> tags."
RATE: Final = (
    "Rate the step above: is it right, and does it bring the answer closer? Reply with one digit, from 0 (not at all) "
    "to 9 (surely)."
)
GO_ON: Final = "That step stands. Go on from there."


@dataclass(slots=True)
class Conversation:
    """Two histories of the same reasoning, each as its model reads it. Both end with a user's message.

    Attributes:
        query: The question.
        dialect: The agent's.
        limits: Sizes of picture that the draft takes.
        views: What the agent has been shown, oldest first.
        for_agent: The agent's history; it begins as its own loop does.
        for_draft: The draft's.
        turns: Turns that the agent has written.
    """

    query: Query
    dialect: Dialect
    limits: PixelLimits
    views: list[View]
    for_agent: list[Message]
    for_draft: list[Message]
    turns: int = 0

    @classmethod
    async def begin(cls, query: Query, models: Models) -> Self:
        """The question and its images, for both."""
        dialect, limits = models.agent.dialect, models.draft.limits
        views = await look(query.images, dialect.limits)
        small = await look(query.images, limits, like=views)
        asked = {"role": "user", "content": [*map(image_part, small), text_part(f"{query.question}\n\n{PROPOSE}")]}
        system = [{"role": "system", "content": query.system}] if query.system else []
        opening = dialect.opening_messages(query, views)
        return cls(query, dialect, limits, list(views), list(opening), [*system, asked])

    def keep(self, step: str) -> None:
        """The draft's step stands."""
        self.for_agent += [_said(step), _told(GO_ON)]
        self.for_draft += [_said(step), _told(NEXT)]

    def rating(self, step: str) -> list[Message]:
        """The agent's history with a proposed step and the question for its mark; the history stays as it is."""
        return [*self.for_agent, _said(step), _told(RATE)]

    async def observe(self, completion: Completion, result: ToolResult) -> None:
        """The agent's own step, and what came of it."""
        await self._show(completion, result)
        self._remember(completion, self.dialect.observation_messages(result, self._occasion(completion)))
        self.views.extend(result.views)

    async def notice(self, completion: Completion, text: str) -> None:
        """The agent's own step, and words in place of a result."""
        await self._show(completion, ToolResult(text))
        self._remember(completion, self.dialect.notice_messages(text, self._occasion(completion)))

    def context(self) -> ToolContext:
        """What a tool may look at now."""
        return ToolContext(self.query.images, list(self.views), self.dialect.limits)

    async def _show(self, completion: Completion, result: ToolResult) -> None:
        """The draft reads the agent's step, and sees what it was shown at a size that it takes."""
        text = "\n".join(part for part in (result.text, result.error, NEXT) if part)
        content = [*map(image_part, await self._smaller(result.views)), text_part(text)]
        self.for_draft += [_said(self.dialect.written(completion)), {"role": "user", "content": content}]

    def _occasion(self, completion: Completion) -> Occasion:
        return Occasion(completion, self.turns + 1, len(self.query.images), len(self.views))

    def _remember(self, completion: Completion, answer: Sequence[Message]) -> None:
        self.for_agent += [*self.dialect.assistant_messages(completion), *answer]
        self.turns += 1

    async def _smaller(self, views: Sequence[View]) -> list[View]:
        return [view if self.limits.accepts(view.size) else await self._fitted(view) for view in views]

    async def _fitted(self, view: View) -> View:
        shown = DecodedImage.of_pixels(await asyncio.to_thread(lambda: view.pixels))
        return (await look((shown,), self.limits))[0]


def read_rating(completion: Completion) -> int | None:
    """The mark that the reply's one token spells; None where it is no digit."""
    text = completion.text.strip()
    return int(text) if len(text) == 1 and text in "0123456789" else None


def answer_in(step: str) -> str | None:
    """The answer that a step of the draft gives in tags; None where it gives none."""
    answers = [text for answer in read_turn(step).answers if (text := clean_answer(answer.text))]
    return answers[-1] if answers else None


def _said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _told(text: str) -> Message:
    return {"role": "user", "content": [text_part(text)]}
