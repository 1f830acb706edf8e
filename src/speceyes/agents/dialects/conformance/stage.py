"""Where the suite plays: a painted picture, written turns, and the agent's loop between them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, Protocol, runtime_checkable

from PIL import Image, ImageDraw

from speceyes.agents.budget import Budget
from speceyes.agents.dialects.base import Dialect, Message
from speceyes.agents.dialects.forms import PYTHON
from speceyes.agents.loop import Generate, agent_loop
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.geometry import Box, from_original
from speceyes.imaging.resize import render
from speceyes.imaging.view import View
from speceyes.tools.base import ToolResult, tools_of_one_run
from speceyes.tools.budget import run_tool
from speceyes.types import AgentRun, ChatRequest, Completion, Query

SIZE = (840, 560)
SIGN = Box(504, 280, 672, 392)
"""Painted red. Its middle is not on the dot."""
DOT = Box(620, 350, 660, 380)
"""Painted blue, inside the sign."""
RED, BLUE, GREY = (200, 30, 30), (30, 30, 200), (128, 128, 128)

ANSWER = "7"


@runtime_checkable
class Writer(Protocol):
    """What a dialect needs beside `Dialect` to be checked: how a model of the family writes."""

    def write_body(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What stands inside the tags of a call; of a native one, its arguments. For `python`, its code."""
        ...

    def write_call(self, body: str, tool: str = "") -> Completion:
        """The turn with this inside the call's tags."""
        ...

    def write_answer(self, text: str) -> Completion:
        """The turn that answers."""
        ...


@dataclass(frozen=True, slots=True)
class Check:
    """What came of one check.

    Attributes:
        name: What was checked.
        outcome: `skipped` where it says nothing about this dialect.
        detail: What was seen: of a failed check, what is wrong; of a wrong turn, what the model was told.
    """

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    detail: str = ""


class Unfit(Exception):
    """The dialect does not do what it must."""


class Skipped(Exception):
    """The check says nothing about this dialect."""


@dataclass(slots=True)
class Played:
    """A run that is over: what was asked of the model, and what the tools gave."""

    run: AgentRun
    requests: list[ChatRequest] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)

    def told(self, request: int = 1) -> str:
        """The words that a request adds to the one before it, without the model's own."""
        return words_of(self._added(request))

    def shown(self, request: int = 1) -> int:
        """How many pictures a request adds to the one before it."""
        return pictures_in(self._added(request))

    def _added(self, request: int) -> Sequence[Message]:
        if request >= len(self.requests):
            return ()
        before, after = self.requests[request - 1].messages, self.requests[request].messages
        kept = len(before) - (before[-1]["role"] == "assistant")  # a turn of the assistant may have gone on
        return [message for message in after[kept:] if message["role"] != "assistant"] or after[-1:]


class Stage:
    """Plays turns of a dialect's model.

    Args:
        dialect: The dialect.
        writer: How its model writes.
    """

    def __init__(self, dialect: Dialect, writer: Writer) -> None:
        self.dialect, self.writer = dialect, writer
        self.query = Query("What digit is on the red sign?", (painted(),))
        self.codes = PYTHON in dialect.toolbox
        self.tool = PYTHON if self.codes else next(iter(dialect.toolbox))
        self.whole = render(self.query.images[0], None, dialect.limits)  # the picture as the model sees it

    @property
    def answer(self) -> Completion:
        """The turn that answers."""
        return self.writer.write_answer(ANSWER)

    def arguments(self, area: Box = SIGN, view: View | None = None, picture: int = 0) -> dict[str, Any]:
        """The arguments of a right call: what shows an area of the original, asked for in a view."""
        if self.codes:
            return {"code": crop_code(area)}
        named = getattr(self.dialect, "zoom_arguments", _plain_arguments)
        return dict(named([round(edge, 4) for edge in self.box(area, view).as_tuple()], picture))

    def box(self, area: Box, view: View | None = None) -> Box:
        """An area of the original as a model would name it that sees the view, or the whole picture."""
        size = self.whole.size if view is None else view.size
        region = Box(0, 0, *map(float, SIZE)) if view is None else view.region
        return from_original(area, self.dialect.coordinates, region=region, view_size=size, image_size=SIZE)

    def call(self, arguments: Mapping[str, Any] | None = None) -> Completion:
        """A turn with a right call."""
        given = self.arguments() if arguments is None else arguments
        return self.writer.write_call(self.writer.write_body(self.tool, given))

    async def play(self, *turns: Completion, max_turns: int = 6) -> Played:
        """Drive a run with these turns of the model, and then with answers."""
        budget = Budget(max_turns, 1000, max_tokens=100_000)
        steps = agent_loop(self.query, self.dialect, budget, views=[self.whole])
        written = iter(turns)
        requests: list[ChatRequest] = []
        results: list[ToolResult] = []
        async with tools_of_one_run(self.dialect.toolbox) as toolbox:
            try:
                step = next(steps)
                while True:
                    if isinstance(step, Generate):
                        requests.append(step.request)
                        step = steps.send(next(written, self.answer))
                    else:
                        results.append(await run_tool(toolbox[step.call.name], step.call.arguments, step.context))
                        step = steps.send(results[-1])
            except StopIteration as finished:
                played = Played(finished.value, requests, results)
        check_history(requests)
        return played


