"""One answer's confidence: every kind of bad input has its reason, and nothing raises."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.errors import ConfigError
from speceyes.gating import SCORES, confidence
from speceyes.gating.separability import separability, squash
from speceyes.types import Reason, Token

NAN = math.nan
INF = math.inf
TAIL = (-0.05, *(-3.2 - 0.15 * i for i in range(63)))


def token(*logprobs, text="B", sampled=None):
    return Token(text, sampled, tuple(logprobs))


def reason_of(*tokens, **settings):
    result = confidence(tokens, **{"k": 5, **settings})
    assert result.score is None
    assert result.squashed is None
    return result.reason


def test_a_clear_answer():
    result = confidence([token(*TAIL)], k=64)
    assert result.reason is None
    assert result.score == separability([TAIL])[0]
    assert result.squashed == pytest.approx(0.848, abs=5e-4)
    assert result.token_scores == (result.score,)


def test_the_worst_token_counts():
    sure, vague = token(-0.01, -5, -6, -7, -8), token(-1.0, -1.2, -1.9, -3, -8)
    result = confidence([sure, vague, sure], k=5)
    assert result.score == result.token_scores[1] == min(result.token_scores)
    mean = confidence([sure, vague, sure], k=5, aggregate="mean")
    assert mean.score == pytest.approx(sum(result.token_scores) / 3)
    assert mean.squashed == squash(mean.score)


def test_only_the_k_largest_count():
    # A server that was asked for K + 1 and puts the sampled token first, wherever it ranks.
    unsorted = token(-7.0, -0.01, -5, -6, -8, -30)
    assert confidence([unsorted], k=5) == confidence([token(-0.01, -5, -6, -7, -8)], k=5)


def test_no_token():
    assert reason_of() is Reason.EMPTY_ANSWER


def test_no_visible_text():
    assert reason_of(token(*TAIL, text=""), token(*TAIL, text=" \n")) is Reason.EMPTY_ANSWER


def test_one_token_without_logprobs_is_enough():
    assert reason_of(token(*TAIL), token()) is Reason.LOGPROBS_MISSING


@pytest.mark.parametrize("name", sorted(SCORES))
def test_fewer_logprobs_than_k(name):
    how = SCORES[name].aggregates[0]
    answer = [token(*TAIL[:20], sampled=-0.05)]
    assert reason_of(*answer, score=name, aggregate=how, k=64) is Reason.LOGPROBS_TOO_FEW
    assert confidence(answer, score=name, aggregate=how, k=20).reason is None


@pytest.mark.parametrize("k", [-1, 0, 1, 2])
def test_a_k_that_has_no_spread(k):
    assert reason_of(token(*TAIL), k=k) is Reason.LOGPROBS_TOO_FEW


@pytest.mark.parametrize("junk", [NAN, -INF, -9999.0, -1e30])
def test_junk_does_not_fill_a_list(junk):
    clean = (-0.01, -5, -6, -7)
    assert reason_of(token(*clean, junk)) is Reason.LOGPROBS_TOO_FEW
    assert confidence([token(*clean, -8, junk)], k=5) == confidence([token(*clean, -8)], k=5)
    assert reason_of(token(junk, junk, junk, junk, junk)) is Reason.LOGPROBS_TOO_FEW


@pytest.mark.parametrize("impossible", [0.7, 12.5, INF])
def test_what_cannot_be_a_logprob(impossible):
    assert reason_of(token(impossible, *TAIL)) is Reason.SCORE_UNDEFINED


def test_a_logprob_that_rounding_made_positive():
    result = confidence([token(1e-6, -14, -15, -16, -18)], score="geometric_probability", aggregate="log", k=5)
    assert result.score == 1.0


def test_rivals_without_spread():
    assert reason_of(token(-0.01, -9, -9, -9, -9)) is Reason.SCORE_UNDEFINED
    assert reason_of(token(-2, -2, -2, -2, -2), score="separability_with_top") is Reason.SCORE_UNDEFINED


def test_a_loop_however_sure():
    sure = [token(-0.01, -5, -6, -7, -8, text=text) for text in ("a", " red", " car,") * 12]
    assert reason_of(*sure) is Reason.REPETITIVE_ANSWER
    assert confidence(sure[:6], k=5).reason is None


def test_the_more_telling_reason_wins():
    assert reason_of(token(), token(-1.0), token(3.0, 1, 0)) is Reason.LOGPROBS_MISSING
    assert reason_of(token(-1.0), token(3.0, 1, 0)) is Reason.SCORE_UNDEFINED


def test_token_scores_are_kept_where_they_exist():
    result = confidence([token(*TAIL), token(-1.0), token(*TAIL)], k=5)
    assert result.reason is Reason.LOGPROBS_TOO_FEW
    assert result.token_scores[1] is None
    assert result.token_scores[0] == result.token_scores[2] > 0


def test_scores_of_the_sampled_token():
    answer = [token(*TAIL, sampled=-0.05), token(*TAIL, sampled=-3.2)]
    assert confidence(answer, score="logprob", k=5).score == -3.2
    assert confidence(answer, score="logprob", aggregate="mean", k=5).score == pytest.approx(-1.625)
    # k = 0: a server that returns no lists is enough for this score.
    assert confidence([token(sampled=-0.5)], score="logprob", k=0).score == -0.5
    assert reason_of(token(*TAIL), score="logprob") is Reason.LOGPROBS_MISSING
    assert reason_of(token(*TAIL, sampled=-9999.0), score="logprob") is Reason.SCORE_UNDEFINED


def test_log_is_the_geometric_mean_probability():
    answer = [token(math.log(0.5), -2, -3, -4, -5), token(math.log(0.08), -3, -4, -5, -6)]
    result = confidence(answer, aggregate="log", k=5)
    assert result.score == pytest.approx(0.2)
    assert result.squashed == result.score
    assert result == confidence(answer, score="geometric_probability", aggregate="log", k=5)


def test_a_wrong_name_is_an_error_of_the_caller():
    with pytest.raises(ConfigError, match="no score 'sep'"):
        confidence([], score="sep")


hostile = st.one_of(
    st.floats(-30.0, 0.0),
    st.floats(),
    st.sampled_from([NAN, INF, -INF, -9999.0, 0.0, 1e-6, -1e308, 1e308]),
)
tokens = st.builds(
    Token,
    text=st.text(max_size=3),
    logprob=st.none() | hostile,
    top_logprobs=st.lists(hostile, max_size=8).map(tuple),
)


@settings(max_examples=200)
@given(
    st.lists(tokens, max_size=5),
    st.sampled_from([(name, how) for name, score in SCORES.items() for how in score.aggregates]),
    st.integers(-2, 10),
)
def test_never_raises_never_nan(answer, setting, k):
    name, how = setting
    result = confidence(answer, score=name, aggregate=how, k=k)
    assert (result.score is None) == (result.squashed is None) == (result.reason is not None)
    assert len(result.token_scores) == len(answer)
    json.dumps([result.score, result.squashed, *result.token_scores], allow_nan=False)
    if result.score is not None:
        low, high = SCORES[name].bounds(max(k, 1))
        assert low <= result.score <= high
        assert 0.0 <= result.squashed <= 1.0


@given(st.lists(st.lists(st.floats(-30.0, 0.0), min_size=5, max_size=9), min_size=1, max_size=4))
def test_a_defined_score_is_the_formula_on_the_k_largest(lists):
    result = confidence([token(*entries) for entries in lists], k=5)
    best = np.array([sorted(entries, reverse=True)[:5] for entries in lists])
    expected = separability(best)
    if np.isnan(expected).any():
        assert result.reason is Reason.SCORE_UNDEFINED
    else:
        assert result.score == pytest.approx(expected.min(), rel=1e-12)
