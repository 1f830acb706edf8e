"""From the shapes that messages come in to one question with its images.

- Content is a text, a list of parts, or null. Parts are those of chat completions (`text`, `image_url`) or of Responses
  (`input_text`, `input_image`); an image's URL stands by itself or in an object. Parts of other types are errors.
- All system and developer texts together are the system prompt of both models.
- The question is the last user turn: all user messages after the last one of another role. Its images go before it, in
  order; where texts stand between several images, `[image 2]` keeps the place of the second.
- Earlier turns stand before the question as plain text. Where the last turn has no image, the images are those of the
  latest turn before it that has any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec

from speceyes.gateway.wire.errors import ApiError, bad_request
from speceyes.gateway.wire.requests import HistoryCall, ImageUrl, Message, Part

_SYSTEM = ("system", "developer")
_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool", "function": "Tool"}
_SO_FAR, _NOW = "The conversation so far:", "Now:"


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image as the request names it: a data URL or a web address, and where in the request it stands."""

    url: str
    place: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the models are asked.

    Attributes:
        question: The text, with the earlier turns before it.
        images: The images that go with it; empty where the request has none at all.
        system: The system prompt, or None.
        left_out: Images of earlier turns that are not shown again.
    """

    question: str
    images: tuple[ImagePart, ...]
    system: str | None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Turn:
    speaker: str
    items: tuple[str | ImagePart, ...]

    @property
    def images(self) -> tuple[ImagePart, ...]:
        return tuple(item for item in self.items if isinstance(item, ImagePart))


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """The question that a list of messages asks.

    Raises:
        ApiError: 400 naming the message or part that cannot be read, or where nothing is asked.
    """
    system: list[str] = []
    turns: list[_Turn] = []
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        items = tuple(_items(message, f"{place}.content"))
        if message.role in _SYSTEM:
            system.append(_system_text(items, place))
        elif message.role in _SPEAKERS:
            turns.append(_Turn(_SPEAKERS[message.role], items))
        else:
            known = ", ".join((*_SYSTEM, *_SPEAKERS))
            raise bad_request(f"{place}.role: {message.role!r} is no role; there are {known}.", f"{place}.role")
    return _asked(_joined(turns), "\n\n".join(text for text in system if text.strip()), len(messages) - 1)


def _asked(turns: Sequence[_Turn], system: str, last: int) -> Conversation:
    if not turns or turns[-1].speaker != "User":
        place = f"messages[{last}].role"
        raise bad_request(f"{place}: the last message must be the user's, since it holds the question.", place)
    *before, now = turns
    shown = next((turn.images for turn in reversed(turns) if turn.images), ())
    question = _text(now, numbered=True)
    if said := "\n".join(filter(None, map(_line, before))):
        question = f"{_SO_FAR}\n{said}\n\n{_NOW}\n{question}"
    if not question.strip() and not system:
        raise bad_request("messages: there is no text, so nothing is asked about the image.", "messages")
    left_out = sum(len(turn.images) for turn in turns) - len(shown)
    return Conversation(question, shown, system or None, left_out)


def _joined(turns: Sequence[_Turn]) -> list[_Turn]:
    """One turn for all messages in a row of the same speaker."""
    return [
        _Turn(speaker, tuple(item for turn in group for item in turn.items))
        for speaker, group in groupby(turns, key=lambda turn: turn.speaker)
    ]


def _line(turn: _Turn) -> str:
    text = _text(turn, numbered=False)
    marks = "[image] " * len(turn.images)
    return f"{turn.speaker}: {marks}{text}" if text.strip() or marks else ""


def _text(turn: _Turn, *, numbered: bool) -> str:
    """The turn's text; with the places of its images where they say more than their order does."""
    kinds = [isinstance(item, ImagePart) for item in turn.items]
    between = sum(kinds) > 1 and kinds != sorted(kinds, reverse=True)
    pieces: list[str] = []
    number = 0
    for item in turn.items:
        if isinstance(item, str):
            pieces.append(item)
            continue
        number += 1
        if numbered and between:
            pieces.append(f"[image {number}]")
    return "\n".join(filter(None, pieces))


def _system_text(items: Sequence[str | ImagePart], place: str) -> str:
    for item in items:
        if isinstance(item, ImagePart):
            raise bad_request(f"{item.place}: an image in a system message; put it into a user message.", item.place)
    return "\n".join(item for item in items if isinstance(item, str))


def _items(message: Message, place: str) -> Iterator[str | ImagePart]:
    if isinstance(message.content, str):
        yield message.content
    else:
        for index, part in enumerate(message.content or ()):
            where = f"{place}[{index}]"
            yield part if isinstance(part, str) else _item(part, where)
    yield from map(_call, message.tool_calls or ())


def _item(part: Part, place: str) -> str | ImagePart:
    match part.type:
        case "text" | "input_text" | "output_text":
            if part.text is None:
                raise _lacking(place, "text")
            return part.text
        case "refusal":
            return part.refusal or part.text or ""
        case "image_url" | "input_image":
            if part.image_url is None:
                raise _lacking(place, "image_url", also_file=part.file_id is not None)
            inside = isinstance(part.image_url, ImageUrl)
            url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url
            return ImagePart(url, f"{place}.image_url" + (".url" if inside else ""))
    raise bad_request(
        f"{place}.type: parts of the type {part.type!r} are not served; there are text and image_url.", f"{place}.type"
    )


def _lacking(place: str, name: str, *, also_file: bool = False) -> ApiError:
    hint = " Files are not kept here: send the image as a data URL." if also_file else ""
    return bad_request(f"{place}.{name}: is missing.{hint}", f"{place}.{name}")


def _call(call: HistoryCall) -> str:
    function = call.function
    if function is None:
        return "[tool call]"
    written = function.arguments
    arguments = written if isinstance(written, str) else msgspec.json.encode(written).decode()
    return f"[tool call] {function.name}({arguments})"
