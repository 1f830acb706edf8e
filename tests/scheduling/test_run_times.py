"""What an agent run is expected to take, by the runs so far."""

from speceyes.scheduling import RunTimes


def test_nothing_is_expected_before_a_run_was_seen() -> None:
    assert RunTimes().expected("kind", None) is None


def test_a_kind_of_which_nothing_is_known_is_as_all_others_are() -> None:
    times = RunTimes()
    for _ in range(20):
        times.add("seen", "why", 4.0)
    assert times.expected("new", None) == times.expected("seen", "other") == 4.0


def test_kinds_and_reasons_that_differ_are_told_apart() -> None:
    times = RunTimes()
    for _ in range(50):
        times.add("small", "tool", 2.0)
        times.add("small", "draft", 0.5)
        times.add("large", "tool", 8.0)
    small, short, large = (times.expected(*name) for name in (("small", "tool"), ("small", "draft"), ("large", "tool")))
    assert short is not None
    assert small is not None
    assert large is not None
    assert 2 * short <= small <= large / 2


def test_small_differences_are_none() -> None:
    """Means move with every run; queries that are alike must not change places for that."""
    times = RunTimes()
    told = set()
    for i in range(200):
        times.add("a", None, 1.0 + 0.2 * (i % 3))
        times.add("b", None, 1.2 + 0.2 * (i % 2))
        told |= {times.expected("a", None), times.expected("b", None)}
    assert told == {1.0}


def test_what_was_long_ago_is_forgotten() -> None:
    times = RunTimes()
    for seconds in (64.0, 1.0):
        for _ in range(500):
            times.add("kind", None, seconds)
    assert times.expected("kind", None) == 1.0


def test_a_run_that_took_no_time_is_no_fault() -> None:
    times = RunTimes()
    times.add("kind", None, 0.0)
    assert times.expected("kind", None) == 0.0


def test_memory_is_bounded() -> None:
    times = RunTimes()
    for i in range(5000):
        times.add(f"kind {i}", None, 1.0)
    assert len(times._means) <= 512
    assert times.expected("kind 4999", None) == 1.0
