"""Where an adaptive limit goes: near a server's knee from either side, back when the server changes, down at once when
it is too much for it. The servers are arithmetic, and so is the limit: each run is the same every time."""

from __future__ import annotations

import random
from itertools import islice
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from modelled_server import Latency, Moment, batching, changing, knee, serve, thrashing

from speceyes.errors import ConfigError
from speceyes.scheduling import AdaptiveLimit
from speceyes.scheduling.limit import CALLS

SEEDS = [1, 2, 3]


def settled(latency: Latency, seed: int, calls: int = 6000, start: int = 8) -> tuple[float, float]:
    """The mean limit, and the work per second, of the second half of so many calls."""
    moments = list(islice(serve(AdaptiveLimit(start), latency, seed=seed), calls))[calls // 2 :]
    return mean(moment.limit for moment in moments), len(moments) / (moments[-1].now - moments[0].now)


def after_change(before: Latency, after: Latency, at_s: float, seed: int) -> list[Moment]:
    """What follows from 2,500 calls after a change on."""
    moments = serve(AdaptiveLimit(), changing(before, after, at_s), seed=seed)
    while next(moments).now < at_s:
        pass
    return list(islice(moments, 2500, 5500))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("start", [1, 8, 64])
@pytest.mark.parametrize("at", [1, 4, 32])
def test_it_finds_the_knee_wherever_it_begins(at: int, start: int, seed: int) -> None:
    limit, rate = settled(knee(at), seed, start=start)
    assert 0.8 * at <= limit <= 1.6 * at
    assert rate >= 0.8 * at, "a server can do no more than `at` calls a second"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("at", [4, 16])
def test_it_stays_out_of_where_a_server_thrashes(at: int, seed: int) -> None:
    limit, _ = settled(thrashing(at), seed)
    assert 0.8 * at <= limit <= 1.3 * at


@pytest.mark.parametrize("seed", SEEDS)
def test_it_goes_up_as_long_as_batching_pays(seed: int) -> None:
    limit, rate = settled(batching(32), seed, 8000)
    assert limit > 45
    assert rate > 0.85 * 64 / (1 + 64 / 32), "of what the highest limit would get done"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("before", "after", "at_s"), [(32, 4, 60.0), (4, 32, 300.0), (64, 2, 60.0)])
def test_it_follows_a_server_that_changes(before: int, after: int, at_s: float, seed: int) -> None:
    moments = after_change(knee(before), knee(after), at_s, seed)
    assert 0.8 * after <= mean(moment.limit for moment in moments) <= 1.6 * after


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_that_does_a_sixteenth_gets_a_fraction_at_once(seed: int) -> None:
    moments = serve(AdaptiveLimit(), changing(knee(64), knee(4), 60.0), seed=seed)
    while next(moments).now < 60.0:
        pass
    assert next(i for i, moment in enumerate(moments) if moment.limit <= 8) < 2 * 64 + 2 * 2 * 64, "two measurements"


def test_it_does_not_drift_under_load_that_never_ends() -> None:
    moments = list(islice(serve(AdaptiveLimit(), knee(8), seed=1), 40_000))
    parts = [mean(moment.limit for moment in moments[i : i + 5000]) for i in range(5000, 40_000, 5000)]
    assert all(7 <= part <= 12 for part in parts)
    assert mean(parts[-3:]) < 1.25 * mean(parts[:3])


@pytest.mark.parametrize("unit_s", [0.01, 100.0])
def test_what_a_call_takes_does_not_matter_only_what_changes_it(unit_s: float) -> None:
    one, other = (serve(AdaptiveLimit(), knee(4, unit), seed=1) for unit in (1.0, unit_s))
    assert [moment.limit for moment in islice(one, 1000)] == [moment.limit for moment in islice(other, 1000)]


def test_where_less_is_asked_for_than_it_allows_it_stays() -> None:
    limit = AdaptiveLimit(8)
    moments = list(islice(serve(limit, knee(32), seed=1, most=5), 5000))
    assert {moment.limit for moment in moments} == {8}


def test_a_lull_ends_a_round_and_the_limit_is_what_it_was_before_it() -> None:
    limit = AdaptiveLimit(8)
    calls = 0
    while limit.current == 8:  # it rests, then a round begins
        calls += 1
        limit.called(float(calls), 1.0, limit.current)
    assert calls >= CALLS
    limit.freed(1)
    assert limit.current == 8


# Overloads


def test_an_overload_counts_at_once_and_once_for_all_calls_of_its_time() -> None:
    limit = AdaptiveLimit(40)
    for _ in range(30):
        limit.overloaded(now=100.0, began=99.0)
    assert (limit.current, limit.cuts) == (32, 1)
    limit.overloaded(now=101.0, began=99.9)
    assert limit.cuts == 1, "that call was made before the cut"
    limit.overloaded(now=102.0, began=100.5)
    assert (limit.current, limit.cuts) == (26, 2)


def test_it_goes_down_to_the_least_and_no_further_and_comes_back() -> None:
    limit = AdaptiveLimit(40, least=2)
    for second in range(100):
        limit.overloaded(now=float(second), began=float(second))
    assert limit.current == 2
    assert mean(moment.limit for moment in islice(serve(limit, knee(16), seed=1), 8000, 12_000)) > 12


def test_after_an_overload_it_comes_back_more_slowly_than_it_would_go_up() -> None:
    def calls_until(limit: AdaptiveLimit, at: int) -> int:
        moments = serve(limit, knee(64), seed=1)
        return next(i for i, moment in enumerate(moments) if moment.limit >= at)

    cut = AdaptiveLimit(20)
    cut.overloaded(now=-1.0, began=-1.0)
    assert calls_until(cut, 30) > 2 * calls_until(AdaptiveLimit(16), 30)


# Any events


@given(
    st.integers(1, 8),
    st.integers(0, 60),
    st.integers(-5, 80),
    st.lists(
        st.tuples(st.floats(0, 10), st.floats(0, 1000), st.integers(0, 80), st.sampled_from(["call", "freed", "over"])),
        max_size=120,
    ),
)
def test_whatever_happens_it_stays_within_its_bounds(
    least: int, more: int, start: int, events: list[tuple[float, float, int, str]]
) -> None:
    limit, now = AdaptiveLimit(start, least=least, most=least + more), 0.0
    for seconds, work, held, what in events:
        now += seconds
        if what == "call":
            limit.called(now, work, held)
        elif what == "freed":
            limit.freed(held)
        else:
            limit.overloaded(now, now - seconds)
        assert least <= limit.current <= least + more


def test_calls_without_time_or_work_do_no_harm() -> None:
    for seed in range(200):
        draw = random.Random(seed)
        limit, now = AdaptiveLimit(4, most=8), 0.0
        for _ in range(300):
            now += draw.choice([0.0, 1e-9, 0.5, 1e9])
            limit.called(now, draw.choice([0.0, 1.0, 1e12]), limit.current)
            assert 1 <= limit.current <= 8


@pytest.mark.parametrize(("least", "most"), [(0, 8), (9, 8), (1, 0)])
def test_bounds_that_cannot_be_are_an_error(least: int, most: int) -> None:
    with pytest.raises(ConfigError, match="1 <= least <= most"):
        AdaptiveLimit(least=least, most=most)
