"""Agreement of two answers in service, where only the question tells the options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gating.agreement import LETTERS, agree, options_in, same_answer, stated

words = st.text("abcdefg hij", min_size=1, max_size=10).filter(str.strip)


@given(st.lists(words, min_size=2, max_size=26), st.sampled_from(["{}. {}", "({}) {}", "{}) {}", "  {}: {}"]))
def test_listed_options_are_found_in_order(options: list[str], form: str) -> None:
    lines = [form.format(letter, option) for letter, option in zip(LETTERS, options, strict=False)]
    found = options_in("\n".join(["What colour is it?", *lines, "Answer with the letter."]))
    assert found == tuple(option.strip() for option in options)


@pytest.mark.parametrize(
    "question",
    [
        "What colour is the sign?",
        "A. red",  # one is no choice
        "B. red\nC. blue",
        "A dog\nB dog",
        "I. Introduction\nII. Method",
        "",
    ],
)
def test_what_is_no_list_of_options_is_none(question: str) -> None:
    assert options_in(question) == ()


def test_the_last_list_counts() -> None:
    earlier = "Is it red?\nA. yes\nB. no\nA\n"
    assert options_in(earlier + "And this?\n(A) left\n(B) right") == ("left", "right")


QUESTION = "What colour is the sign?\nA. red\nB. blue\nC. green"


@pytest.mark.parametrize(
    ("draft", "agent", "question", "same"),
    [
        ("B", "B. blue", QUESTION, True),
        ("blue", "The answer is (B).", QUESTION, True),
        ("B", "C", QUESTION, False),
        ("B. red", "B", QUESTION, False),  # contradicts itself
        ("7", "7.", "What digit is on it?", True),
        ("7", "1", "What digit is on it?", False),
        ("Yes, it is.", "yes", "Is it red?", True),
        ("7", "", "What digit is on it?", False),
    ],
)
def test_answers_are_compared_as_the_question_has_them(draft: str, agent: str, question: str, same: bool) -> None:
    assert same_answer(draft, agent, question) is same
    assert same_answer(agent, draft, question) is same


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=60))
def test_any_texts_can_be_compared_in_either_order(draft: str, agent: str, question: str) -> None:
    assert same_answer(draft, agent, question) == same_answer(agent, draft, question)
    assert same_answer(draft, draft, question) == (draft.strip() != "")


def test_more_options_than_letters_are_no_error() -> None:
    many = tuple(f"word{i}" for i in range(30))
    assert stated("word29", many) is None
    assert stated("word25", many) == "Z"
    assert not agree("Z", "word29", many)
