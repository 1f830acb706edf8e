"""Paired statistics: exact by hand and against SciPy, and what must hold for every pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import InputError
from speceyes.evals.statistics.paired import accuracy_differences, discordance, mcnemar, numbered
from speceyes.evals.statistics.shares import share, shares_by
from speceyes.gating import wilson

RIGHT = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


def flags(pairs: list[tuple[bool, bool]], side: int) -> np.ndarray:
    return np.array([pair[side] for pair in pairs], dtype=np.bool_)


def test_mcnemar_by_hand() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(0, 1) == 1.0
    assert mcnemar(0, 5) == 2 / 32
    assert mcnemar(1, 6) == 2 * (1 + 7) / 128
    assert mcnemar(6, 1) == mcnemar(1, 6)
    with pytest.raises(InputError, match="no counts"):
        mcnemar(-1, 2)


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_is_the_binomial_test_of_a_fair_coin(first: int, second: int) -> None:
    found = mcnemar(first, second)
    assert 0 <= found <= 1
    if first + second:
        expected = scipy.stats.binomtest(first, first + second, 0.5).pvalue
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_mcnemar_does_not_overflow() -> None:
    assert 0 < mcnemar(4000, 4400) < 1e-4


@given(RIGHT)
def test_a_table_holds_every_question_once(pairs: list[tuple[bool, bool]]) -> None:
    table = discordance(flags(pairs, 0), flags(pairs, 1))
    assert table.both + table.first + table.second + table.neither == len(pairs)
    assert table.both + table.first == sum(a for a, _ in pairs)
    assert table.both + table.second == sum(b for _, b in pairs)
    assert table.p == mcnemar(table.first, table.second)


def test_a_pair_needs_the_same_questions() -> None:
    with pytest.raises(InputError, match="same questions"):
        discordance(np.array([True]), np.array([True, False]))
    with pytest.raises(InputError, match="same questions"):
        accuracy_differences(np.ones((1, 2), bool), np.ones((1, 3), bool), np.arange(2))


@given(RIGHT, st.integers(1, 5))
def test_a_difference_lies_in_its_interval_and_turns_round(pairs: list[tuple[bool, bool]], pictures: int) -> None:
    first, second = flags(pairs, 0)[None], flags(pairs, 1)[None]
    groups = np.arange(len(pairs)) % pictures
    (there,) = accuracy_differences(first, second, numbered(groups.tolist()), replicates=100)
    (back,) = accuracy_differences(second, first, numbered(groups.tolist()), replicates=100)
    assert there.value == pytest.approx(second.mean() - first.mean())
    assert back.value == pytest.approx(-there.value)
    if not math.isnan(there.low):
        assert -1 <= there.low <= there.high <= 1
        assert len(set(groups.tolist())) > 1


def test_a_system_does_not_differ_from_itself() -> None:
    rng = np.random.default_rng(0)
    right = rng.random((1, 80)) < 0.7
    (found,) = accuracy_differences(right, right, np.arange(80), replicates=200)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_the_interval_covers_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for seed in range(200):
        first, second = rng.random(150) < 0.6, rng.random(150) < 0.7
        (found,) = accuracy_differences(first[None], second[None], np.arange(150), replicates=300, seed=seed)
        covered += found.low <= 0.1 <= found.high
    assert 0.88 <= covered / 200 <= 0.99


def test_questions_about_one_picture_widen_the_interval() -> None:
    rng = np.random.default_rng(1)
    a, b = (np.repeat(rng.random(30) < share_, 4)[None] for share_ in (0.5, 0.6))
    (alone,) = accuracy_differences(a, b, np.arange(120))
    (together,) = accuracy_differences(a, b, np.repeat(np.arange(30), 4))
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_no_questions_have_no_difference() -> None:
    (found,) = accuracy_differences(np.empty((1, 0), bool), np.empty((1, 0), bool), np.empty(0, np.int64))
    assert math.isnan(found.value)


def test_shares() -> None:
    found = share([True, False, True])
    low, high = wilson(2, 3)
    assert found.as_json() == {"value": pytest.approx(2 / 3), "low": low, "high": high, "successes": 2, "n": 3}
    assert share([]).as_json() == {"value": None, "low": None, "high": None, "successes": 0, "n": 0}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans())))
def test_shares_by_name_add_up(pairs: list[tuple[str, bool]]) -> None:
    found = shares_by(pairs)
    assert sum(part.n for part in found.values()) == len(pairs)
    assert sum(part.successes for part in found.values()) == sum(flag for _, flag in pairs)
    assert list(found) == list(dict.fromkeys(name for name, _ in pairs))
