"""What a dialect is: how one family of agentic models calls tools, is answered, and gives its answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from speceyes.agents.dialects.reader import Piece
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import PixelLimits
from speceyes.imaging.view import View
from speceyes.tools.base import Tool, ToolResult
from speceyes.types import Completion, Delta, Query

Message = Mapping[str, Any]
"""One chat message in the OpenAI wire form."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The words that a dialect says to its model. Data, so that a user can change them.

    Attributes:
        system: System prompt; the user's own system prompt is put after it.
        act: Follows the question when the agent is to work.
        screen: Follows the question when the agent is asked whether a tool would help (phase I).
        reminder: Follows each picture that a tool shows.
        closing: Asks for the answer when the budget is used up.
        retry: Follows the message of a call that failed.
        repeated: Stands in for a picture that the very same call has shown before.
        picture: Follows the question, once for each of its images, where the model must know their names or sizes:
            `{index}` counts from 0, `{number}` from 1, `{width}` and `{height}` are pixels of the original. Mostly
            empty.
        result: Precedes what a tool shows; where results are tool messages and pictures follow in a user's, it is
            that message. Mostly empty.

    In `result` and `reminder`, `{index}` and `{number}` are those of the picture that is shown, counted from 0 and from
    1 over all that the model has seen, `{observation}` counts the pictures of tools alone, from 1, and `{turn}` is that
    of the model's turn, from 1.
    """

    system: str
    act: str
    screen: str
    reminder: str
    closing: str
    retry: str = "Think, then call the tool again or answer in <answer> tags."
    repeated: str = "This very part has been shown already. Give the answer in <answer> tags now."
    picture: str = ""
    result: str = ""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all texts, in hexadecimal: two prompts that differ anywhere differ here."""
        # The last two came later. Left out where they are empty, they change no fingerprint of before.
        texts = {name: text for name, text in asdict(self).items() if text or name not in ("picture", "result")}
        canonical = json.dumps(texts, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Call:
    """The model calls a tool.

    Attributes:
        name: A tool that the dialect has.
        arguments: The arguments; every required field is there.
        note: What the model must be told beside the result, such as that a second call was not run.
        repairs: What had to be mended before the call could be read; empty for a clean one.
    """

    name: str
    arguments: Mapping[str, Any]
    note: str = ""
    repairs: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """Equal for two calls that show the same thing: the name and the arguments, without the label."""
        asked = {key: value for key, value in self.arguments.items() if key != "label"}
        return self.name + json.dumps(asked, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Final:
    """The model answers.

    `tagged` is False where it did not use the dialect's answer form, `whole` where the token limit cut the answer.
    """

    text: str
    tagged: bool = True
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Malformed:
    """The turn is neither a call that can be run nor an answer. `message` tells the model what to do."""

    message: str


Action = Call | Final | Malformed


@dataclass(frozen=True, slots=True)
class Occasion:
    """What a result answers, and where in the run it comes.

    Attributes:
        completion: The model's turn that it answers.
        turn: The number of that turn, from 1.
        images: How many images the query has.
        seen: How many pictures the model has seen before this result, the query's images included.
    """

    completion: Completion | None = None
    turn: int = 1
    images: int = 1
    seen: int = 1

    def fill(self, text: str) -> str:
        """A prompt with its places filled in: see `Prompts`. What is no such place stays as it is."""
        return fill(
            text, index=self.seen, number=self.seen + 1, observation=self.seen - self.images + 1, turn=self.turn
        )


ALONE = Occasion()
"""The first turn's result, of a query with one image."""


class Reader(Protocol):
    """Takes one turn apart while it is written. Its answer pieces, joined, begin the text that `parse` will find."""

    def feed(self, delta: Delta) -> Sequence[Piece]:
        """Take the next piece of the turn; return what can be shown by now. Never raises."""
        ...

    def close(self) -> Sequence[Piece]:
        """The turn is over; return what was held back and can be shown after all."""
        ...


class Dialect(Protocol):
    """How one model family speaks. A dialect holds no state: one object serves any number of runs."""

    @property
    def name(self) -> str: ...

    @property
    def prompts(self) -> Prompts: ...

    @property
    def coordinates(self) -> Coordinates:
        """What the numbers of a box mean."""
        ...

    @property
    def limits(self) -> PixelLimits:
        """The sizes of picture that the model takes."""
        ...

    @property
    def stop(self) -> tuple[str, ...]:
        """Strings at which generation stops. They may or may not be in the text that comes back."""
        ...

    @property
    def toolbox(self) -> Mapping[str, Tool]:
        """The tools by name. A run's driver takes the tool that a `Call` names from here."""
        ...

    @property
    def tools(self) -> tuple[Mapping[str, Any], ...]:
        """The schemas of `toolbox`, for the request's `tools` field."""
        ...

    @property
    def extra(self) -> Mapping[str, Any]:
        """Further fields of each request body."""
        ...

    @property
    def note(self) -> str:
        """What the record must say of each run in which a tool answered, such as that the form of its results was not
        the trained one. Empty for most."""
        ...

    @property
    def max_turns(self) -> int: ...

    @property
    def max_tokens_per_turn(self) -> int: ...

    def opening_messages(self, query: Query, views: Sequence[View], *, screening: bool = False) -> tuple[Message, ...]:
        """The first messages of a run, or the screening question with the same prefix."""
        ...

    def reader(self) -> Reader:
        """For one turn as it is written."""
        ...

    def parse(self, completion: Completion) -> Action:
        """What the model wants. Never raises."""
        ...

    def written(self, completion: Completion) -> str:
        """The turn as the model wrote it, whatever a server took out of the text."""
        ...

    def closing_answer(self, completion: Completion) -> Final:
        """The best answer that a closing turn holds, possibly empty. Never raises."""
        ...

    def assistant_messages(self, completion: Completion) -> tuple[Message, ...]:
        """The model's turn as history: its raw text, with the closing tag that a stop string took away."""
        ...

    def observation_messages(self, result: ToolResult, occasion: Occasion = ALONE) -> tuple[Message, ...]:
        """What a tool showed, or why it could not, as the model expects to be told."""
        ...

    def notice_messages(self, text: str, occasion: Occasion = ALONE) -> tuple[Message, ...]:
        """Words in place of a tool's result."""
        ...


def fill(text: str, **places: int) -> str:
    """Put numbers in their places. Other braces are the text's own: prompts may hold JSON."""
    for name, number in places.items():
        text = text.replace(f"{{{name}}}", str(number))
    return text


def text_part(text: str) -> dict[str, Any]:
    """A text content part."""
    return {"type": "text", "text": text}


def image_part(view: View) -> dict[str, Any]:
    """An image content part with the picture inside, so that no server has to fetch anything."""
    return {"type": "image_url", "image_url": {"url": view.data_url}}


def opening_messages(
    query: Query, views: Sequence[View], prompts: Prompts, *, screening: bool = False
) -> tuple[Message, ...]:
    """System prompt, then the images, then the question.

    Screening and the agent's first turn differ in their last line only, so a server's prefix cache serves the
    one from the other's work: `question`, `prompts.picture` for each image, and then `prompts.screen` or `prompts.act`.
    """
    system = prompts.system if not query.system else f"{prompts.system}\n\n{query.system}"
    pictures = [
        fill(prompts.picture, index=index, number=index + 1, width=image.size[0], height=image.size[1])
        for index, image in enumerate(query.images if prompts.picture else ())
    ]
    task = prompts.screen if screening else prompts.act
    words = "\n\n".join([query.question, *(["\n".join(pictures)] if pictures else []), task])
    content = [*map(image_part, views), text_part(words)]
    return ({"role": "system", "content": system}, {"role": "user", "content": content})