def check_history(requests: Sequence[ChatRequest]) -> None:
    """What servers ask of a conversation, and what their prefix caches need.

    Raises:
        Unfit: It cannot be sent, or does not begin with what was sent before.
    """
    for request in requests:
        try:
            json.dumps([dict(message) for message in request.messages], allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise Unfit(f"a request cannot be written as JSON: {error}") from error
        open_calls: set[str] = set()
        for message in request.messages:
            if message["role"] == "tool" and message["tool_call_id"] not in open_calls:
                raise Unfit("a tool message answers no call")
            if message["role"] == "tool":
                open_calls.discard(message["tool_call_id"])
                continue
            if open_calls and message["role"] == "assistant":
                raise Unfit("a native call is not answered before the next turn")
            open_calls |= {call["id"] for call in message.get("tool_calls", ())}
            if not words_of([message]) and not pictures_in([message]) and not message.get("tool_calls"):
                raise Unfit(f"a message of the {message['role']} is empty")
        if open_calls:
            raise Unfit("a native call is not answered")
    for before, after in pairwise(requests):
        kept = len(before.messages) - (before.messages[-1]["role"] == "assistant")
        if list(after.messages[:kept]) != list(before.messages[:kept]):
            raise Unfit("a request does not begin with the one before it: no prefix cache can serve it")


def painted() -> DecodedImage:
    """The picture."""
    pixels = Image.new("RGB", SIZE, GREY)
    draw = ImageDraw.Draw(pixels)
    for area, colour in ((SIGN, RED), (DOT, BLUE)):
        draw.rectangle((area.left, area.top, area.right - 1, area.bottom - 1), fill=colour)
    return DecodedImage.of_pixels(pixels)


def middle_is(view: View, colour: tuple[int, int, int]) -> bool:
    """Whether the middle of what is shown has this colour."""
    pixel = view.pixels.getpixel((view.size[0] // 2, view.size[1] // 2))
    return isinstance(pixel, tuple) and max(abs(a - b) for a, b in zip(pixel, colour, strict=True)) <= 20


def crop_code(area: Box) -> str:
    """Code that shows an area, and leaves it in a variable."""
    edges = ", ".join(f"{edge:.0f}" for edge in area.as_tuple())
    return f'part = image_1.crop(({edges}))\npart.save("part.png")\nprint("a part")'


def words_of(messages: Sequence[Message]) -> str:
    """All words of the messages."""
    texts = []
    for message in messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        texts += [part["text"] for part in parts if part["type"] == "text"]
    return "\n".join(texts).strip()


def pictures_in(messages: Sequence[Message]) -> int:
    """How many pictures the messages hold."""
    contents = [message["content"] for message in messages]
    return sum(part["type"] == "image_url" for content in contents if isinstance(content, list) for part in content)


def _plain_arguments(box: Sequence[float], picture: int) -> dict[str, Any]:
    return {"bbox_2d": list(box), **({"img_idx": picture} if picture else {})}
