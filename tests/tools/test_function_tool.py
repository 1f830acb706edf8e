"""Any Python function as a tool: what the model is told of it, how its arguments are read, what comes back."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from typing import Annotated, Any, Literal, Optional

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tool_samples import context, painted, red_share, shown

from speceyes.errors import ConfigError
from speceyes.imaging.geometry import Box, Coordinates
from speceyes.tools import FunctionTool, RotateTool, ToolBudget, ToolContext, ToolResult, ZoomTool, run_tool, tool
from speceyes.tools.functions.docstrings import read_docstring

CONTEXT = context(painted((640, 320), (320, 0, 640, 320)))


@tool
def find_word(
    word: str,
    times: int = 1,
    share: float = 0.5,
    exact: bool = False,
    among: list[str] | None = None,
    side: Literal["left", "right"] = "left",
) -> str:
    """Find a word in the register.

    It looks twice.

    Args:
        word: What to look for,
            in any language.
        times (int): How often.

    Returns:
        What was found.
    """
    return f"{word} {times} {share} {exact} {among} {side}"


def test_the_schema_says_what_the_function_says() -> None:
    assert find_word.schema == {
        "type": "function",
        "function": {
            "name": "find_word",
            "description": "Find a word in the register. It looks twice.",
            "parameters": {
                "type": "object",
                "properties": {
                    "word": {"type": "string", "description": "What to look for, in any language."},
                    "times": {"type": "integer", "description": "How often."},
                    "share": {"type": "number"},
                    "exact": {"type": "boolean"},
                    "among": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
                    "side": {"type": "string", "enum": ["left", "right"]},
                },
                "required": ["word"],
            },
        },
    }


def test_a_tool_is_still_the_function() -> None:
    assert find_word("a", times=2) == "a 2 0.5 False None left"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"word": "cat"}, "cat 1 0.5 False None left"),
        (
            {"word": "cat", "times": "3", "share": "0.25", "exact": "true", "side": "Right"},
            "cat 3 0.25 True None right",
        ),
        ({"word": 5, "times": 2.0, "among": '["a", "b"]'}, "5 2 0.5 False ['a', 'b'] left"),
        ({"word": "cat", "times": None, "among": None, "colour": "red"}, "cat 1 0.5 False None left"),
    ],
)
async def test_arguments_are_read_as_models_write_them(arguments: dict[str, Any], said: str) -> None:
    assert (await find_word.run(arguments, CONTEXT)).text == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "find_word needs word: a text."),
        ({"word": None}, "word must be a text, not None."),
        ({"word": ["cat"]}, "word must be a text, not ['cat']."),
        ({"word": "cat", "times": "many"}, "times must be a whole number, not 'many'."),
        ({"word": "cat", "times": 1.5}, "times must be a whole number, not 1.5."),
        ({"word": "cat", "times": True}, "times must be a whole number, not True."),
        ({"word": "cat", "share": float("nan")}, "share must be a number, not nan."),
        ({"word": "cat", "exact": "perhaps"}, "exact must be true or false, not 'perhaps'."),
        ({"word": "cat", "among": "ab"}, "among must be a list, each of it a text or null, not 'ab'."),
        ({"word": "cat", "among": ["a", {}]}, "among must be a list, each of it a text or null, not ['a', {}]."),
        ({"word": "cat", "side": "up"}, 'side must be one of "left", "right", not \'up\'.'),
        ({"word": "cat", "times": 10**5000}, "times must be"),
    ],
)
async def test_an_argument_that_does_not_fit_is_told(arguments: dict[str, Any], said: str) -> None:
    result = await run_tool(find_word, arguments, CONTEXT)
    if arguments.get("times") == 10**5000:  # a whole number it is, but no text can be made of it
        assert result.error is not None
        return
    assert result.error == said


async def test_functions_of_every_kind_can_be_called() -> None:
    class Counter:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def note(self, word: str) -> str:
            """Note a word."""
            self.seen.append(word)
            return f"{len(self.seen)}"

        async def __call__(self, word: str) -> str:
            return word.upper()

    async def later(word: str) -> str:
        await asyncio.sleep(0)
        return word[::-1]

    counter = Counter()
    assert (await FunctionTool.of(counter.note).run({"word": "cat"}, CONTEXT)).text == "1"
    assert (await FunctionTool.of(counter, name="shout").run({"word": "cat"}, CONTEXT)).text == "CAT"
    assert (await FunctionTool.of(later).run({"word": "cat"}, CONTEXT)).text == "tac"
    partial = functools.partial(find_word.function, times=7)
    found = await FunctionTool.of(partial, name="seven", description="x").run({"word": "cat"}, CONTEXT)
    assert found.text == "cat 7 0.5 False None left"
    assert FunctionTool.of(find_word) is find_word


async def test_a_sync_function_runs_in_a_thread_and_an_async_one_does_not() -> None:
    async def here() -> str:
        return threading.current_thread().name

    assert (await FunctionTool.of(lambda: threading.current_thread().name, name="f").run({}, CONTEXT)).text == "tool f"
    assert (await FunctionTool.of(here).run({}, CONTEXT)).text == threading.current_thread().name


async def test_a_function_that_never_ends_is_given_up_and_holds_nothing() -> None:
    release = threading.Event()

    @tool(budget=ToolBudget(seconds=0.05))
    def wait() -> str:
        release.wait()
        return "too late"

    results = await asyncio.gather(*(run_tool(wait, {}, CONTEXT) for _ in range(40)))  # more than a pool has threads
    assert all(result.error and "was not done within" in result.error for result in results)
    release.set()


@pytest.mark.parametrize("error", [ValueError("bad"), StopIteration("none"), SystemExit(1), KeyboardInterrupt()])
async def test_what_a_function_raises_is_told(error: BaseException) -> None:
    def fail() -> None:
        raise error

    result = await run_tool(FunctionTool.of(fail), {}, CONTEXT)
    assert result.error is not None
    assert result.error.startswith("fail failed: ")


PICTURE = Image.new("RGB", (200, 100), (255, 0, 0))


def png() -> bytes:
    from speceyes.imaging.view import PNG, encode

    return encode(PICTURE, PNG)


@pytest.mark.parametrize(
    "value",
    [
        PICTURE,
        PICTURE.convert("RGBA"),
        np.asarray(PICTURE),
        np.asarray(PICTURE) / 255.0,
        np.asarray(PICTURE, dtype=np.int64),
        png(),
        bytearray(png()),
        [PICTURE],
        ("", PICTURE),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_pictures_come_back_in_every_form(value: object) -> None:
    view = shown(await FunctionTool.of(lambda: value, name="f").run({}, CONTEXT))
    assert red_share(view) == 1.0
    assert CONTEXT.limits.accepts(view.size)
    assert view.made is not None
    assert view.made.size == (200, 100)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("said", "said"),
        (None, "Done."),
        ("", "Done."),
        (3, "3"),
        (True, "true"),
        ({"a": [1, 2.5], "b": "ü"}, '{"a": [1, 2.5], "b": "ü"}'),
        ([1, "two", None], '[1, "two", null]'),
        ([{"word": "cat"}], '[{"word": "cat"}]'),
        (np.float32(0.5), "0.5"),
        (np.arange(4).reshape(2, 2), "[[0, 1], [2, 3]]"),
        ({"box": Box(1, 2, 3, 4)}, '{"box": [1, 2, 3, 4]}'),
        ({1}, "[1]"),
    ],
)
async def test_what_is_no_picture_is_text(value: object, text: str) -> None:
    assert await FunctionTool.of(lambda: value, name="f").run({}, CONTEXT) == ToolResult(text)


async def test_texts_and_pictures_mix() -> None:
    result = await FunctionTool.of(lambda: ["before", PICTURE, {"n": 1}, PICTURE], name="f").run({}, CONTEXT)
    assert result.text == 'before\n{"n": 1}'
    assert len(result.views) == 2


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"no image at all", "not an image of a known format"),
        (np.full((4, 4, 3), -1.0), "is no picture"),
        (np.zeros((0, 4, 3)), "it has no pixels"),
        (np.full((4, 4, 3), 300), "is no picture"),
        (np.full((4, 4, 3), np.nan), "is no picture"),
        (Image.new("RGB", (1, 900)), "too thin"),
    ],
    ids=["bytes", "negative", "empty", "large", "nan", "thin"],
)
async def test_a_picture_that_is_none_is_told(value: object, said: str) -> None:
    result = await run_tool(FunctionTool.of(lambda: value, name="f"), {}, CONTEXT)
    assert result.error is not None
    assert said in result.error


async def test_a_later_box_on_a_made_picture_is_cut_from_it() -> None:
    ctx = context(painted((640, 320)))
    chart = Image.new("RGB", (2000, 1000), "white")
    chart.paste((255, 0, 0), (1500, 500, 1600, 560))
    ctx.views.append(shown(await FunctionTool.of(lambda: chart, name="plot").run({}, ctx)))
    zoom = ZoomTool(coordinates=Coordinates.PER_MILLE)
    view = shown(await zoom.run({"bbox_2d": [750, 500, 800, 560], "img_idx": 1}, ctx))
    assert red_share(view) > 0.97
    assert view.made is not None
    turned = shown(await RotateTool().run({"angle": 90, "img_idx": 1}, ctx))
    assert turned.made is view.made


@tool
def redness(picture: Image.Image, box: Box, label: str = "") -> str:
    """How red a part of the picture is.

    Args:
        box: The part.
    """
    part = np.asarray(picture.crop(tuple(round(edge) for edge in box.as_tuple())))  # type: ignore[arg-type]
    return f"{(part[:, :, 1] < 100).mean():.2f} of {part.shape[1]} x {part.shape[0]}"


@pytest.mark.parametrize("coordinates", Coordinates)
async def test_a_function_gets_the_picture_at_full_size_and_its_box_in_pixels_of_it(coordinates: Coordinates) -> None:
    ctx = context(painted((4000, 2000), (3000, 1000, 3500, 1500)))
    boxes = {
        Coordinates.RESIZED: [edge * ctx.views[0].size[0] / 4000 for edge in (3000, 1000, 3500, 1500)],
        Coordinates.ORIGINAL: [3000, 1000, 3500, 1500],
        Coordinates.UNIT: [0.75, 0.5, 0.875, 0.75],
        Coordinates.PER_MILLE: [750, 500, 875, 750],
    }
    result = await redness.speaking(coordinates).run({"box": boxes[coordinates]}, ctx)
    share, _, width, _, _ = (result.text or str(result.error)).split()
    assert float(share) > 0.97
    assert int(width) == pytest.approx(500, abs=3)


async def test_a_function_sees_a_turned_picture_turned() -> None:
    ctx = context(painted((640, 320), (320, 0, 640, 320)))
    ctx.views.append(shown(await RotateTool().run({"angle": 90}, ctx)))
    thousandths = redness.speaking(Coordinates.PER_MILLE)
    lower = await thousandths.run({"box": [0, 510, 1000, 1000], "img_idx": 1}, ctx)
    assert lower.text.startswith("1.00 of 320 x")


async def test_a_function_cannot_spoil_the_image() -> None:
    @tool
    def scribble(picture: Image.Image) -> Image.Image:
        picture.paste((0, 0, 255), (0, 0, *picture.size))
        return picture

    ctx = context(painted((320, 320), (0, 0, 320, 320)))
    assert red_share(shown(await scribble.run({}, ctx))) == 0.0
    assert ctx.images[0].pixels.getpixel((5, 5)) == (255, 0, 0)


def test_what_is_filled_in_is_not_asked_of_the_model() -> None:
    parameters = redness.speaking(Coordinates.UNIT).schema["function"]["parameters"]
    assert list(parameters["properties"]) == ["box", "label", "img_idx"]
    assert parameters["properties"]["box"]["description"] == "The part: x1, y1, x2, y2 from 0 to 1"
    assert parameters["required"] == ["box"]


async def test_a_function_can_have_the_whole_context() -> None:
    @tool
    def count(seen: ToolContext) -> int:
        return len(seen.views)

    assert (await count.run({}, CONTEXT)).text == "1"
    assert count.schema["function"]["parameters"]["properties"] == {}


async def test_without_a_picture_it_says_so() -> None:
    result = await redness.run({"box": [0, 0, 1, 1]}, context())
    assert result.error == "There is no picture. Answer from the text."


async def test_an_optional_box_may_be_left_out() -> None:
    @tool
    def where(box: Box | None = None) -> str:
        return str(box)

    assert (await where.run({}, CONTEXT)).text == "None"
    assert (await where.run({"box": None}, CONTEXT)).text == "None"
    assert where.schema["function"]["parameters"]["required"] == []


class Stranger:
    pass


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda *words: "", "has no name that a model could give"),
        (lambda **words: "", "has no name that a model could give"),
        (3, "not from a int"),
    ],
)
def test_what_cannot_be_described_is_refused(function: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        FunctionTool(function, name="f")


def test_a_type_that_cannot_be_described_is_refused() -> None:
    def strange(one: Stranger) -> None: ...

    def two(one: Box, other: Box) -> None: ...

    with pytest.raises(ConfigError, match="tool strange: parameter one: the type 'Stranger' cannot be described"):
        tool(strange)
    with pytest.raises(ConfigError, match="only one parameter can be the box"):
        tool(two)
    with pytest.raises(ConfigError, match=r"'<lambda>' is no name for a tool"):
        tool(lambda: "")


def test_annotations_and_old_style_hints_are_understood() -> None:
    @tool
    def old(word: Annotated[str, "the word"], level: Optional[int] = None, choice: Literal[1, 2] = 1) -> None:  # noqa: UP045
        """Old."""

    properties = old.schema["function"]["parameters"]["properties"]
    assert properties["word"] == {"type": "string", "description": "the word"}
    assert properties["level"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert properties["choice"] == {"type": "integer", "enum": [1, 2]}


def test_docstrings_of_both_styles_are_read() -> None:
    sphinx = "Do it.\n\n:param word: The word,\n    all of it.\n:param int times: How often.\n:returns: Nothing."
    words = read_docstring(sphinx)
    assert words.summary == "Do it."
    assert words.arguments == {"word": "The word, all of it.", "times": "How often."}
    assert read_docstring(None).summary == ""


HINTS = st.sampled_from(
    [str, int, float, bool, list, dict, list[int], list[list[float]], str | None, int | str, Literal["a", "b"], Any]
)


@settings(max_examples=100)
@given(st.lists(HINTS, max_size=5), st.data())
async def test_what_a_schema_allows_is_accepted(hints: list[Any], data: st.DataObject) -> None:
    """Arguments that are made from the schema reach the function."""

    def function(**given: Any) -> str:
        return "called"

    names = [f"p{number}" for number in range(len(hints))]
    kinds = inspect.Parameter.KEYWORD_ONLY
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kinds) for name in names]
    )
    function.__annotations__ = dict(zip(names, hints, strict=True))
    made = FunctionTool(function, name="f", description="x")
    parameters = made.schema["function"]["parameters"]
    jsonschema.Draft202012Validator.check_schema(parameters)
    values = {
        str: st.text(max_size=5),
        int: st.integers(-9, 9),
        float: st.floats(-9, 9),
        bool: st.booleans(),
        list: st.lists(st.integers(), max_size=2),
        dict: st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    }
    arguments = {}
    for name, hint in zip(names, hints, strict=True):
        source = values.get(hint, st.none() if hint in (str | None, Any) else st.sampled_from(["a", "b"]))
        if hint == list[int]:
            source = st.lists(st.integers(), max_size=2)
        elif hint == list[list[float]]:
            source = st.lists(st.lists(st.floats(-1, 1), max_size=2), max_size=2)
        arguments[name] = data.draw(source)
    jsonschema.validate(arguments, parameters)
    assert (await made.run(arguments, CONTEXT)).text == "called"
