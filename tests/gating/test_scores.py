"""The registry of scores: each by hand, all within their bounds, all larger for a surer model."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from speceyes.errors import ConfigError
from speceyes.gating.scores import SCORES, entropy, find_score, margin
from speceyes.gating.separability import AGGREGATES, aggregate

HALVES = np.log([[0.5, 0.25, 0.25]])


def test_margin_by_hand():
    assert margin(HALVES)[0] == pytest.approx(math.log(2.0))
    # The squash is the first one's share of the two.
    assert SCORES["margin"].squash(margin(HALVES))[0] == pytest.approx(2.0 / 3.0)


def test_entropy_by_hand():
    assert entropy(HALVES)[0] == pytest.approx(-1.5 * math.log(2.0))
    assert SCORES["entropy"].squash(entropy(HALVES))[0] == pytest.approx(2.0**-1.5)
    assert entropy(np.full((1, 7), -3.0))[0] == -math.log(7)
    assert entropy(np.array([[0.0, -800.0, -5000.0]]))[0] == 0.0


def test_entropy_is_that_of_the_candidates_alone():
    # Half of the mass lies outside the list: renormalised, it is the same distribution.
    assert entropy(HALVES + math.log(0.5))[0] == pytest.approx(entropy(HALVES)[0])


def test_geometric_probability_by_hand():
    score = find_score("geometric_probability", "log")
    tokens = score.of_tokens(np.log([[0.5, 0.3, 0.2], [0.08, 0.05, 0.01]]), np.full(2, np.nan))
    assert aggregate(tokens, "log") == pytest.approx(0.2)
    assert score.squash(0.2) == 0.2


def test_logprob_reads_the_sampled_token():
    sampled = np.array([-2.5])
    assert SCORES["logprob"].of_tokens(HALVES, sampled)[0] == -2.5
    assert SCORES["logprob"].squash(-2.5) == pytest.approx(math.exp(-2.5))


@given(st.data(), st.sampled_from(sorted(SCORES)), st.integers(3, 40))
def test_every_score_keeps_to_its_bounds(data, name, k):
    score = SCORES[name]
    rows = -np.sort(-data.draw(arrays(np.float64, (4, k), elements=st.floats(-80.0, 0.0))), axis=-1)
    sampled = data.draw(arrays(np.float64, 4, elements=st.floats(-80.0, 0.0)))
    tokens = score.of_tokens(rows, sampled)
    assert tokens.shape == (4,)
    low, high = score.bounds(k)
    for how in score.aggregates:
        value = aggregate(tokens, how)
        if not math.isnan(value):
            assert low <= value <= high
            assert 0.0 <= score.squash(value) <= 1.0


@given(st.sampled_from(sorted(SCORES)), arrays(np.float64, 12, elements=st.floats(-20.0, 0.0)))
def test_surer_means_larger(name, row):
    rivals = np.sort(row)[::-1]
    assume(rivals[1] - rivals[-1] > 0.5)
    clearer = rivals - 1.0
    clearer[0] = rivals[0] + 1.0
    shift = max(0.0, clearer[0])
    rows = np.stack([rivals, clearer]) - shift
    vague, sure = SCORES[name].of_tokens(rows, rows[:, 0])
    assert sure > vague


@pytest.mark.parametrize("name", SCORES)
def test_squash_keeps_the_order(name):
    points = np.linspace(-8.0, 8.0, 50)
    assert (np.diff(SCORES[name].squash(points)) > 0.0).all()


@pytest.mark.parametrize("name", SCORES)
def test_every_score_says_what_it_is(name):
    score = SCORES[name]
    assert score.name == name
    assert score.meaning.endswith(".")
    assert score.source
    assert score.aggregates
    assert set(score.aggregates) <= set(AGGREGATES)


def test_log_under_its_published_name():
    assert find_score("separability", "log").name == "geometric_probability"
    assert find_score("separability_with_top", "log").name == "geometric_probability"
    assert find_score("separability", "min").name == "separability"


def test_wrong_names_are_told_the_right_ones():
    with pytest.raises(ConfigError, match=r"'separabilty'.*separability, .*entropy"):
        find_score("separabilty", "min")
    with pytest.raises(ConfigError, match=r"'margin' cannot be aggregated by 'log'.*min, mean, bottom"):
        find_score("margin", "log")


def test_the_registry_cannot_be_changed():
    with pytest.raises(TypeError):
        SCORES["mine"] = SCORES["margin"]
