"""The circuit, moved by hand: no server, and a clock that stands still."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.engines.circuit import Circuit
from speceyes.errors import ConfigError


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def opened(**options: float) -> tuple[Circuit, Clock]:
    clock = Clock()
    circuit = Circuit(**{"failures": 1, "pause_s": 10, "max_pause_s": 35, **options}, clock=clock)  # type: ignore[arg-type]
    circuit.failed(ticket(circuit))
    return circuit, clock


def ticket(circuit: Circuit) -> int:
    given = circuit.enter()
    assert given is not None
    return given


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    circuit = Circuit(failures=3, clock=Clock())
    for outcome in (circuit.failed, circuit.failed, circuit.succeeded, circuit.failed, circuit.failed):
        outcome(ticket(circuit))
    assert circuit.state == "closed"
    circuit.failed(ticket(circuit))
    assert circuit.state == "open"
    assert circuit.enter() is None


def test_after_the_pause_one_call_goes_through_and_closes_it() -> None:
    circuit, clock = opened()
    clock.now += 9.9
    assert circuit.enter() is None
    assert circuit.retry_after_s == pytest.approx(0.1)
    clock.now += 0.1
    trial = ticket(circuit)
    assert (circuit.state, circuit.enter()) == ("half_open", None)
    circuit.succeeded(trial)
    assert (circuit.state, circuit.retry_after_s) == ("closed", 0)
    assert ticket(circuit) == ticket(circuit)


def test_a_trial_that_fails_doubles_the_pause_up_to_the_longest() -> None:
    circuit, clock = opened()
    pauses = []
    for _ in range(4):
        pauses.append(circuit.retry_after_s)
        clock.now += circuit.retry_after_s
        circuit.failed(ticket(circuit))
    assert pauses == [10, 20, 35, 35]
    clock.now += 35
    circuit.succeeded(ticket(circuit))
    circuit.failed(ticket(circuit))
    assert circuit.retry_after_s == 10


def test_a_trial_that_is_given_up_is_made_again() -> None:
    circuit, clock = opened()
    clock.now += 10
    circuit.given_up(ticket(circuit))
    assert circuit.state == "half_open"
    circuit.succeeded(ticket(circuit))
    assert circuit.state == "closed"


def test_what_began_before_a_change_says_nothing_after_it() -> None:
    circuit = Circuit(failures=1, clock=(clock := Clock()))
    early, late = ticket(circuit), ticket(circuit)
    circuit.failed(early)
    circuit.succeeded(late)
    assert circuit.state == "open"
    clock.now += 10
    trial = ticket(circuit)
    circuit.failed(late)
    circuit.given_up(late)
    assert (circuit.state, circuit.enter()) == ("half_open", None)
    circuit.succeeded(trial)
    assert circuit.state == "closed"


def test_a_pause_that_the_server_asks_for_is_kept_within_reason() -> None:
    for asked, kept in ((20, 20), (500, 35), (1, 10)):
        circuit = Circuit(failures=1, pause_s=10, max_pause_s=35, clock=Clock())
        circuit.failed(ticket(circuit), asked)
        assert circuit.retry_after_s == kept


def test_what_cannot_work_is_refused() -> None:
    for options in ({"failures": 0}, {"pause_s": 0}):
        with pytest.raises(ConfigError):
            Circuit(**options)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.sampled_from(["enter", "ok", "bad", "gone", "wait"]), st.integers(0, 9)), max_size=60))
def test_whatever_happens_it_lets_a_call_through_again(steps: list[tuple[str, int]]) -> None:
    clock = Clock()
    circuit = Circuit(failures=2, pause_s=5, max_pause_s=20, clock=clock)
    held: list[int] = []
    for step, number in steps:
        if step == "enter":
            given = circuit.enter()
            held += [] if given is None else [given]
            if circuit.state == "half_open":
                assert sum(one == given for one in held) <= 1 or given is None
        elif step == "wait":
            clock.now += number
        elif held:
            report = {"ok": circuit.succeeded, "bad": circuit.failed, "gone": circuit.given_up}[step]
            report(held.pop(number % len(held)))
    for one in held:
        circuit.given_up(one)
    clock.now += 20
    assert circuit.enter() is not None
