"""The DeepEyes dialect: what is sent, to the letter, and how turns are read."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from speceyes.agents.dialects import DIALECTS, Call, Dialect, Final, Malformed, make_dialect
from speceyes.agents.dialects.deepeyes import PROMPTS, DeepEyes
from speceyes.agents.dialects.tagged import raw_text
from speceyes.errors import ConfigError
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.resize import QWEN3_VL, render
from speceyes.imaging.view import View
from speceyes.tools import ToolResult, ZoomTool
from speceyes.types import Completion, Query, ToolCall

ZOOM = "image_zoom_in_tool"
BOX = [1, 2, 30, 40]
GOOD = f'<tool_call>\n{{"name": "{ZOOM}", "arguments": {{"bbox_2d": [1, 2, 30, 40]}}}}\n</tool_call>'
dialect = DeepEyes()


def said(text: str, finish: str = "stop", **fields) -> Completion:
    return Completion(text, finish, **fields)


def picture(colour: str = "white", size: tuple[int, int] = (64, 64)) -> DecodedImage:
    return DecodedImage.of_pixels(Image.new("RGB", size, colour))


def view(colour: str = "white", index: int = 0) -> View:
    return render(picture(colour), None, QWEN3_VL, image_index=index)


# What is sent.


def test_the_first_turn_is_the_trained_form() -> None:
    shown = view()
    messages = dialect.opening_messages(Query("What number?", (picture(),)), [shown])
    assert messages == (
        {
            "role": "system",
            "content": "You answer questions about images. A tool can show you a part of an image up close.",
        },
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": shown.data_url}},
                {
                    "type": "text",
                    "text": "What number?\n\nThink in <think> tags. Call the tool for what is too small to "
                    "read. Then answer in <answer> tags.",
                },
            ],
        },
    )


def test_the_tool_schema_is_the_trained_one_key_order_included() -> None:
    expected = (
        '{"type": "function", "function": {"name": "image_zoom_in_tool", '
        '"description": "Show a part of the image up close.", "parameters": {"type": "object", "properties": '
        '{"bbox_2d": {"type": "array", "items": {"type": "number"}, '
        '"description": "x1, y1, x2, y2 in pixels"}, '
        '"label": {"type": "string", "description": "what is there"}}, "required": ["bbox_2d"]}}}'
    )
    assert [json.dumps(tool) for tool in dialect.tools] == [expected]


def test_screening_shares_everything_but_the_last_line() -> None:
    query, views = (
        Query("Which?", (picture(), picture()), system="Reply in French."),
        [view(), view("red", 1)],
    )
    act, screen = (json.dumps(dialect.opening_messages(query, views, screening=flag)) for flag in (False, True))
    common = next(i for i, (a, b) in enumerate(zip(act, screen, strict=False)) if a != b)
    assert act[:common].endswith("Which?\\n\\n")
    assert act[common:].startswith(json.dumps(PROMPTS.act)[1:-1])
    assert screen[common:].startswith("Would a closer look with the tool help here? Reply yes or no.")


def test_the_users_system_prompt_follows_the_dialects() -> None:
    system = dialect.opening_messages(Query("Q", (), system="Reply in French."), [])[0]
    assert system["content"] == PROMPTS.system + "\n\nReply in French."


def test_an_observation_is_the_trained_form() -> None:
    shown = view("red")
    assert dialect.observation_messages(ToolResult("", (shown,))) == (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<tool_response>\n"},
                {"type": "image_url", "image_url": {"url": shown.data_url}},
                {
                    "type": "text",
                    "text": "\nHere is the closer look. Think, then call the tool again or answer in "
                    "<answer> tags.\n</tool_response>",
                },
            ],
        },
    )


def test_words_and_errors_of_a_tool_reach_the_model() -> None:
    (noted,) = dialect.observation_messages(ToolResult("It was cut.", (view(),)))
    assert noted["content"][-1]["text"] == f"\nIt was cut.\n{PROMPTS.reminder}\n</tool_response>"
    (failed,) = dialect.observation_messages(ToolResult(error="No such box."))
    assert failed["role"] == "user"
    assert failed["content"] == [
        {"type": "text", "text": f"<tool_response>\nNo such box.\n{PROMPTS.retry}\n</tool_response>"}
    ]


def test_prompts_have_a_fingerprint_that_every_text_changes() -> None:
    prints = {replace(PROMPTS, **{field: "x"}).fingerprint for field in PROMPTS.__dataclass_fields__}
    assert len(prints | {PROMPTS.fingerprint}) == len(PROMPTS.__dataclass_fields__) + 1
    assert len(bytes.fromhex(PROMPTS.fingerprint)) == hashlib.sha256().digest_size
    assert replace(PROMPTS).fingerprint == PROMPTS.fingerprint


# Calls.


def call_text(body: str) -> str:
    return f"<think>Look.</think>\n<tool_call>{body}</tool_call>"


READABLE = {
    "strict": f'{{"name": "{ZOOM}", "arguments": {{"bbox_2d": [1, 2, 30, 40], "label": "cat"}}}}',
    "python quotes": f"{{'name':'{ZOOM}','arguments':{{'bbox_2d':[1,2,30,40],'label':\"cat's ear\"}}}}",
    "too many braces": f'{{"name": "{ZOOM}", "arguments": {{"bbox_2d": [1, 2, 30, 40]}}}}}}}}',
    "too few braces": f'{{"name": "{ZOOM}", "arguments": {{"bbox_2d": [1, 2, 30, 40]',
    "fenced": f'\n```json\n{{"name": "{ZOOM}", "arguments": {{"bbox_2d": [1, 2, 30, 40]}}}}\n```\n',
    "encoded twice": json.dumps({"name": ZOOM, "arguments": json.dumps({"bbox_2d": BOX})}),
    "encoded thrice": json.dumps({"name": ZOOM, "arguments": json.dumps(json.dumps({"bbox_2d": BOX}))}),
    "tag in the label": json.dumps({"name": ZOOM, "arguments": {"bbox_2d": BOX, "label": "</tool_call>"}}),
    "trailing comma": f'{{"name": "{ZOOM}", "arguments": {{"bbox_2d": [1, 2, 30, 40,],}},}}',
    "in a list": f'[{{"name": "{ZOOM}", "arguments": {{"bbox_2d": [1, 2, 30, 40]}}}}]',
    "words before": f'Sure: {{"name": "{ZOOM}", "arguments": {{"bbox_2d": [1, 2, 30, 40]}}}}',
}  # fmt: skip


@pytest.mark.parametrize("body", READABLE.values(), ids=READABLE.keys())
@pytest.mark.parametrize("ending", ["</tool_call>", "", "</tool_call><|im_end|>\n"])
def test_a_readable_call_is_a_call(body: str, ending: str) -> None:
    action = dialect.parse(said(f"<think>Look.</think>\n<tool_call>{body}{ending}"))
    assert isinstance(action, Call)
    assert (action.name, action.arguments["bbox_2d"]) == (ZOOM, BOX)
    assert action.note == ""


def test_repairs_are_counted_and_clean_calls_have_none() -> None:
    clean = dialect.parse(said(call_text(READABLE["strict"])))
    assert isinstance(clean, Call)
    assert clean.repairs == ()
    for name in ("python quotes", "encoded twice", "trailing comma", "too few braces", "too many braces"):
        mended = dialect.parse(said(call_text(READABLE[name])))
        assert isinstance(mended, Call)
        assert mended.repairs, name


MALFORMED = {
    "unknown tool": ('{"name": "zoom", "arguments": {"bbox_2d": [1, 2, 30, 40]}}', "no tool 'zoom'"),
    "unlisted alias": (f'{{"name": "{ZOOM}", "arguments": {{"bbox": [1, 2, 30, 40]}}}}', "needs bbox_2d"),
    "no arguments": (f'{{"name": "{ZOOM}"}}', "needs bbox_2d"),
    "null box": (f'{{"name": "{ZOOM}", "arguments": {{"bbox_2d": null}}}}', "needs bbox_2d"),
    "empty text": (f'{{"name": "{ZOOM}", "arguments": ""}}', "needs bbox_2d"),
    "a list": (f'{{"name": "{ZOOM}", "arguments": []}}', "must be an object"),
    "a number": (f'{{"name": "{ZOOM}", "arguments": 7}}', "must be an object"),
    "no name": ('{"bbox_2d": [1, 2, 30, 40]}', "no name"),
    "name of another type": ('{"name": [1], "arguments": {}}', "no name"),
    "no object": ("look at the cat", "no JSON object"),
    "nothing": ("", "no JSON object"),
    "an expression": (f"{{'name': '{ZOOM}', 'arguments': dict(bbox_2d=[1,2,3,4])}}", "not readable"),
    "cut in a string": (f'{{"name": "{ZOOM}", "arguments": {{"label": "a ca', "breaks off"),
    "cut in the box": (f'{{"name": "{ZOOM}", "arguments": {{"bbox_2d": [1, 2, 30, 4', "breaks off"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "message"), MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("ending", ["</tool_call>", ""])
def test_an_unusable_call_becomes_one_line_for_the_model(body: str, message: str, ending: str) -> None:
    action = dialect.parse(said(f"<tool_call>{body}{ending}"))
    assert isinstance(action, Malformed)
    assert message in action.message
    assert "\n" not in action.message
    assert "image_zoom_in_tool and arguments bbox_2d, label (optional)" in action.message


def test_a_listed_alias_is_accepted() -> None:
    lenient = DeepEyes(aliases={"bbox": "bbox_2d"})
    action = lenient.parse(said(call_text(MALFORMED["unlisted alias"][0])))
    assert isinstance(action, Call)
    assert action.arguments == {"bbox_2d": BOX}


def test_of_two_calls_the_first_runs_and_the_model_is_told() -> None:
    other = GOOD.replace("[1, 2, 30, 40]", "[5, 6, 70, 80]")
    for text in (f"{GOOD}\n{other}", GOOD.replace("\n</tool_call>", "") + "\n" + other.split("\n")[1]):
        action = dialect.parse(said(text))
        assert isinstance(action, Call)
        assert action.arguments["bbox_2d"] == BOX
        assert "Only the first call" in action.note


def test_what_comes_first_counts_a_call_or_an_answer() -> None:
    made_up = f"{GOOD}\n<tool_response>red</tool_response><answer>red</answer>"
    assert isinstance(dialect.parse(said(made_up)), Call)
    assert dialect.assistant_messages(said(made_up))[0]["content"] == GOOD
    assert dialect.parse(said(f"<answer>blue</answer>{GOOD}<answer>red</answer>")) == Final("blue")
    assert isinstance(dialect.parse(said(f"<answer></answer>{GOOD}")), Call)


def test_a_call_in_a_thought_runs_only_where_the_turn_holds_nothing_else() -> None:
    thought = f"<think>I could {GOOD}</think>"
    alone = dialect.parse(said(thought))
    assert isinstance(alone, Call)
    assert alone.arguments == {"bbox_2d": BOX}
    assert isinstance(dialect.parse(said(thought.removesuffix("</tool_call></think>"))), Call)
    assert dialect.parse(said(f"{thought}<answer>red</answer>")) == Final("red")
    assert dialect.parse(said(f"{thought}It is red.")) == Final("It is red.", tagged=False)


@pytest.mark.parametrize("text", [READABLE["strict"], f"<think>x</think>\n```json\n{READABLE['strict']}\n```"])
def test_a_call_without_tags_is_not_shown_to_the_user(text: str) -> None:
    action = dialect.parse(said(text))
    assert isinstance(action, Call)
    assert "no tags around the call" in action.repairs


def test_json_that_is_no_call_is_an_answer() -> None:
    assert dialect.parse(said('{"colour": "red"}')) == Final('{"colour": "red"}', tagged=False)


# Answers.


@pytest.mark.parametrize(
    ("text", "final"),
    [
        ("<think>I must write <answer>X</answer></think><answer>B</answer>", Final("B")),
        ("<answer>A</answer> wait <answer>C</answer>", Final("C")),
        ("<answer>A</answer> wait <answer></answer>", Final("A")),
        ("<answer>A</answer> wait <answer>C", Final("A")),
        ("<answer>C", Final("C")),
        ("<think>Red.</think>\n<answer>\nred\n", Final("red")),
        (r"<answer>\boxed{\text{C}}</answer>", Final("C")),
        (r"\boxed{\text{C}}", Final("C")),
        (r"So it is \boxed{\frac{1}{2}}.", Final(r"\frac{1}{2}")),
        ("The answer is C", Final("The answer is C", tagged=False)),
        ("<think>Hm.</think>The answer is C", Final("The answer is C", tagged=False)),
        ("Hm.</think>The answer is C</answer>", Final("The answer is C", tagged=False)),
        ("<think>It is <answer>C", Final("C", tagged=False)),
        ("<think>It is <answer>C</answer></think>", Final("C", tagged=False)),
    ],
)
def test_answers(text: str, final: Final) -> None:
    assert dialect.parse(said(text)) == final


@pytest.mark.parametrize("text", ["", "  \n", "<answer></answer>", "<think>Hm.</think>", "<|im_end|>"])
def test_a_turn_without_anything_is_told_so(text: str) -> None:
    action = dialect.parse(said(text))
    assert isinstance(action, Malformed)
    assert "neither a call nor an answer" in action.message


@pytest.mark.parametrize(
    "text",
    [
        "<think>I must write <answer>X</answer> and",
        "<answer>a long sto",
        "The picture shows a",
        f'<tool_call>{{"name": "{ZOOM}", "arguments": {{"bbox_2d": [1, 2',
    ],
)
def test_a_turn_that_ran_out_of_tokens_is_no_answer(text: str) -> None:
    action = dialect.parse(said(text, "length"))
    assert isinstance(action, Malformed)
    assert "ran out of tokens" in action.message


def test_a_complete_answer_or_call_counts_even_so() -> None:
    assert dialect.parse(said("<answer>A</answer> and", "length")) == Final("A")
    assert isinstance(dialect.parse(said(GOOD + "\nand", "length")), Call)


@pytest.mark.parametrize(
    ("text", "finish", "final"),
    [
        ("<answer>C</answer>", "stop", Final("C")),
        ("<answer>C", "stop", Final("C")),
        ("<answer>a long sto", "length", Final("a long sto", tagged=False, whole=False)),
        (f"It is red. {GOOD}", "stop", Final("It is red.", tagged=False)),
        (GOOD, "stop", Final("", tagged=False)),
        (f"{GOOD}<answer>C</answer>", "stop", Final("C")),
        (READABLE["strict"], "stop", Final("", tagged=False)),
        ("<think>never ends", "length", Final("", tagged=False, whole=False)),
        ("<think>so <answer>C</answer>", "stop", Final("C", tagged=False)),
        (r"\boxed{C}", "stop", Final("C")),
    ],
)
def test_a_closing_turn_gives_the_best_there_is(text: str, finish: str, final: Final) -> None:
    assert dialect.closing_answer(said(text, finish)) == final


# History.


@pytest.mark.parametrize(
    ("text", "history"),
    [
        (GOOD, GOOD),
        (GOOD.removesuffix("</tool_call>"), GOOD),
        (f"<think>a</think>\n{GOOD}", f"<think>a</think>\n{GOOD}"),
        (f"{GOOD}\n{GOOD} and so on", f"{GOOD}\n{GOOD}"),
        (f"{GOOD}<|im_end|>", GOOD),
        ("<tool_call>not JSON", "<tool_call>not JSON</tool_call>"),
        (f"<think>a {GOOD.removesuffix('</tool_call>')}", f"<think>a {GOOD}"),
        ("<answer>a long sto", "<answer>a long sto</answer>"),
    ],
)
def test_history_is_the_models_text_with_its_closing_tag(text: str, history: str) -> None:
    assert dialect.assistant_messages(said(text)) == ({"role": "assistant", "content": history},)


def test_an_empty_turn_leaves_no_message() -> None:
    assert dialect.assistant_messages(said(" ")) == ()


def test_native_calls_and_reasoning_go_back_to_the_dialects_text() -> None:
    native = said("", "tool_calls", reasoning="Look.", tool_calls=(ToolCall("1", ZOOM, '{"bbox_2d": [1, 2, 30, 40]}'),))
    assert raw_text(native) == f"<think>Look.</think>\n{GOOD}"
    assert dialect.assistant_messages(native)[0]["content"] == f"<think>Look.</think>\n{GOOD}"
    action = dialect.parse(native)
    assert isinstance(action, Call)
    assert action.arguments == {"bbox_2d": BOX}


def test_native_arguments_may_be_broken_too() -> None:
    for arguments, kind in (("{'bbox_2d': [1, 2, 30, 40]}", Call), ("", Malformed), ("{", Malformed)):
        assert isinstance(dialect.parse(said("", tool_calls=(ToolCall("1", ZOOM, arguments),))), kind)
    both = said(GOOD, tool_calls=(ToolCall("1", ZOOM, "{}"),))
    assert raw_text(both) == GOOD


def test_half_a_surrogate_does_not_reach_the_wire() -> None:
    message = dialect.assistant_messages(said("\ud800 red"))[0]
    assert message["content"].encode() == b"? red"


# The whole.


fragments = st.sampled_from(
    ["<think>", "</think>", "<answer>", "</answer>", "<tool_call>", "</tool_call>", GOOD, *READABLE.values()]
    + [body for body, _ in MALFORMED.values()]
    + ["red", "\n", r"\boxed{", "}", '"', "<|im_end|>", "\0", "{", "["]
)


@settings(max_examples=200)
@example("<answer>\\boxed{" + "a long box, " * 8 + "never closed", "stop")
@given(st.lists(fragments, max_size=8).map("".join), st.sampled_from(["stop", "length", "tool_calls"]))
def test_any_turn_is_read_and_no_tag_reaches_the_user(text: str, finish: str) -> None:
    completion = said(text, finish)
    action, closing = dialect.parse(completion), dialect.closing_answer(completion)
    for final in (action, closing):
        if isinstance(final, Final):
            assert not any(tag in final.text for tag in ("<think>", "</think>", "<answer>", "<tool_call>"))
    if isinstance(action, Call):
        assert "bbox_2d" in action.arguments
        assert isinstance(action.identity, str)
    if isinstance(action, Final):
        assert action.text
    history = dialect.assistant_messages(completion)
    assert len(history) <= 1


def test_the_registry_knows_its_dialects_and_says_so() -> None:
    made: Dialect = make_dialect("deepeyes", limits=QWEN3_VL)
    assert made.limits is QWEN3_VL
    assert made.name in DIALECTS
    with pytest.raises(ConfigError, match=r"no dialect 'deepeye'.*deepeyes"):
        make_dialect("deepeye")
    with pytest.raises(ConfigError, match="colour"):
        make_dialect("deepeyes", colour="red")


def test_a_toolbox_that_no_call_could_satisfy_is_refused() -> None:
    class Odd(ZoomTool):
        @property
        def schema(self):
            parameters = {"type": "object", "properties": {"bbox": {}}, "required": ["bbox_2d"]}
            return {"type": "function", "function": {"name": "odd", "parameters": parameters}}

    with pytest.raises(ConfigError, match="bbox_2d"):
        DeepEyes(toolbox=[Odd()])
    with pytest.raises(ConfigError, match="rect"):
        DeepEyes(aliases={"rect": "rectangle"})
