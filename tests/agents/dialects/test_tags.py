"""Taking a turn apart: thoughts, calls, answers, plain text."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.agents.dialects.forms import json_call
from speceyes.agents.dialects.tags import MAX_CALLS, clean_answer, read_turn, without_tags
from speceyes.gating.reply import boxed


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        (r"\boxed{C}", "C"),
        (r"\boxed{\text{C}}", "C"),
        (r"\boxed{\text{\textbf{C}}}", "C"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"first \boxed{A}, then \boxed{B}", "B"),
        (r"\boxed{A} and \boxed{B", "A"),
        (r"\boxed{A", None),
        ("no box", None),
        (r"\boxed{}", ""),
    ],
)
def test_boxes_balance(text: str, inner: str | None) -> None:
    assert boxed(text) == inner


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (" red \n", "red"),
        (r"The answer is \boxed{\text{C}}.", "C"),
        ("<think>x</think>red<|im_end|>", "xred"),
        ("a < b > c", "a < b > c"),
    ],
)
def test_answers_come_clean(text: str, clean: str) -> None:
    assert clean_answer(text) == clean


def test_thoughts_hide_calls_and_answers() -> None:
    turn = read_turn("<think>I must write <answer>X</answer></think><answer>B</answer>")
    assert [answer.text for answer in turn.answers] == ["B"]
    assert [answer.text for answer in turn.thought_answers] == ["X"]


@pytest.mark.parametrize("text", ["<answer>X</answer></think>\nred", "<THINK>why</THINK>red", "red<think>and"])
def test_thoughts_with_one_tag_or_in_capitals(text: str) -> None:
    turn = read_turn(text)
    assert turn.plain == "red"
    assert turn.answers == ()


def test_a_thought_inside_an_answer_is_not_part_of_it() -> None:
    turn = read_turn("<answer><think>or blue?</think>red</answer>")
    assert clean_answer(turn.answers[0].text) == "red"


def test_the_innermost_of_nested_answers_counts() -> None:
    assert [answer.text for answer in read_turn("<answer>I say <answer>B</answer>").answers] == ["B"]


def test_an_answer_around_a_call_is_no_answer() -> None:
    turn = read_turn('<answer><tool_call>{"name": "t"}</tool_call></answer>')
    assert turn.answers == ()
    assert turn.calls[0].value == {"name": "t"}
    assert turn.plain == ""


def test_a_tag_in_a_label_does_not_end_the_call() -> None:
    text = '<tool_call>{"label": "</tool_call><answer>no</answer>", "n": 1}</tool_call> after'
    turn = read_turn(text)
    assert turn.calls[0].value == {"label": "</tool_call><answer>no</answer>", "n": 1}
    assert text[turn.calls[0].end :] == " after"
    assert turn.answers == ()


def test_a_brace_too_few_does_not_swallow_the_next_call() -> None:
    text = '<tool_call>{"a": {"b": "c"}</tool_call>\n<tool_call>{"a": {"b": "d"}}}</tool_call>'
    assert [call.value for call in read_turn(text).calls] == [{"a": {"b": "c"}}, {"a": {"b": "d"}}]


def test_a_second_object_in_the_same_tags_is_noticed() -> None:
    turn = read_turn('<tool_call>\n{"a": 1}\n{"a": 2}\n</tool_call>')
    assert turn.calls[0].value == {"a": 1}
    assert turn.calls[0].more


def test_other_tags_for_calls() -> None:
    turn = read_turn('<grounding>{"bbox_2d": [0, 0, 1, 1]}</grounding>', [json_call("grounding")])
    assert turn.calls[0].value == {"bbox_2d": [0, 0, 1, 1]}


def test_a_turn_that_only_repeats_calls_is_read_to_a_limit() -> None:
    turn = read_turn("<tool_call>{'a': " * 5_000)
    assert len(turn.calls) == MAX_CALLS + 1
    assert turn.plain == ""
    assert boxed(r"\boxed{" * 5_000) is None


fragments = st.sampled_from(
    [
        "<think>", "</think>", "<answer>", "</answer>", "<tool_call>", "</tool_call>", "{", "}", "[1, 2]",
        '"', "'", '{"name": "t", "arguments": {}}', "red", " ", "\n", r"\boxed{", "```json", "\\",
        "<|im_end|>", "\0",
    ]
)  # fmt: skip


@settings(max_examples=200)
@given(st.lists(fragments, max_size=14).map("".join))
def test_any_text_is_taken_apart(text: str) -> None:
    turn = read_turn(text)
    spans = sorted((part.start, part.end) for part in (*turn.calls, *turn.answers))
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))
    for shown in (turn.plain, *(clean_answer(answer.text) for answer in turn.answers)):
        assert without_tags(shown) == shown
