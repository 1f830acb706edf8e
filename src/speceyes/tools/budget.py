"""What one tool call may take and give back. It is enforced here, for all tools, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from speceyes.errors import ConfigError, InputError
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.resize import PixelLimits, render
from speceyes.imaging.view import View
from speceyes.tools.base import Tool, ToolContext, ToolResult

FAREWELL_S = 2.0
"""Seconds that a tool gets to tidy up after it was cancelled. Then the run goes on without it."""

MOST_ERROR_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class ToolBudget:
    """Limits of one tool call. A tool with limits of its own has them as its attribute `budget`.

    Attributes:
        seconds: Wall time, after which the call is given up.
        characters: Text that goes to the model; the rest is left out, and the model is told.
        pictures: Pictures that go to the model; the same.
        pixels: Of all these pictures together. Pictures that are larger than their share are made smaller.

    Raises:
        ConfigError: A limit is not positive.
    """

    seconds: float = 60.0
    characters: int = 8_000
    pictures: int = 8
    pixels: int = 16_000_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ConfigError(f"ToolBudget.{name} is {getattr(self, name)}; it must be above 0.")


TOOL_BUDGET = ToolBudget()


async def run_tool(
    tool: Tool, arguments: Mapping[str, Any], context: ToolContext, budget: ToolBudget = TOOL_BUDGET
) -> ToolResult:
    """Run a tool within its budget. Whatever goes wrong in it becomes a result that the model can read.

    Only cancellation comes out of it: whoever cancels the call cancels the tool.

    Args:
        tool: The tool; its own `budget`, if it has one, stands above the one given here.
        arguments: As the model gave them.
        context: What the tool may look at.
        budget: What it may take and give back.
    """
    own = getattr(tool, "budget", None)
    limits = own if isinstance(own, ToolBudget) else budget
    try:
        result = await _within(limits.seconds, tool, arguments, context)
        if not isinstance(result, ToolResult):
            return ToolResult(error=f"{tool.name} gave back a {type(result).__name__}, which cannot be shown.")
        return await _cut(result, limits, context.limits)
    except TooSlow:
        return ToolResult(
            error=f"{tool.name} was not done within {limits.seconds:g} s and was stopped. Ask it for less, or go on "
            "without it."
        )
    except InputError as error:  # its message is made for whoever gave the input, which is the model here
        return ToolResult(error=_shortened(str(error), MOST_ERROR_CHARACTERS))
    except (Exception, SystemExit) as error:
        return ToolResult(error=_failure(tool.name, error))


class TooSlow(Exception):
    """The time is up."""


async def _within(seconds: float, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> object:
    async def run() -> object:
        try:
            return await tool.run(arguments, context)
        except SystemExit as error:  # would end the event loop
            raise RuntimeError(f"it wanted to end the program ({error.code})") from error

    task = asyncio.ensure_future(run())
    task.add_done_callback(_take_note)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.cancelled():
            raise RuntimeError("it was cancelled from within")
        if task.done():
            return task.result()
        raise TooSlow
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=FAREWELL_S)


def _take_note(task: asyncio.Future[object]) -> None:
    """Look at the error of a task that nobody waits for any more, so that asyncio does not complain about it."""
    if not task.cancelled():
        task.exception()


def _failure(name: str, error: BaseException) -> str:
    said = str(error).strip()
    return _shortened(f"{name} failed: {type(error).__name__}" + (f": {said}" if said else "."), MOST_ERROR_CHARACTERS)


async def _cut(result: ToolResult, budget: ToolBudget, limits: PixelLimits) -> ToolResult:
    """The result without what is beyond the budget."""
    text, views = result.text, result.views
    text = _shortened(text, budget.characters)
    if (left_out := len(views) - budget.pictures) > 0:
        views = views[: budget.pictures]
        note = f"({left_out} more pictures were left out.)"
        text = f"{_shortened(text, max(0, budget.characters - len(note) - 1))}\n{note}".strip()[: budget.characters]
    share = budget.pixels // max(1, len(views))
    views = tuple([await _fitting(view, share, limits) for view in views])
    error = None if result.error is None else _shortened(result.error, budget.characters)
    return replace(result, text=text, views=views, error=error)


async def _fitting(view: View, most: int, limits: PixelLimits) -> View:
    """A picture of a size that the model takes, and of at most so many pixels where the model takes any such."""
    if limits.accepts(view.size) and view.size[0] * view.size[1] <= max(most, limits.min_pixels):
        return view
    smaller = _limits_up_to(most, limits)

    def make() -> View:
        made = render(DecodedImage.of_pixels(view.pixels), None, smaller)
        return replace(view, size=made.size, encoded=made.encoded, mime=made.mime)

    return await asyncio.to_thread(make)


def _limits_up_to(most: int, limits: PixelLimits) -> PixelLimits:
    try:
        return replace(limits, max_pixels=min(limits.max_pixels, max(most, limits.min_pixels)))
    except ConfigError:  # no size lies between: the model's own limits stand
        return limits


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    note = f"\n({len(text) - most:,} more characters were left out.)"
    return (text[: max(0, most - len(note))] + note)[:most]
