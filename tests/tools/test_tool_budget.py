"""One place holds every tool to its time and its size, and no tool can end a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tool_samples import LIMITS, context, painted

from speceyes.errors import BoxError, ConfigError, EngineTimeout
from speceyes.imaging.geometry import Box
from speceyes.imaging.view import PNG, View, encode
from speceyes.tools import ToolBudget, ToolContext, ToolResult, run_tool

CONTEXT = context(painted((320, 320)))


@dataclass
class Stub:
    """A tool that does what a test wants."""

    work: Callable[[], Awaitable[Any]]
    budget: ToolBudget | None = None
    name: str = "stub"
    schema: Mapping[str, Any] = None  # type: ignore[assignment]

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await self.work()


def giving(result: object) -> Stub:
    async def work() -> object:
        return result

    return Stub(work)


def raising(error: BaseException) -> Stub:
    async def work() -> ToolResult:
        raise error

    return Stub(work)


def picture(width: int, height: int) -> View:
    """Of any shape, as only a stranger's tool gives it back."""
    pixels = Image.new("RGB", (width, height))
    return View(0, Box(0, 0, width, height), pixels.size, encode(pixels, PNG))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no such word"), "stub failed: ValueError: no such word"),
        (KeyError(), "stub failed: KeyError."),
        (TimeoutError("its own"), "stub failed: TimeoutError: its own"),
        (EngineTimeout("the search server is slow"), "stub failed: EngineTimeout: the search server is slow"),
        (BoxError("Give another box."), "Give another box."),
        (SystemExit(3), "it wanted to end the program (3)"),
        (asyncio.CancelledError(), "it was cancelled from within"),
        (RecursionError("maximum recursion depth"), "RecursionError"),
        (MemoryError(), "MemoryError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
async def test_what_a_tool_raises_is_told(error: BaseException, said: str) -> None:
    result = await run_tool(raising(error), {}, CONTEXT)
    assert result.error is not None
    assert said in result.error


async def test_a_tool_that_never_ends_is_given_up_and_cancelled() -> None:
    ended = asyncio.Event()

    async def work() -> ToolResult:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    result = await run_tool(Stub(work), {}, CONTEXT, ToolBudget(seconds=0.01))
    assert result.error is not None
    assert "was not done within 0.01 s" in result.error
    assert ended.is_set()


async def test_a_tool_that_will_not_be_cancelled_does_not_hold_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speceyes.tools.budget.FAREWELL_S", 0.01)
    released = asyncio.Event()

    async def work() -> ToolResult:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        raise ValueError("nobody listens any more")

    result = await run_tool(Stub(work), {}, CONTEXT, ToolBudget(seconds=0.01))
    assert result.error is not None
    released.set()
    await asyncio.sleep(0)


async def test_cancelling_the_call_cancels_the_tool() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def work() -> ToolResult:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    running = asyncio.create_task(run_tool(Stub(work), {}, CONTEXT))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_a_tool_s_own_budget_stands_above() -> None:
    tool = giving(ToolResult("x" * 100))
    tool.budget = ToolBudget(characters=40)
    assert len((await run_tool(tool, {}, CONTEXT, ToolBudget(characters=50))).text) == 40


@pytest.mark.parametrize("result", [None, "text", 3, {"text": "x"}])
async def test_what_is_no_result_is_told(result: object) -> None:
    told = await run_tool(giving(result), {}, CONTEXT)
    assert told.error is not None
    assert f"gave back a {type(result).__name__}" in told.error


@settings(max_examples=60)
@given(st.text(max_size=400), st.integers(1, 300), st.integers(0, 6), st.integers(1, 4))
async def test_text_and_pictures_keep_within_the_budget(text: str, most: int, pictures: int, allowed: int) -> None:
    views = (picture(64, 64),) * pictures
    budget = ToolBudget(characters=most, pictures=allowed)
    result = await run_tool(giving(ToolResult(text, views)), {}, CONTEXT, budget)
    assert len(result.text) <= most
    assert len(result.views) == min(pictures, allowed)
    if len(text) <= most and pictures <= allowed:
        assert result.text == text


async def test_what_is_left_out_is_said() -> None:
    result = await run_tool(
        giving(ToolResult("x" * 5000, (picture(64, 64),) * 5)), {}, CONTEXT, ToolBudget(characters=1000, pictures=2)
    )
    assert "more characters were left out" in result.text
    assert "(3 more pictures were left out.)" in result.text


@settings(max_examples=25)
@given(st.integers(1, 900), st.integers(1, 900), st.integers(1, 5), st.integers(10_000, 2_000_000))
async def test_pictures_take_a_size_that_the_model_takes_and_their_share_of_the_pixels(
    width: int, height: int, count: int, pixels: int
) -> None:
    views = (picture(width, height),) * count
    result = await run_tool(giving(ToolResult("", views)), {}, CONTEXT, ToolBudget(pixels=pixels))
    if result.error is not None:  # more than 200 times as long as wide
        assert "too thin" in result.error
        return
    for view in result.views:
        assert LIMITS.accepts(view.size)
        assert view.pixels.size == view.size
        assert view.region == Box(0, 0, width, height)  # where it comes from does not change
    least = count * LIMITS.min_pixels
    assert sum(view.size[0] * view.size[1] for view in result.views) <= max(pixels, least)


async def test_an_error_is_cut_too() -> None:
    result = await run_tool(raising(ValueError("x" * 10_000)), {}, CONTEXT)
    assert result.error is not None
    assert len(result.error) <= 500


@pytest.mark.parametrize("field", ["seconds", "characters", "pictures", "pixels"])
def test_a_budget_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        ToolBudget(**{field: 0})
