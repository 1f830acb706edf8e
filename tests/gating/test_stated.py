"""The one rule: which choice an answer states, and what told it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gating.stated import LETTERS, MOST, How, read_statement

COLOURS = ("blue", "green", "red", "white")


@pytest.mark.parametrize(
    ("answer", "choice", "how"),
    [
        ("Based on the sign, the answer is C.", "C", "cue"),
        ("Considering the sign, D", "D", "letter"),
        ("Dog on the left (A)", "A", "letter"),
        ("Answer: B", "B", "cue"),
        ("The answer is B. Note that A is a distractor.", "B", "cue"),
        ("c", "C", "letter"),
        ("(C) red", "C", "letter"),
        ("red", "C", "option_text"),
        ("The answer is red", "C", "cue"),
        ("The answer is C because the sign is red.", "C", "cue"),
        ("The answer is most likely C", "C", "cue"),
        ("The answer would be C.", "C", "cue"),
        ("Option C is correct", "C", "cue"),
        ("C is the correct answer.", "C", "cue"),
        ("**Answer**: $C$", "C", "cue"),
        ("### Answer\nC", "C", "cue"),
        ("**B**: green", "B", "letter"),
        ("C - red", "C", "letter"),
        ("{C}.", "C", "letter"),
        ("'a'.", "A", "letter"),
        ("[b]", "B", "letter"),
        ("I think it's B", "B", "letter"),
        ("So (d).", "D", "letter"),
        ("<think>Is it A?</think>It must be B.", "B", "letter"),
        # two candidates
        ("C or D", None, "unparsed"),
        ("A or B", None, "unparsed"),
        ("A and C.", None, "unparsed"),
        ("C/D", None, "unparsed"),
        ("(A) and (B)", None, "unparsed"),
        ("It's C, not D", None, "unparsed"),
        ("The answer is C. No, the answer is D.", None, "unparsed"),
        # a letter and another one's text
        ("C. blue", None, "unparsed"),
        ("The sign is blue (C)", None, "unparsed"),
        # a no
        ("It is not C.", None, "unparsed"),
        ("The answer isn't C", None, "unparsed"),
        ("Anything except (C)", None, "unparsed"),
        # no letters of options
        ("A dog", None, "unparsed"),
        ("A red sign", None, "unparsed"),
        ("Correct", None, "unparsed"),
        ("U.S.A.", None, "unparsed"),
        ("D-day", None, "unparsed"),
        ("That's C's car", None, "unparsed"),
        ("E", None, "unparsed"),
        ("The sign is red", None, "unparsed"),
        ("I don't know", None, "unparsed"),
        ("", None, "unparsed"),
        ("<think>C", None, "unparsed"),
    ],
)
def test_options(answer: str, choice: str | None, how: str) -> None:
    found = read_statement(answer, COLOURS)
    assert (found.choice, found.how) == (choice, how)


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        ("Yes", "yes"),
        ("Yes.", "yes"),
        ("Yes, there is no doubt.", "yes"),
        ("**Yes**", "yes"),
        ("YES\n", "yes"),
        ("Yes there is a dog", "yes"),
        ("Answer: Yes there is", "yes"),
        ("No.", "no"),
        ("No there is not", "no"),
        ("no! it is not", "no"),
    ],
)
def test_yes_and_no(answer: str, choice: str) -> None:
    assert read_statement(answer).choice == choice


@pytest.mark.parametrize(
    "answer",
    [
        "Indeed there is",
        "There is not a dog.",
        "None",
        "I notice a dog",
        "yes and no",
        "Yes or no",
        "yes, no",
        "No. Yes.",
        "No doubt there is",
        "No idea",
        "Yes it is not there",
        "nothing",
        "yesterday",
        "I know",
    ],
)
def test_neither_yes_nor_no(answer: str) -> None:
    assert read_statement(answer).choice not in ("yes", "no")


def test_yes_and_no_as_options() -> None:
    assert read_statement("Yes, there is one.", ("no", "yes")).choice == "B"
    assert read_statement("No dog", ("no", "yes")).choice is None


def test_a_letter_that_is_another_options_text_is_no_guess() -> None:
    letters = ("B", "A", "D", "C")
    assert read_statement("B", letters).choice is None
    assert read_statement("(B) A", letters).choice == "B"


def test_letters_are_those_of_the_row() -> None:
    two = ("left", "right")
    assert read_statement("C", two).choice is None
    assert read_statement("The answer is D", two).choice is None
    assert read_statement("Cable, so B.", two).choice == "B"


@given(
    st.sampled_from("ABCD"), st.sampled_from(["It is {}", "Surely {}.", "so, ({})", "The answer is {}, I think", "{}"])
)
def test_one_letter_at_a_clauses_end_is_read(letter: str, form: str) -> None:
    assert read_statement(form.format(letter), COLOURS).choice == letter


@given(
    st.sampled_from("ABCD"),
    st.sampled_from("ABCD"),
    st.sampled_from(["{} or {}", "{}, {}", "({}) ({})", "It is {}. No, {}."]),
)
def test_two_letters_are_no_guess(first: str, second: str, form: str) -> None:
    found = read_statement(form.format(first, second), COLOURS).choice
    assert (
        found == (first if first == second and "No" not in form and "or" not in form else None)
        or found == first == second
    )


@given(st.text(max_size=60), st.lists(st.text(max_size=8), max_size=28))
def test_any_reply_states_a_letter_of_its_row_or_nothing(reply: str, options: list[str]) -> None:
    found = read_statement(reply, options)
    assert (found.choice is None) == (found.how is How.NOTHING)
    if options and found.choice is not None:
        assert found.choice in LETTERS[: len(options)]


@given(st.text("ABCDabcd ().,:*not isrewhu", max_size=40))
def test_case_of_the_whole_and_blanks_around_it_do_not_decide(reply: str) -> None:
    assert read_statement(f"  {reply}\n", COLOURS).choice == read_statement(reply, COLOURS).choice


def test_of_a_very_long_answer_begin_and_end_are_read() -> None:
    long = "The picture shows a street with many signs. " * (MOST // 20)
    assert read_statement(f"{long}The answer is C.", COLOURS).choice == "C"
    assert read_statement(f"The answer is C. {long}", COLOURS).choice == "C"
    assert read_statement(long).choice == long.strip().rstrip(".").casefold()
