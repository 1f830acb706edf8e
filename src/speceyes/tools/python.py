"""The Python tool: the model writes code, and a sandbox runs it on the image files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from speceyes.errors import ImageError, SandboxError
from speceyes.imaging.resize import PixelLimits
from speceyes.sandbox import Limits, Outcome, Provider, Session, image_path
from speceyes.tools.addressing import function_schema
from speceyes.tools.base import Tool, ToolContext, ToolResult
from speceyes.tools.budget import ToolBudget
from speceyes.tools.functions.results import show_made

CODE_FIELD = "code"
DESCRIPTION = (
    "Run Python code on the images. Variables stay from one call to the next. The images are files, image_1.png and "
    "so on, and open as Pillow images in the variables image_1 and so on. NumPy, Pillow and Matplotlib are there. What "
    "the code prints comes back as text; pictures that it saves or shows come back as pictures."
)
QUIET = "The code ran. It printed nothing and showed nothing."
_START_S = 45.0
"""On top of a step's time: a new sandbox, the pictures that go in, and those that come out."""


class PythonTool:
    """Runs code in a sandbox, one session for each agent run.

    In a session the images lie as `image_1.png`, ... in the working folder, read-only and with all their pixels;
    `image_path` and `image_paths` are their full paths. After a time-out or a crash the interpreter is a new one, and
    the model is told so.

    Args:
        provider: Where code runs.
        limits: What a session may use. None: the defaults.
        name: The name that the model calls the tool by.
        description: What the model is told about it.
        setup: Code for each new interpreter. None: opens the images with Pillow, as `image_1`, ...
    """

    def __init__(
        self,
        provider: Provider,
        limits: Limits | None = None,
        *,
        name: str = "python",
        description: str = DESCRIPTION,
        setup: str | None = None,
    ) -> None:
        self.provider = provider
        self.limits = limits or Limits()
        self.name = name
        self.description = description
        self.setup = setup
        self.budget = ToolBudget(
            seconds=2 * self.limits.wall_s + _START_S,
            # both streams, a traceback and the notes: each has been cut already
            characters=4 * self.limits.output_chars,
            pictures=self.limits.pictures,
        )

    @property
    def schema(self) -> Mapping[str, Any]:
        code = {"type": "string", "description": "Python code"}
        return function_schema(self.name, self.description, {CODE_FIELD: code}, CODE_FIELD)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Tool]:
        """The tool for one agent run: its variables and files live until the end of it."""
        run = _OneRun(self)
        try:
            yield run
        finally:
            await run.close()

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run code in a session of its own."""
        async with self.session() as tool:
            return await tool.run(arguments, context)


class _OneRun:
    """The Python tool of one agent run. The sandbox starts with the first call."""

    def __init__(self, tool: PythonTool) -> None:
        self._tool = tool
        self.name, self.schema, self.budget = tool.name, tool.schema, tool.budget
        self._opened = contextlib.AsyncExitStack()
        self._session: Session | None = None
        self._set_up = False
        self._one_at_a_time = asyncio.Lock()

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        code = arguments.get(CODE_FIELD)
        if not isinstance(code, str) or not code.strip():
            return ToolResult(error=f"{self.name} needs {CODE_FIELD}: Python code as a text.")
        async with self._one_at_a_time:
            try:
                outcome = await self._run(code, context)
            except SandboxError as error:
                return ToolResult(error=f"The code was not run: {error}. Try again, or answer without it.")
        return await as_result(outcome, context.limits)

    async def _run(self, code: str, context: ToolContext) -> Outcome:
        if self._session is None:
            opened = self._tool.provider.open(context.images, self._tool.limits)
            self._session = await self._opened.enter_async_context(opened)
        if not self._set_up:
            setup = self._tool.setup
            await self._session.run(open_images(len(context.images)) if setup is None else setup)
            self._set_up = True
        self._set_up = False  # where this step is cancelled, its sandbox and all that was in it are gone
        outcome = await self._session.run(code)
        self._set_up = not outcome.state_lost
        return outcome

    async def close(self) -> None:
        await self._opened.aclose()


def open_images(count: int) -> str:
    """Code that opens the images of a session as `image_1`, ..."""
    lines = [f"image_{index + 1} = Image.open({image_path(index)!r})" for index in range(count)]
    return "\n".join(["from PIL import Image", *lines])


async def as_result(outcome: Outcome, limits: PixelLimits) -> ToolResult:
    """What the model is told of a step, and shown of it."""
    views, notes = [], list(outcome.notes)
    for picture in outcome.pictures:
        try:
            views.append(await show_made(picture.image, limits))
        except ImageError as error:
            notes.append(f"{picture.name} is left out: {error}")
    if outcome.files:
        files = ", ".join(f"{file.name} ({file.bytes:,} bytes)" for file in outcome.files)
        notes.append(f"New files: {files}.")
    said = [outcome.stdout.rstrip(), _titled("Error output", outcome.stderr)]
    if outcome.error is None:
        text = _joined([*said, *(f"({note})" for note in notes)])
        return ToolResult(text or ("" if views else QUIET), tuple(views))
    # The error first: whoever shortens the text shortens its end.
    return ToolResult(error=_joined([outcome.error, *(f"({note})" for note in notes), *said]), views=tuple(views))


def _titled(title: str, text: str) -> str:
    return f"{title}:\n{text.rstrip()}" if text.strip() else ""


def _joined(parts: Sequence[str]) -> str:
    return "\n".join(part for part in parts if part.strip())
