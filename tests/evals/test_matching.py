"""What counts as a right answer: stated once, and not guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.evals.datasets.questions import LETTERS
from speceyes.evals.matching import is_right, stated

COLORS = ("blue", "green", "red", "white")


@pytest.mark.parametrize(
    "answer",
    [
        "C",
        "c",
        "C.",
        "(C)",
        "(c)",
        "**C**",
        " C\n",
        "(C) red",
        "C. red",
        "c) Red.",
        "C: red",
        "red",
        "Red.",
        "`red`",
        "Based on the sign, the answer is C.",
        "Based on the sign, the answer is **C**.",
        "The answer is option C",
        "Answer: C",
        "answer: (C) red",
        "Option C",
        "The correct answer is red.",
        "The answer is C. The sign is red.",
    ],
)
def test_gold_c_is_stated(answer: str) -> None:
    assert is_right(answer, "C", COLORS)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " . ",
        "D",
        "Considering the sign, D",
        "Dog on the left (A)",
        "Answer: B",
        "The answer is B. Note that A is a distractor.",
        "Correct",
        "C or D",
        "A. red",
        "C. blue",
        "C red or blue",
        "The answer is C. No, the answer is D.",
        "The answer is not C",
        "I cannot answer.",
        "E",
        "CC",
        "redder",
        "A red sign",
    ],
)
def test_gold_c_is_not_stated(answer: str) -> None:
    assert not is_right(answer, "C", COLORS)


def test_the_letter_of_a_wrong_answer_is_not_found_in_its_words() -> None:
    assert not is_right("Answer: B", "A", COLORS)
    assert stated("Answer: B", COLORS) == "B"
    assert stated("A dog", COLORS) is None


@pytest.mark.parametrize(
    "answer", ["Yes", "Yes.", "Yes, there is no doubt.", "**Yes**", "YES\n", "yes!", "Answer: yes"]
)
def test_yes_is_stated(answer: str) -> None:
    assert is_right(answer, "yes")
    assert not is_right(answer, "no")


@pytest.mark.parametrize("answer", ["No", "No.", "no, it is not", "**No**", "The answer is no."])
def test_no_is_stated(answer: str) -> None:
    assert is_right(answer, "no")
    assert not is_right(answer, "yes")


@pytest.mark.parametrize(
    "answer", ["Indeed there is", "There is not a dog.", "None", "I notice a dog", "", "yes and no", "nothing", "maybe"]
)
def test_neither_yes_nor_no_is_stated(answer: str) -> None:
    assert not is_right(answer, "no")
    assert not is_right(answer, "yes")


@pytest.mark.parametrize("answer", ["7", "7.", " 7\n", "**7**", "'7'", "The answer is 7.", "Answer: 7"])
def test_a_word_is_stated(answer: str) -> None:
    assert is_right(answer, "7")


@pytest.mark.parametrize("answer", ["17", "7.5", "The answer is 7.5", "7 or 8", "-7", "seven or so", "left", ""])
def test_another_word_is_not(answer: str) -> None:
    assert not is_right(answer, "7")


def test_a_letter_is_no_answer_where_there_are_no_options() -> None:
    assert not is_right("A", "left")
    assert is_right("Left", "left")


def test_a_gold_choice_that_is_none_of_the_options_is_stated_by_nothing() -> None:
    assert not is_right("E", "E", COLORS)
    assert not is_right("yes", "yes", COLORS)
    assert not is_right("", "", COLORS)


@given(st.text(max_size=40), st.sampled_from(LETTERS[:4]))
def test_any_text_states_at_most_one_option(answer: str, gold: str) -> None:
    said = stated(answer, COLORS)
    assert said is None or said in LETTERS[: len(COLORS)]
    assert is_right(answer, gold, COLORS) == (said == gold)


@given(st.sampled_from(LETTERS[:4]), st.sampled_from(["{}", "({})", "{}.", "**{}**", " {}\n", "answer: {}"]))
def test_every_usual_form_of_a_letter_is_read(letter: str, form: str) -> None:
    assert stated(form.format(letter), COLORS) == letter
    assert stated(form.format(letter.lower()), COLORS) == letter
