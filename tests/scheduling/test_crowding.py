"""How crowded a server is, and what a call there costs the others."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.scheduling import Outcome
from speceyes.scheduling.crowding import Crowding
from speceyes.scheduling.estimates import Traffic


def seen(elasticity: float, count: int = 400, *, noise: float = 0.4, seed: int = 0) -> Crowding:
    """A server whose phases of two kinds take longer by the calls there, with lengths of their own."""
    rng, server = random.Random(seed), Crowding()
    for i in range(count):
        calls = rng.uniform(1.0, 8.0)
        alone = (0.1, 2.0)[i % 2] * rng.lognormvariate(0.0, noise)
        server.add(i % 2, alone * calls**elasticity, calls)
    return server


@pytest.mark.parametrize("elasticity", [0.0, 0.3, 1.0])
def test_elasticity_is_found_from_what_phases_took(elasticity: float) -> None:
    found = [seen(elasticity, seed=seed).elasticity for seed in range(10)]
    assert all(value == pytest.approx(elasticity, abs=0.12) for value in found)


def test_a_server_of_which_little_is_known_is_taken_for_a_processor() -> None:
    assert Crowding().elasticity == 1.0
    assert seen(0.0, 4, noise=0.0).elasticity > 0.5
    steady = Crowding()
    for _ in range(300):  # always as crowded: that says nothing
        steady.add("same", 1.0, 5.0)
    assert steady.elasticity == 1.0


def test_what_a_server_is_like_may_change() -> None:
    server = seen(0.0, 300)
    rng = random.Random(1)
    for _ in range(1500):
        calls = rng.uniform(1.0, 8.0)
        server.add(0, 0.1 * calls, calls)
    assert server.elasticity > 0.9


def test_a_load_by_hand() -> None:
    """Three others on a processor: each of a call's seconds takes a quarter from each of them."""
    server = seen(1.0)
    assert Crowding().load(0.3) == 0.3
    for _ in range(400):
        server.found(3)
    assert server.calls == pytest.approx(4.0)
    assert server.load(0.3) == pytest.approx(0.75 * server.elasticity)
    server.found(0)  # empty just now, but not lately
    assert 1.0 < (server.calls or 0.0) < 4.0
    roomy = seen(0.0)
    for _ in range(400):
        roomy.found(3)
    assert roomy.load(0.3) < 0.1


@given(st.floats(1.0, 50.0), st.floats(1.0, 50.0))
def test_stretching_to_another_crowd_and_back_changes_nothing(then: float, now: float) -> None:
    server = seen(1.0, 100)
    there = server.stretch(math.log(then), now)
    assert there * server.stretch(math.log(now), then) == pytest.approx(1.0)
    assert server.stretch(math.log(then), None) == 1.0


def outcome(screen: float, agent: float, calls: float) -> Outcome:
    there = {"screen": calls, "agent_after_screen": calls}
    return Outcome(screen * calls, None, None, agent * calls, let_through=False, accepted=False, calls=there)


def test_what_was_seen_in_a_crowd_is_expected_without_one() -> None:
    traffic, rng = Traffic(), random.Random(0)
    for _ in range(300):
        traffic.add("k", outcome(0.1, 1.0, rng.uniform(2.0, 8.0)))
    known = traffic.of("k")
    assert known is not None
    assert known.alone.screen == pytest.approx(0.1, rel=0.1)
    assert known.alone.agent_after_screen == pytest.approx(1.0, rel=0.1)
    for _ in range(200):
        traffic.agent.found(0)
    known = traffic.of("k")
    assert known is not None
    assert known.times.screen == pytest.approx(0.1, rel=0.1), "nobody is there now"


def test_an_agent_that_is_asked_at_once_has_the_easy_queries_too() -> None:
    traffic = Traffic()
    for _ in range(200):
        traffic.add("k", Outcome(agent=1.0))
        traffic.add("k", Outcome(screen=0.5, agent_after_screen=3.0, let_through=False, accepted=False))
        traffic.add("k", Outcome(screen=0.5, draft=0.1, let_through=True, passed=True, accepted=True))
    known = traffic.of("k")
    assert known is not None
    assert known.off == pytest.approx(1.0, rel=0.3), "drawn a little towards what refused queries take"
    assert known.times.agent_after_screen == pytest.approx(3.0)


@given(st.floats(0.1, 10.0), st.floats(0.1, 10.0), st.floats(0.01, 2.0), st.integers(1, 50), st.integers(1, 50))
def test_screening_saves_at_least_nothing_and_at_most_what_it_took(
    cold: float, warm: float, screen: float, many: int, few: int
) -> None:
    traffic = Traffic()
    for count, run in ((many, Outcome(agent=cold, passed=False, accepted=False)), (few, None)):
        for _ in range(count):
            warmed = Outcome(screen=screen, agent_after_screen=warm, let_through=False, accepted=False)
            traffic.add("k", run or warmed)
    known = traffic.of("k")
    assert known is not None
    times = known.times
    assert -1e-9 <= times.agent - times.agent_after_screen <= screen + 1e-9
    if 0.0 <= cold - warm <= screen:
        assert (times.agent, times.agent_after_screen) == pytest.approx((cold, warm))
