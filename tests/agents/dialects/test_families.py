"""What each family is: its calls, its boxes, its pictures, and the messages that it is sent."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image

from speceyes.agents.dialects import DIALECTS, Call, Final, Malformed, Occasion, Qwen3VL, make_dialect
from speceyes.agents.dialects.conformance import StandInPython
from speceyes.agents.dialects.conformance.stage import words_of
from speceyes.agents.dialects.native import PROMPTS as NATIVE_PROMPTS
from speceyes.agents.loop import GO_ON, agent_request
from speceyes.errors import ConfigError
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.geometry import Box, Coordinates
from speceyes.imaging.resize import PixelLimits, render
from speceyes.imaging.view import View
from speceyes.tools import ToolContext, ToolResult
from speceyes.tools.addressing import function_schema
from speceyes.types import Completion, Query, ToolCall

IMAGE = DecodedImage.of_pixels(Image.new("RGB", (3000, 2000), "white"))
BOX = {"bbox_2d": [500, 500, 600, 600]}


def view(dialect: Any, box: Box | None = None) -> View:
    return render(IMAGE, box, dialect.limits)


def said(text: str, **fields: Any) -> Completion:
    return Completion(text, "stop", **fields)


async def zoomed(dialect: Any, arguments: dict[str, Any], *more: View, images: int = 1) -> ToolResult:
    (tool,) = dialect.toolbox.values()
    context = ToolContext([IMAGE] * images, [view(dialect)] * images + list(more), dialect.limits)
    return await tool.run(arguments, context)


@pytest.mark.parametrize(
    ("name", "coordinates", "limits", "turns", "tools", "stop"),
    [
        ("deepeyes", "resized", (28, 4 * 28**2, 16384 * 28**2), 6, 1, "</tool_call>"),
        ("deepeyes-native", "resized", (28, 4 * 28**2, 16384 * 28**2), 6, 1, None),
        ("deepeyesv2", "original", (28, 4 * 28**2, 16384 * 28**2), 10, 0, "</code>"),
        ("thyme", "original", (28, 3_136, 12_845_056), 5, 0, "</code>"),
        ("qwen3vl", "per_mille", (32, 4 * 32**2, 16384 * 32**2), 20, 1, "</tool_call>"),
        ("qwen3vl-native", "per_mille", (32, 4 * 32**2, 16384 * 32**2), 20, 1, None),
        ("minio3", "unit", (28, 40_000, 2_000_000), 12, 0, "</grounding>"),
        ("pixelreasoner", "unit", (28, 401_408, 4_014_080), 2, 1, "</tool_call>"),
        ("native", "per_mille", (28, 4 * 28**2, 16384 * 28**2), 6, 1, None),
    ],
)
def test_the_facts(
    name: str, coordinates: str, limits: tuple[int, int, int], turns: int, tools: int, stop: str | None
) -> None:
    dialect = make_dialect(name)
    assert (dialect.name, dialect.coordinates, dialect.max_turns) == (name, coordinates, turns)
    assert dialect.limits == PixelLimits(*limits)
    assert len(dialect.tools) == tools
    assert dialect.stop[:1] == ((stop,) if stop else ())
    assert len(dialect.stop) <= 4  # more than some servers take
    assert dialect.extra == ({"tool_choice": "none"} if tools and stop else {})


def test_every_family_has_words_of_its_own() -> None:
    prints = {make_dialect(name).prompts.fingerprint for name in DIALECTS}
    assert len(prints) == len(DIALECTS)


def test_options_stand_above_what_a_family_has() -> None:
    limits = PixelLimits(14, 14 * 14, 14 * 14 * 100)
    for name in DIALECTS:
        dialect = make_dialect(name, limits=limits, max_turns=3, max_tokens_per_turn=77, extra={"seed": 1})
        assert (dialect.limits, dialect.max_turns, dialect.max_tokens_per_turn) == (limits, 3, 77)
        assert dialect.extra == {"seed": 1}
        assert make_dialect(name).max_tokens_per_turn != 77
    with pytest.raises(ConfigError, match=r"Dialect 'thyme'.*coordinates"):
        make_dialect("thyme", coordinates=Coordinates.UNIT)


# Boxes


@pytest.mark.parametrize(
    ("name", "box", "region"),
    [
        ("qwen3vl", [500, 500, 600, 600], (1500, 1000, 1800, 1200)),
        ("native", [500, 500, 600, 600], (1500, 1000, 1800, 1200)),
        ("minio3", [0.5, 0.5, 0.6, 0.6], (1500, 1000, 1800, 1200)),
        ("minio3", [0, 0, 1, 1], (0, 0, 3000, 2000)),
        ("pixelreasoner", [0.5, 0.5, 0.6, 0.6], (1200, 800, 2100, 1400)),  # a tenth of the picture on each side
        ("pixelreasoner", [0.0, 0.0, 0.1, 0.1], (0, 0, 600, 400)),
        ("pixelreasoner", [0.98, 0.98, 1.02, 1.02], (2640, 1760, 3000, 2000)),
    ],
)
async def test_the_numbers_of_a_box_mean_what_the_family_means(
    name: str, box: list[float], region: tuple[float, ...]
) -> None:
    result = await zoomed(make_dialect(name), {"bbox_2d": box})
    assert result.views[0].region.as_tuple() == pytest.approx(region, abs=1)


@pytest.mark.parametrize(
    ("name", "box"),
    [("minio3", [500, 500, 600, 600]), ("qwen3vl", [1500, 0, 1800, 900]), ("pixelreasoner", [1, 1, 9, 9])],
)
async def test_numbers_of_another_kind_are_refused_and_not_guessed(name: str, box: list[float]) -> None:
    result = await zoomed(make_dialect(name), {"bbox_2d": box})
    assert result.error is not None
    assert "outside the picture" in result.error


# Which picture


@pytest.mark.parametrize(
    ("name", "field", "known"),
    [
        ("qwen3vl", {"img_idx": 1}, None),
        ("qwen3vl", {"img_idx": "1"}, None),
        ("qwen3vl", {}, "img_idx is missing: there are pictures 0 to 1."),
        ("qwen3vl", {"img_idx": 2}, "img_idx 2 names no picture: there are pictures 0 to 1."),
        ("native", {"img_idx": -1}, "img_idx -1 names no picture: there are pictures 0 to 1."),
        ("native", {"img_idx": "the crop"}, "img_idx the crop names no picture"),
        ("pixelreasoner", {"target_image": 2}, None),
        ("pixelreasoner", {"target_image": 0}, "target_image 0 names no picture: there are pictures 1 to 2."),
        ("pixelreasoner", {}, "target_image is missing: there are pictures 1 to 2."),
        ("minio3", {"source": "observation_1"}, None),
        ("minio3", {"source": "observation_0"}, "there is original_image, and observation_1."),
        ("minio3", {"source": "observation_2"}, "source observation_2 names no picture"),
        ("minio3", {"source": 1}, "source 1 names no picture"),
    ],
)
async def test_a_call_names_the_picture_as_its_family_does(name: str, field: dict[str, Any], known: str | None) -> None:
    dialect = make_dialect(name)
    whole = 1000 if dialect.coordinates is Coordinates.PER_MILLE else 1
    crop = view(dialect, Box(300, 200, 600, 400))
    result = await zoomed(dialect, {"bbox_2d": [0, 0, whole, whole], **field}, crop)
    if known is None:
        assert result.views[0].region == crop.region
    else:
        assert known in (result.error or "")


async def test_without_a_name_the_only_picture_is_meant_and_for_minio3_the_original() -> None:
    for name in ("qwen3vl", "native", "pixelreasoner", "minio3"):
        result = await zoomed(make_dialect(name), {"bbox_2d": [0, 0, 1, 1]})
        assert result.error is None, name
    dialect = make_dialect("minio3")
    result = await zoomed(dialect, {"bbox_2d": [0, 0, 1, 1]}, view(dialect, Box(300, 200, 600, 400)))
    assert result.views[0].region == Box(0, 0, 3000, 2000)


async def test_observations_of_several_images_count_behind_them() -> None:
    dialect = make_dialect("minio3")
    crop = view(dialect, Box(300, 200, 600, 400))
    result = await zoomed(dialect, {"bbox_2d": [0, 0, 1, 1], "source": "observation_1"}, crop, images=2)
    assert result.views[0].region == crop.region


def test_qwen3vl_forgives_fields_that_it_can_do_without() -> None:
    call = '<tool_call>{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [1, 2, 3, 4]}}</tool_call>'
    assert isinstance(make_dialect("qwen3vl").parse(said(call)), Call)
    assert make_dialect("qwen3vl").tools[0]["function"]["parameters"]["required"] == ["bbox_2d", "label", "img_idx"]
    told = make_dialect("qwen3vl").parse(said(call.replace("bbox_2d", "bbox")))
    assert isinstance(told, Malformed)
    assert "image_zoom_in_tool needs bbox_2d." in told.message


# Calls and answers


def test_each_family_writes_calls_its_own_way() -> None:
    grounding = make_dialect("minio3").parse(said('<grounding>{"bbox_2d": [0, 0, 1, 1]}</grounding>'))
    assert grounding == Call("zoom", {"bbox_2d": [0, 0, 1, 1]})
    alone = make_dialect("minio3").parse(said('{"bbox_2d": [0, 0, 1, 1], "source": "original_image"}'))
    assert isinstance(alone, Call)
    assert alone.repairs == ("no tags around the call",)
    for name in ("thyme", "deepeyesv2"):
        coding = make_dialect(name, toolbox=[StandInPython()])
        code = coding.parse(said("<think>Look.</think>\n<code>\n```python\nx = 1\n```\n</code>"))
        assert code == Call("python", {"code": "x = 1"})
        bare = coding.parse(said("<think>Look.</think>I crop it.\n```python\nx = 1\n```"))
        assert bare == Call("python", {"code": "x = 1"}, repairs=("no tags around the call",))
        as_json = '<tool_call>{"name": "python", "arguments": {"code": "x = 1"}}</tool_call>'
        assert coding.parse(said(as_json)) == Call("python", {"code": "x = 1"})


def test_malformed_calls_are_answered_in_the_familys_form() -> None:
    told = make_dialect("minio3").parse(said("<grounding>the sign</grounding>"))
    assert isinstance(told, Malformed)
    assert '<grounding>{"bbox_2d": [x1, y1, x2, y2], "source": "original_image"}</grounding>' in told.message
    told = make_dialect("thyme", toolbox=[StandInPython()]).parse(said("<think><code></code>"))
    assert told == Malformed("There is no code in the tags. Write Python code between <code> and </code>.")


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    ("text", "final"),
    [
        ("<think>I must write <answer>X</answer></think><answer>B</answer>", Final("B")),
        ("<answer>A</answer> wait <answer>C</answer>", Final("C")),
        (r"<answer>\boxed{\text{C}}</answer>", Final("C")),
        (r"So it is \boxed{\frac{1}{2}}.", Final(r"\frac{1}{2}")),
        ("The answer is C", Final("The answer is C", tagged=False)),
        ("<answer>C", Final("C")),
    ],
)
def test_answers_are_clean_in_every_dialect(name: str, text: str, final: Final) -> None:
    assert make_dialect(name).parse(said(text)) == final


def test_glm_puts_its_answer_between_tokens_of_its_own() -> None:
    native = make_dialect("native")
    assert native.parse(said("So it is <|begin_of_box|>B<|end_of_box|>")) == Final("B")
    assert native.parse(said("<answer><|begin_of_box|>B<|end_of_box|></answer>")) == Final("B")


# Code in thoughts, as Thyme writes it


def test_thymes_code_stands_in_its_thoughts() -> None:
    thyme = make_dialect("thyme", toolbox=[StandInPython()])
    for text in (
        "<think>I crop. <code>\n```python\nx = 1\n```\n",
        "<think>I crop. <code>\n```python\nx = 1\n```\n</code> So</think><answer>7</answer>",
        "<think>I crop.</think> <code>x = 1</code>",
    ):
        assert thyme.parse(said(text)) == Call("python", {"code": "x = 1"}), text
    assert thyme.parse(said("<think>I could write <code> here.</think><answer>7</answer>")) == Final("7")
    assert thyme.parse(said("I see it now.</think><answer>7</answer>")) == Final("7")
    cut = thyme.parse(Completion("<think>I crop. <code>x = 1", "length"))
    assert isinstance(cut, Malformed)
    assert "ran out of tokens" in cut.message


def test_code_that_a_server_took_for_reasoning_is_run_too() -> None:
    thyme = make_dialect("thyme", toolbox=[StandInPython()])
    for reasoning in ("I crop. <code>x = 1</code>", "I crop. <code>x = 1"):
        assert thyme.parse(said("", reasoning=reasoning)) == Call("python", {"code": "x = 1"})


# Messages


def test_minio3_numbers_actions_and_observations_apart() -> None:
    dialect = make_dialect("minio3")
    crop = view(dialect, Box(0, 0, 300, 200))
    (message,) = dialect.observation_messages(ToolResult("", (crop,)), Occasion(None, turn=3, images=1, seen=2))
    assert [part["type"] for part in message["content"]] == ["text", "image_url", "text"]
    assert message["content"][0]["text"] == "Your action 3 shows this, observation 2:\n"
    assert message["role"] == "user"


def test_pictures_are_numbered_as_the_family_counts() -> None:
    for name, number in (("qwen3vl", "This is picture 2."), ("pixelreasoner", "This is picture 3.")):
        dialect = make_dialect(name)
        told = dialect.observation_messages(ToolResult("", (view(dialect),)), Occasion(None, images=1, seen=2))
        assert number in words_of(told)


def test_code_families_are_told_of_their_images() -> None:
    query = Query("What digit?", (IMAGE, DecodedImage.of_pixels(Image.new("RGB", (64, 48)))))
    thyme = make_dialect("thyme", toolbox=[StandInPython()])
    act, screen = (
        thyme.opening_messages(query, [], screening=flag)[1]["content"][-1]["text"] for flag in (False, True)
    )
    shared = (
        'What digit?\n\nImage 1: path "/images/image_1.png", size 3000x2000.\n'
        'Image 2: path "/images/image_2.png", size 64x48.\n\n'
    )
    assert act == shared + thyme.prompts.act
    assert screen == shared + thyme.prompts.screen
    other = make_dialect("deepeyesv2", toolbox=[StandInPython()]).opening_messages(query, [])
    assert "image_1 is 3000 x 2000 pixels.\nimage_2 is 64 x 48 pixels." in words_of(other)


def test_results_of_code_come_in_the_familys_form() -> None:
    thyme = make_dialect("thyme", toolbox=[StandInPython()])
    picture = view(thyme)
    (told,) = thyme.observation_messages(ToolResult("done", (picture,)))
    assert [part.get("text") for part in told["content"]] == ["<sandbox_output>done\n", None, "</sandbox_output>"]
    (told,) = thyme.observation_messages(ToolResult())
    assert words_of([told]) == ("<sandbox_output>The code ran. It printed nothing and showed nothing.</sandbox_output>")
    failed = ToolResult(error="ValueError: no", views=(picture,))
    (told,) = make_dialect("deepeyesv2", toolbox=[StandInPython()]).observation_messages(failed)
    assert [part["type"] for part in told["content"]] == ["text", "image_url", "text"]
    assert told["content"][0]["text"] == "The code gave:\nValueError: no\n"
    assert told["content"][-1]["text"] == "\nMend the code, or write the answer in <answer> and </answer>."


def test_without_a_sandbox_turns_are_read_and_no_run_begins() -> None:
    for name in ("thyme", "deepeyesv2"):
        dialect = make_dialect(name)
        assert dialect.parse(said("<answer>7</answer>")) == Final("7")
        with pytest.raises(ConfigError, match=f"{name} writes Python code.*needs a sandbox"):
            dialect.opening_messages(Query("Q", ()), [])


def test_thyme_goes_on_in_the_assistants_turn_where_the_server_can() -> None:
    thyme = make_dialect("thyme", toolbox=[StandInPython()], result_form="assistant")
    assert (thyme.note, make_dialect("thyme").note != "") == ("", True)
    turn = said("<think>I crop. <code>x = 1")
    result = ToolResult("", (view(thyme),))
    messages = [
        {"role": "user", "content": "Q"},
        *thyme.assistant_messages(turn),
        *thyme.observation_messages(result, Occasion(turn)),
    ]
    request = agent_request(thyme, messages, 9)
    assert [message["role"] for message in request.messages] == ["user", "assistant"]
    parts = request.messages[1]["content"]
    assert [part["type"] for part in parts] == ["text", "text", "image_url", "text"]
    assert words_of([{"content": parts}]) == ("<think>I crop. <code>x = 1</code>\n<sandbox_output>\n</sandbox_output>")
    assert GO_ON.items() <= request.extra.items()
    closing = agent_request(thyme, [*messages, {"role": "user", "content": "Answer."}], 9)
    assert not GO_ON.keys() & closing.extra.keys()
    (told,) = thyme.observation_messages(ToolResult(error="That turn holds nothing."), Occasion(said("")))
    assert told["role"] == "user"
    with pytest.raises(ConfigError, match="result_form is 'tool'"):
        make_dialect("thyme", result_form="tool")


# Native calls


def native_turn(arguments: str, name: str = "image_zoom_in_tool", **fields: Any) -> Completion:
    return Completion("I look.", "tool_calls", tool_calls=(ToolCall("id-1", name, arguments),), **fields)


CLEAN = '{"bbox_2d": [1, 2, 3, 4], "label": "cat"}'


def test_a_native_call_and_its_result() -> None:
    native = make_dialect("native")
    turn = native_turn(CLEAN, reasoning="Hm.")
    assert native.parse(turn) == Call("image_zoom_in_tool", {"bbox_2d": [1, 2, 3, 4], "label": "cat"})
    (assistant,) = native.assistant_messages(turn)
    function = {"name": "image_zoom_in_tool", "arguments": CLEAN}
    call = {"id": "id-1", "type": "function", "function": function}
    assert assistant == {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    tool, user = native.observation_messages(ToolResult("", (view(native),)), Occasion(turn))
    assert tool == {"role": "tool", "tool_call_id": "id-1", "content": NATIVE_PROMPTS.result}
    assert (user["role"], [part["type"] for part in user["content"]]) == ("user", ["image_url", "text"])
    (failed,) = native.observation_messages(ToolResult(error="No area."), Occasion(turn))
    assert failed == {"role": "tool", "tool_call_id": "id-1", "content": f"No area.\n{NATIVE_PROMPTS.retry}"}
    (again,) = native.notice_messages("Again?", Occasion(turn))
    assert again["role"] == "tool"


def test_the_picture_may_go_into_the_tool_message() -> None:
    native = make_dialect("native", result_form="tool")
    turn = native_turn(CLEAN)
    (tool,) = native.observation_messages(ToolResult("Cut.", (view(native),)), Occasion(turn))
    assert (tool["role"], [part["type"] for part in tool["content"]]) == ("tool", ["text", "image_url", "text"])
    assert tool["content"][0]["text"] == f"Cut.\n{NATIVE_PROMPTS.result}"
    with pytest.raises(ConfigError, match="result_form is 'assistant'"):
        make_dialect("native", result_form="assistant")


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ("{'bbox_2d': [1, 2, 3, 4]}", '{"bbox_2d": [1, 2, 3, 4]}'),
        ('```json\n{"bbox_2d": [1, 2, 3, 4]}\n```', '{"bbox_2d": [1, 2, 3, 4]}'),
        ('"{\\"bbox_2d\\": [1, 2, 3, 4]}"', '{"bbox_2d": [1, 2, 3, 4]}'),
        ('{"bbox_2d": [NaN, 2, 3, 4]}', None),
        ("{broken", None),
        ("", None),
        ("[]", None),
    ],
)
def test_broken_arguments_never_go_back_as_a_call(arguments: str, sent: str | None) -> None:
    """A server answers 400 to a history with arguments that are no JSON."""
    native = make_dialect("native")
    turn = native_turn(arguments)
    (assistant,) = native.assistant_messages(turn)
    (told,) = native.observation_messages(ToolResult(error="No."), Occasion(turn))
    if sent is None:
        assert "tool_calls" not in assistant
        assert "<tool_call>" in assistant["content"]
        assert told["role"] == "user"
    else:
        assert assistant["tool_calls"][0]["function"]["arguments"] == sent
        assert told["role"] == "tool"


def test_of_two_native_calls_the_history_keeps_the_one_that_ran() -> None:
    native = make_dialect("native")
    turn = native_turn(CLEAN)
    both = Completion("", "tool_calls", tool_calls=(turn.tool_calls[0], ToolCall("id-2", "image_zoom_in_tool", CLEAN)))
    action = native.parse(both)
    assert isinstance(action, Call)
    assert "Only the first call" in action.note
    assert [call["id"] for call in native.assistant_messages(both)[0]["tool_calls"]] == ["id-1"]


def test_a_call_that_the_server_left_in_the_text_is_read_there() -> None:
    text = f'<tool_call>{{"name": "image_zoom_in_tool", "arguments": {CLEAN}}}</tool_call>'
    for name in ("native", "qwen3vl-native", "deepeyes-native"):
        dialect = make_dialect(name)
        assert isinstance(dialect.parse(said(text)), Call)
        assert dialect.assistant_messages(said(text)) == ({"role": "assistant", "content": text},)
        (told, *_) = dialect.observation_messages(ToolResult("", (view(dialect),)), Occasion(said(text)))
        assert told["role"] == "user"


# One's own


def test_further_tools_are_offered_beside_what_the_prompts_tell() -> None:
    class Search:
        name = "search"
        schema: Any = function_schema("search", "Search.", {})

        async def run(self, arguments: Any, context: Any) -> ToolResult:
            return ToolResult("found")

    coding = make_dialect("deepeyesv2", toolbox=[StandInPython(), Search()])
    assert [tool["function"]["name"] for tool in coding.tools] == ["search"]
    assert coding.extra == {"tool_choice": "none"}
    assert coding.parse(said('<tool_call>{"name": "search"}</tool_call>')) == Call("search", {})


def test_a_family_of_ones_own_is_a_few_lines() -> None:
    class Mine(Qwen3VL):
        name = "mine"
        coordinates = Coordinates.UNIT

    tool = Mine().tools[0]["function"]["parameters"]["properties"]["bbox_2d"]["description"]
    assert tool.endswith("from 0 to 1")
