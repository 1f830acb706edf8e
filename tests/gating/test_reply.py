"""Which part of a whole reply is its answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gating.reply import MAX_BOXES, AnswerPart, Form, answer_part, boxed, spoken


@pytest.mark.parametrize(
    ("reply", "text", "form"),
    [
        ("<think>I must write <answer>X</answer></think><answer>B</answer>", "B", "tag"),
        ("<answer></answer>", "", "tag"),
        ("<answer>A</answer> wait <answer>C</answer>", "C", "tag"),
        ("<answer>A</answer><answer> </answer>", "A", "tag"),
        (r"\boxed{\text{C}}", "C", "box"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}", "box"),
        ("The answer is C", "The answer is C", "plain"),
        ("<answer>C", "C", "open_tag"),
        ("<answer>A</answer> or <answer>C", "A", "tag"),  # the last complete one
        ("<answer>A <answer>B</answer>", "B", "tag"),
        (r"<answer>It is \boxed{B}</answer>", "B", "tag"),
        ("<ANSWER>C</ANSWER>", "C", "tag"),
        ("C</answer>", "C", "plain"),
        ("it is near</think>\nD", "D", "plain"),
        ("<think>never closed: C", "", "plain"),
        ("<think>a</think>B<think>c</think>", "B", "plain"),
        ("", "", "plain"),
    ],
)
def test_the_answer_in_a_reply(reply: str, text: str, form: str) -> None:
    assert answer_part(reply) == AnswerPart(text, Form(form))


@given(st.text("ab \n", max_size=30))
def test_a_reply_without_marks_is_an_answer_as_a_whole(text: str) -> None:
    assert answer_part(text) == AnswerPart(text.strip(), Form.PLAIN)


shards = st.lists(
    st.sampled_from(["<answer>", "</answer>", "<think>", "</think>", r"\boxed{", "}", "A", "b ", "\n", "<", "{"]),
    max_size=20,
).map("".join)


@given(shards)
def test_no_tag_is_left_in_an_answer(reply: str) -> None:
    text = answer_part(reply).text.lower()
    assert not any(tag in text for tag in ("<answer>", "</answer>", "<think>", "</think>"))
    assert text in spoken(reply).lower().replace("<answer>", " ").replace("</answer>", " ") or text == ""


@given(shards, st.text("ab", min_size=1, max_size=5))
def test_thoughts_never_answer(thought: str, answer: str) -> None:
    closed = thought.replace("</think>", "")
    assert answer_part(f"<think>{closed}</think><answer>{answer}</answer>") == AnswerPart(answer, Form.TAG)


def test_a_text_full_of_boxes_ends_the_search() -> None:
    assert boxed(r"\boxed{" * 5_000) is None
    assert boxed(r"\boxed{A}" + r"\boxed{" * MAX_BOXES) is None
