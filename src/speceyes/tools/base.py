"""What a visual tool is: a name, a schema, and a run that answers with text, pictures or an error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.resize import PixelLimits
from speceyes.imaging.view import View


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may look at.

    Attributes:
        images: The query's images, in the user's order, at full size.
        views: Every view that the model has seen so far, oldest first. The first `len(images)` are the whole
            images. A call may name one by its index.
        limits: The sizes of picture that the agent's model takes.
    """

    images: Sequence[DecodedImage]
    views: list[View]
    limits: PixelLimits


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gives back.

    Attributes:
        text: Words for the model; may be empty where the pictures say it all.
        views: Pictures for the model, in order.
        error: Set where the tool could not do what was asked: a sentence that the model can act on.
    """

    text: str = ""
    views: tuple[View, ...] = ()
    error: str | None = None


class Tool(Protocol):
    """One visual tool."""

    @property
    def name(self) -> str:
        """The name that the model calls it by."""
        ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """The tool as an OpenAI function schema: `{"type": "function", "function": {...}}`."""
        ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run the tool. What the model did wrong is a result with `error` set, never an exception."""
        ...


@runtime_checkable
class HasSessions(Protocol):
    """A tool that remembers something from one call to the next, within one agent run."""

    def session(self) -> AbstractAsyncContextManager[Tool]:
        """The tool for one agent run. Leaving the context, cancelled or not, ends what it holds."""
        ...


@asynccontextmanager
async def tools_of_one_run(toolbox: Mapping[str, Tool]) -> AsyncIterator[Mapping[str, Tool]]:
    """The tools of one agent run, by name: those with sessions get one for as long as the context lasts."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(tool.session()) if isinstance(tool, HasSessions) else tool
            for name, tool in toolbox.items()
        }
