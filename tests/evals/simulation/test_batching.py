"""Batching curves: what they are at their points, what presets promise, and what is no curve."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from speceyes.errors import ConfigError
from speceyes.evals.simulation import BatchingCurve, read_batching

CURVE = BatchingCurve("made", ((1, 1.0), (5, 1.4), (10, 4.0)), 20)


@pytest.mark.parametrize(("calls", "slow"), [(1, 1.0), (2, 1.1), (5, 1.4), (10, 4.0), (20, 8.0)])
def test_straight_between_the_points_and_in_proportion_beyond(calls: int, slow: float) -> None:
    assert CURVE.slowdown(calls) == pytest.approx(slow)
    assert CURVE.rate(calls) == pytest.approx(calls / slow)


def test_the_capacity_is_the_best_common_rate() -> None:
    assert CURVE.capacity() == pytest.approx(5 / 1.4)  # ten calls at a time are worse off together
    assert CURVE.capacity(2) == pytest.approx(2 / 1.1)
    assert CURVE.rate(0) == 0.0


def test_a_processor_gains_nothing_by_batching() -> None:
    assert [BatchingCurve.cpu().rate(calls) for calls in (1, 2, 16)] == [1.0, 1.0, 1.0]
    assert [BatchingCurve.cpu(4).rate(calls) for calls in (1, 3, 4, 16)] == [1.0, 3.0, 4.0, 4.0]


def test_a_graphics_processor_is_nearly_flat_up_to_its_knee() -> None:
    curve = BatchingCurve.gpu(48)
    assert curve.slowdown(8) == pytest.approx(1 + 7 / 48)
    assert curve.slowdown(49) == pytest.approx(2.0)
    assert 40 < curve.capacity() < 48


def test_alone_has_one_slot() -> None:
    assert BatchingCurve.alone().capacity() == 1.0
    assert BatchingCurve.alone().slots == 1


@pytest.mark.parametrize(
    "points",
    [(), ((2, 1.0),), ((1, 1.2),), ((1, 1.0), (4, 0.9)), ((1, 1.0), (1, 1.0)), ((1, 1.0), (4, float("inf")))],
    ids=["none", "no first", "first not 1", "falls", "twice", "infinite"],
)
def test_what_is_no_curve_is_refused(points: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ConfigError, match="batching made"):
        BatchingCurve("made", points, 4)


def test_presets_by_name() -> None:
    assert read_batching("cpu:4") == (BatchingCurve.cpu(4),) * 2
    assert read_batching("gpu")[1].points == BatchingCurve.gpu().points
    assert read_batching("alone")[0].slots == 1
    assert read_batching("gpu:20", 7)[0].slots == 7


def test_a_file_for_both_or_for_each(tmp_path: Path) -> None:
    one = {"points": [[1, 1.0], [8, 1.5]], "slots": 32}
    (tmp_path / "one.json").write_text(json.dumps(one))
    draft, agent = read_batching(str(tmp_path / "one.json"))
    assert draft == agent
    assert (draft.slowdown(8), draft.slots) == (1.5, 32)
    both = {"draft": one, "agent": {"points": [[1, 1], [2, 2]]}}
    (tmp_path / "both.json").write_text(json.dumps(both))
    draft, agent = read_batching(str(tmp_path / "both.json"))
    assert (draft.slowdown(8), agent.slowdown(8)) == (1.5, 8.0)


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"points": [[1, "x"]]}', '{"points": [1, 2]}', "not json", '{"points": 3}']
)
def test_a_file_that_holds_no_curve_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ConfigError, match="--batching"):
        read_batching(str(tmp_path / "bad.json"))


@pytest.mark.parametrize("name", ["tpu", "cpu:x", "gpu:0", "alone:3"])
def test_an_unknown_preset_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        read_batching(name)
