"""What every tool promises, held against each tool that comes with SpecEyes, and against a function as a tool.

A model may write anything as arguments. Whatever it is, `run_tool` gives back a result within the tool's budget: never
an exception, never nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tool_samples import LIMITS, context, painted

from speceyes.agents.dialects import DIALECTS, make_dialect
from speceyes.imaging.geometry import Box, Coordinates
from speceyes.sandbox import Bubblewrap
from speceyes.tools import (
    TOOL_BUDGET,
    Address,
    FunctionTool,
    OcrTool,
    RotateTool,
    Tool,
    ToolBudget,
    ToolContext,
    ToolResult,
    ZoomTool,
    run_tool,
)
from speceyes.tools.ocr import Line
from speceyes.tools.python import PythonTool


def work(
    picture: Image.Image, box: Box | None = None, times: int = 1, words: list[str] | None = None,
    how: Literal["dark", "light"] = "dark",
) -> list[object]:  # fmt: skip
    """Work on a part of the picture.

    Args:
        box: The part.
        times: How often.
    """
    part = picture if box is None else picture.crop(tuple(round(edge) for edge in box.as_tuple()))  # type: ignore[arg-type]
    return [f"{how} {words}", *([part] * (times % 3))]


def one_line(picture: Image.Image) -> list[Line]:
    return [Line("word", Box(0, 0, picture.width / 2, picture.height / 2), 0.9)]


TOOLS: dict[str, Callable[[], Tool]] = {
    **{
        f"zoom {coordinates}": lambda coordinates=coordinates: ZoomTool(coordinates=coordinates)
        for coordinates in Coordinates
    },
    "zoom into what was seen last": lambda: ZoomTool(address=Address.LATEST, context=0.5, indexed=True),
    **{
        f"rotate {coordinates}": lambda coordinates=coordinates: RotateTool(coordinates=coordinates)
        for coordinates in Coordinates
    },
    "rotate with an index": lambda: RotateTool(indexed=True),
    "read text": lambda: OcrTool(read_lines=one_line, indexed=True),
    "a function": lambda: FunctionTool.of(work),
}
"""Tools that need nothing but this process."""

DESCRIBED = {
    **TOOLS,
    "python": lambda: PythonTool(Bubblewrap()),
    **{
        f"{name}'s own": lambda name=name: next(iter(make_dialect(name).toolbox.values()))
        for name in sorted(DIALECTS)
        if make_dialect(name).toolbox
    },
}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
numbers = st.integers(-2000, 3000) | st.floats(-1, 2) | st.sampled_from([0, 1, 0.5, 1e308, -0.0])
likely = st.fixed_dictionaries(
    {},
    optional={
        "bbox_2d": st.lists(numbers, min_size=4, max_size=4) | anything,
        "box": st.lists(numbers, min_size=4, max_size=4) | anything,
        "angle": st.floats(-720, 720) | anything,
        "img_idx": st.integers(-1, 4) | anything,
        "times": st.integers(0, 5) | anything,
        "words": st.lists(st.text(max_size=3), max_size=3) | anything,
        "how": st.sampled_from(["dark", "light"]) | anything,
        "label": anything,
    },
)
arguments = likely | st.dictionaries(st.text(max_size=8), anything, max_size=4)


@pytest.mark.parametrize("name", DESCRIBED)
def test_it_describes_itself_as_the_api_wants_it(name: str) -> None:
    tool = DESCRIBED[name]()
    schema = tool.schema
    assert schema == tool.schema
    assert schema["type"] == "function"
    function = schema["function"]
    assert function["name"] == tool.name
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name)
    assert function["description"].strip()
    parameters = function["parameters"]
    jsonschema.Draft202012Validator.check_schema(parameters)
    assert parameters["type"] == "object"
    assert set(parameters["required"]) <= set(parameters["properties"])
    for field in parameters["properties"].values():
        assert {"type", "anyOf", "enum"} & field.keys()


@pytest.fixture(scope="module", params=["fresh", "later", "nothing"])
def seen(request: pytest.FixtureRequest) -> ToolContext:
    """What a model has seen: two images; more after some calls; or no image at all."""
    if request.param == "nothing":
        return ToolContext((), [], LIMITS)
    ctx = context(painted((640, 480), (100, 100, 300, 200)), painted((96, 1200)))
    if request.param == "later":
        for tool, call in (
            (ZoomTool(), {"bbox_2d": [50, 50, 400, 300]}),
            (RotateTool(), {"angle": 33}),
            (FunctionTool.of(lambda: Image.new("RGB", (300, 200)), name="make"), {}),
        ):
            ctx.views.extend(asyncio.run(run_tool(tool, call, ctx)).views)
    return ctx


@pytest.mark.parametrize("name", TOOLS)
@settings(max_examples=40)
@given(data=st.data())
def test_any_arguments_give_a_result_within_the_budget(name: str, seen: ToolContext, data: st.DataObject) -> None:
    tool, given_ = TOOLS[name](), data.draw(arguments)
    before, budget = list(seen.views), ToolBudget(characters=200, pictures=2, pixels=200_000)
    result = asyncio.run(run_tool(tool, given_, seen, budget))
    assert isinstance(result, ToolResult)
    assert result.error is None or result.error.strip()
    assert result.error is not None or result.text or result.views
    own = tool.budget if isinstance(getattr(tool, "budget", None), ToolBudget) else budget
    assert len(result.text) <= own.characters
    assert len(result.error or "") <= max(own.characters, 500)
    assert len(result.views) <= own.pictures
    assert all(seen.limits.accepts(view.size) for view in result.views)
    assert sum(view.size[0] * view.size[1] for view in result.views) <= own.pixels
    assert seen.views == before  # what the model has seen is the loop's to say


@pytest.mark.parametrize("name", TOOLS)
async def test_it_keeps_nothing_from_one_call_to_the_next(name: str) -> None:
    """One tool serves any number of runs at a time: the same call gives the same result."""
    tool, ctx = TOOLS[name](), context(painted((640, 480), (100, 100, 300, 200)))
    call: dict[str, Any] = {"bbox_2d": [0, 0, 0.9, 0.9], "angle": 20, "box": [0, 0, 300, 300], "times": 2}
    first, _, again = [await run_tool(tool, each, ctx, TOOL_BUDGET) for each in (call, {"angle": "x"}, call)]
    assert first == again
