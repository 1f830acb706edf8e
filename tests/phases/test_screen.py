"""Phase I: reading yes and no out of one token's log-probs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.phases.screen import read_screening
from speceyes.types import Completion, Token


def said(*pairs: tuple[str, float]) -> Completion:
    texts, values = zip(*pairs, strict=True) if pairs else ((), ())
    return Completion(
        texts[0] if texts else "", "length", (Token(texts[0], values[0], values, texts),) if texts else ()
    )


def test_all_spellings_count() -> None:
    screening = read_screening(
        said(("yes", math.log(0.3)), (" Yes", math.log(0.2)), ("NO", math.log(0.1)), ("x", -3.0))
    )
    assert screening.p_yes == pytest.approx(0.5)
    assert screening.p_no == pytest.approx(0.1)
    assert screening.help_probability == pytest.approx(5 / 6)


def test_words_that_begin_alike_do_not_count() -> None:
    assert read_screening(said(("none", -0.1), ("yesterday", -2.0))).help_probability is None


def test_no_token_and_no_logprobs_are_unreadable() -> None:
    assert read_screening(said()).help_probability is None
    assert read_screening(Completion("yes", "stop", (Token("yes"),))).help_probability is None


def test_a_certain_word_whose_log_prob_is_rounded_above_0_counts() -> None:
    assert read_screening(said(("yes", 1e-7), ("no", -16.0))).help_probability == pytest.approx(1.0)


@pytest.mark.parametrize("value", [0.9, math.inf, math.nan])
def test_a_value_that_is_no_log_prob_does_not_decide_for_the_other_word(value: float) -> None:
    assert read_screening(said(("yes", value), ("no", -1.0))).help_probability is None


def test_sentinels_weigh_nothing() -> None:
    assert read_screening(said(("no", -0.1), ("yes", -9999.0), ("Yes", -math.inf))).p_yes == 0.0


@given(st.lists(st.tuples(st.sampled_from(["yes", "no", "maybe", " No"]), st.floats(allow_nan=True)), max_size=6))
def test_any_values_give_a_probability_or_nothing(pairs: list[tuple[str, float]]) -> None:
    p = read_screening(said(*pairs)).help_probability
    assert p is None or 0.0 <= p <= 1.0
