"""Tokens as bytes and back."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from request_records import TOKENS

from speceyes.errors import InputError
from speceyes.gating import confidence
from speceyes.store.tokens import pack, unpack
from speceyes.types import Token

LOGPROBS = st.one_of(st.floats(-50, 0, width=32), st.floats(-50, 0), st.sampled_from([-9999.0, -math.inf, math.nan]))


@st.composite
def tokens(draw: st.DrawFn) -> Token:
    top = draw(st.lists(LOGPROBS, max_size=70))
    texts = draw(st.lists(st.text(max_size=3), max_size=len(top)))
    return Token(draw(st.text(max_size=4)), draw(st.none() | st.floats(-50, 0)), tuple(top), tuple(texts))


def same(first: Token, second: Token) -> bool:
    return (
        (first.text, first.top_tokens, first.logprob) == (second.text, second.top_tokens, second.logprob)
        and len(first.top_logprobs) == len(second.top_logprobs)
        and np.array_equal(first.top_logprobs, second.top_logprobs, equal_nan=True)
    )


@given(st.lists(tokens(), max_size=6))
def test_nothing_is_lost(some: list[Token]) -> None:
    back = unpack(pack(some, texts=True))
    assert len(back) == len(some)
    assert all(map(same, back, some))


@given(st.lists(tokens(), min_size=1, max_size=6))
def test_without_texts_only_texts_are_lost(some: list[Token]) -> None:
    back = unpack(pack(some, texts=False))
    assert all(same(mine, Token("", its.logprob, its.top_logprobs)) for mine, its in zip(back, some, strict=True))


def test_the_score_of_a_record_is_the_score_of_the_gate() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        rows = -np.sort(np.abs(rng.standard_normal((4, 64)) * 3 + 6) + 1e-3, axis=1)
        answer = tuple(Token("x", float(row[0]), tuple(map(float, row))) for row in rows)
        back = tuple(Token("x", token.logprob, token.top_logprobs) for token in unpack(pack(answer, texts=False)))
        assert confidence(back, k=64) == confidence(answer, k=64)
        assert confidence(back, k=64).score is not None


def test_a_usual_answer_takes_few_bytes() -> None:
    rng = np.random.default_rng(5)
    row = tuple(map(float, (-np.sort(rng.exponential(4, 64))).astype(np.float32)))
    blob = pack([Token("A", row[0], row, tuple("x" * 64))] * 2, texts=False)
    assert blob is not None
    assert len(blob) < 64 * 4 * 2 + 100


def test_no_tokens() -> None:
    assert pack((), texts=True) is None
    assert unpack(None) == ()


@pytest.mark.parametrize("spoil", [lambda b: b"\x09" + b[1:], lambda b: b[:-7], lambda b: b[:1] + b"x" * 40])
def test_damaged_bytes_are_an_error(spoil: object) -> None:
    blob = pack(TOKENS, texts=True)
    with pytest.raises(InputError, match=r"damaged|version"):
        unpack(spoil(blob))  # type: ignore[operator]
