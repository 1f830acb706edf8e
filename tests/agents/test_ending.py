"""Where an answer ends, however its text arrives."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from speceyes.agents.ending import Ending, end_answer
from speceyes.types import Sampling

texts = st.text(st.sampled_from("ab .,\n12猫é<"), max_size=40) | st.text(max_size=30)
stops = st.lists(st.text(st.sampled_from("ab .\n1"), min_size=1, max_size=4), max_size=3).map(tuple)
limits = st.none() | st.integers(1, 12)
cuts = st.lists(st.integers(0, 60), max_size=20)


def in_pieces(text: str, at: list[int], sampling: Sampling) -> tuple[list[str], str]:
    ending = Ending(sampling)
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in at)})
    shown = [ending.feed(text[a:b]) for a, b in pairwise(edges)]
    return [*shown, ending.close()], ending.finish


@given(texts, cuts, stops, limits)
@example("a b\n\nc", [4], ("\n",), 2)
@example("a bc", [3], ("bc",), 2)
@example("ab", [1], ("abz", "b"), None)
def test_how_the_text_is_cut_changes_nothing(
    text: str, at: list[int], stop: tuple[str, ...], limit: int | None
) -> None:
    sampling = Sampling(stop=stop, max_answer_tokens=limit)
    shown, finish = in_pieces(text, at, sampling)
    assert ("".join(shown), finish) == end_answer(text, sampling)


@given(texts, stops, limits)
def test_an_answer_is_the_begin_of_its_text_without_stop_strings(
    text: str, stop: tuple[str, ...], limit: int | None
) -> None:
    answer, finish = end_answer(text, Sampling(stop=stop, max_answer_tokens=limit))
    assert text.strip().startswith(answer)
    assert not any(string in answer for string in stop)
    assert answer == answer.strip()
    if finish == "length":
        assert limit is not None
        assert answer != text.strip()


@given(texts)
def test_without_limits_all_of_it_is_the_answer(text: str) -> None:
    assert end_answer(text, Sampling()) == (text.strip(), "stop")


@pytest.mark.parametrize(
    ("text", "limit", "answer"),
    [
        ("One two three four", 2, "One two"),
        ("One two", 2, "One two"),
        ("1234567", 2, "123456"),
        ("Yes, it is.", 3, "Yes, it"),
        ("representativeness", 1, "representativene"),
        ("看板に書いてある", 2, "看板に書いてある"),
        ("看板に書いてあるもの", 2, "看板に書いてある"),
    ],
)
def test_length_is_counted_in_pieces(text: str, limit: int, answer: str) -> None:
    assert end_answer(text, Sampling(max_answer_tokens=limit)) == (answer, "stop" if answer == text else "length")


@pytest.mark.parametrize(
    ("stop", "answer"),
    [(("b",), "a"), (("bc", "c"), "a"), (("zz",), "a bc d"), (("d", "c"), "a b"), (("", "b"), "a"), (("a",), "")],
)
def test_the_stop_string_that_is_complete_first_ends_it(stop: tuple[str, ...], answer: str) -> None:
    assert end_answer("a bc d", Sampling(stop=stop)) == (answer, "stop")


def test_what_may_be_a_stop_string_is_held_back() -> None:
    ending = Ending(Sampling(stop=("END",)))
    assert [ending.feed(piece) for piece in ("a", " E", "N", "x", " EN", "D", "more")] == [
        *("a", "", "", " ENx", "", "", ""),
    ]
    assert (ending.over, ending.close()) == (True, "")
