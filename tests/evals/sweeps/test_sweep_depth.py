"""Closer looks in a sweep: what each threshold accepts, at which depth, and what it costs, counted one by one too."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import lifelike, looks, run_like, run_of

from speceyes.evals.records import CloserTable, RecordTable
from speceyes.evals.sweeps import Against, Outcomes, Sweep, SweepOptions, sweep
from speceyes.evals.sweeps.charts import count, draw
from speceyes.evals.sweeps.depth import depth_effect
from speceyes.evals.sweeps.depth_curves import DepthCurve, Drafts
from speceyes.evals.sweeps.depth_points import DepthPoint, Sureness
from speceyes.evals.sweeps.grid import GateSetting
from speceyes.evals.sweeps.page import write_page
from speceyes.evals.sweeps.report import sweep_json
from speceyes.evals.sweeps.tables import depth_table
from speceyes.gating import AnswerTable
from speceyes.scheduling import Plan

SETTING = GateSetting("separability", "min", 20)


def drafts_of(table: RecordTable, screen_threshold: float = 0.5) -> Drafts:
    return Drafts.of(table, np.arange(len(table)), Against.LABELS, SETTING, screen_threshold)


def one_by_one(table: RecordTable, threshold: float, depth: int, screen_threshold: float = 0.5) -> dict[str, Any]:
    """The rule in plain Python: who answers each query, whether right, and after how long."""
    first = table.answers.score("separability", 20, "min").values
    deeper = [closer.answers.score("separability", 20, "min").values for closer in table.closer]
    found: dict[str, Any] = {"depths": [], "right": [], "seconds": []}
    for i in range(len(table)):
        through = table.help_probability[i] <= screen_threshold
        took = table.screen_seconds[i] + (table.draft_seconds[i] if through else 0.0)
        answered, right = -1, table.agent_right[i]
        if through and table.draft_usable[i] and first[i] >= threshold:
            answered, right = 0, table.draft_right[i]
        else:
            if depth and not through:
                took += table.draft_seconds[i]  # the picture is read now
            for j, closer in enumerate(table.closer[:depth], start=1):
                if math.isnan(closer.seconds[i]):
                    break
                took += closer.seconds[i]
                if closer.usable[i] and deeper[j - 1][i] >= threshold:
                    answered, right = j, closer.right[i]
                    break
            if answered < 0:
                took += table.agent_seconds[i]
        found["depths"].append(answered)
        found["right"].append(bool(right))
        found["seconds"].append(took)
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 50), st.integers(0, 3), st.data())
def test_a_curve_is_the_rule_one_by_one(seed: int, depth: int, data: st.DataObject) -> None:
    table = looks(lifelike(40, seed=seed), 3, fails=0.2, seed=seed)
    curve = DepthCurve.of(drafts_of(table), depth)
    assert (np.diff(curve.thresholds) < 0).all()
    i = data.draw(st.integers(0, curve.thresholds.size - 1))
    expected = one_by_one(table, float(curve.thresholds[i]), depth)
    assert curve.accepted[:, i] * 40 == pytest.approx([expected["depths"].count(j) for j in range(depth + 1)])
    assert curve.final_accuracy[i] == pytest.approx(np.mean(expected["right"]))
    assert curve.accuracy_change[i] == pytest.approx(np.mean(expected["right"]) - table.agent_right.mean(), abs=1e-12)
    assert curve.seconds[i] == pytest.approx(np.mean(expected["seconds"]))
    assert curve.speedup[i] == pytest.approx(table.agent_seconds.sum() / sum(expected["seconds"]))
    assert curve.acceptance[-1] >= curve.acceptance[i] - 1e-12


def test_a_point_says_the_same_with_what_looks_have_won() -> None:
    table, depth = looks(lifelike(300, seed=1), 2), 2
    drafts = drafts_of(table)
    threshold = DepthCurve.of(drafts, depth).fastest_as_accurate
    expected = one_by_one(table, threshold, depth)
    answered, right = np.array(expected["depths"]), np.array(expected["right"])
    point = DepthPoint.of(drafts, depth, threshold, Sureness(np.arange(300), 200, 0.95, 0))
    assert [share.value for share in point.accepted] == pytest.approx([(answered == j).mean() for j in range(3)])
    assert point.figures["final_accuracy"].value == pytest.approx(right.mean())
    assert point.figures["accuracy_change"].value >= 0
    assert point.figures["seconds"].value == pytest.approx(np.mean(expected["seconds"]))
    lost = (answered >= 0) & ~right & table.agent_right
    assert point.figures["excess_loss"].value == pytest.approx(lost.sum() / (answered >= 0).sum())
    for which, won in ((answered > 0, point.won), (answered == 1, point.won_at[0]), (answered == 2, point.won_at[1])):
        assert won["share"].value == pytest.approx(which.sum() / (answered != 0).sum())
        assert won["accuracy"].value == pytest.approx(right[which].mean())
        assert won["agent_accuracy"].value == pytest.approx(table.agent_right[which].mean())
        assert won["agent_seconds"].value == pytest.approx(table.agent_seconds[which].mean())
    by_hand = table.closer[0].seconds + np.where(table.screened(0.5), 0.0, table.draft_seconds)
    assert point.won_at[0]["seconds"].value == pytest.approx(by_hand[answered == 1].mean())
    for figure in (*point.figures.values(), *point.won.values(), *point.accepted):
        assert figure.low <= figure.value <= figure.high


def test_without_looks_it_is_the_sweeps_own_curve() -> None:
    table = looks(lifelike(300, seed=2), 1)
    swept = sweep(table, SweepOptions(replicates=20))
    assert swept.depth is not None
    own, curve = swept.depth.curves[0], swept.ledgers[Plan.PAPER].curve(swept.gates[swept.reference].ranking)
    # its thresholds are the scores of drafts that screening lets through; the sweep's are all scores
    at = np.searchsorted(-curve.thresholds, -own.thresholds)
    np.testing.assert_array_equal(curve.thresholds[at], own.thresholds)
    for name in ("final_accuracy", "seconds", "speedup", "acceptance"):
        np.testing.assert_allclose(getattr(own, name), getattr(curve, name)[at], rtol=1e-9)
    point = swept.depth.as_accurate[0].figures
    for name, figure in swept.default[Plan.PAPER].figures.items():
        if name in point:
            assert point[name].value == pytest.approx(figure.value), name
    assert swept.depth.drafts[0].auroc.value == swept.separations[swept.reference].auroc.value


@pytest.fixture(scope="module")
def swept() -> Sweep:
    return sweep(looks(lifelike(200, seed=1), 2, broken=0.05), SweepOptions(replicates=40))


def test_the_json_has_it_strict_and_explained(swept: Sweep) -> None:
    record = json.loads(json.dumps(sweep_json(swept), allow_nan=False))
    found = record["depth"]
    assert found["judged"] + found["left_out"] == record["run"]["judged"]
    assert found["left_out"] > 0
    assert any("a closer look is not known" in note for note in record["notes"])
    assert [point["max_depth"] for point in found["as_accurate"]] == [0, 1, 2]
    assert [point["max_depth"] for point in found["same_threshold"]] == [1, 2]
    assert {point["threshold"] for point in found["same_threshold"]} == {found["as_accurate"][0]["threshold"]}
    assert [len(point["won_at"]) for point in found["as_accurate"]] == [0, 1, 2]
    assert [drafts["depth"] for drafts in found["drafts"]] == [0, 1, 2]
    assert all(0 < drafts["auroc"]["low"] <= drafts["auroc"]["value"] for drafts in found["drafts"])
    assert {"won", "max_depth", "accepted_at", "looked"} <= set(record["meaning"])
    for curve in found["curves"]:
        assert len({len(values) for values in (*curve["accepted_at"], curve["threshold"], curve["speedup"])}) == 1
        assert len(curve["accepted_at"]) == curve["max_depth"] + 1


def test_looks_are_shown_where_there_are_some(swept: Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speceyes.evals.sweeps.charts.style.DPI", 40)
    charts = list(draw(swept))
    assert len(charts) == count(swept) == 9
    assert charts[-1].name == "closer-looks"
    assert charts[-1].png.startswith(b"\x89PNG")
    grid = depth_table(swept)
    assert grid is not None
    assert [row[0] for row in grid.rows] == ["0", "1", "2", "1, threshold of 0", "2, threshold of 0"]
    assert all(len(row) == len(grid.header) for row in grid.rows)
    assert grid.title in write_page(swept, charts)


def test_where_only_looks_can_be_accepted_the_chart_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    table = looks(lifelike(80, seed=2), 1)
    swept = sweep(run_like(table, help_probability=np.ones(80)), SweepOptions(replicates=0))
    assert swept.depth is not None
    assert swept.depth.curves[0].thresholds.size == 1
    monkeypatch.setattr("speceyes.evals.sweeps.charts.style.DPI", 40)
    assert list(draw(swept))[-1].png.startswith(b"\x89PNG")


def test_a_run_without_looks_has_nothing_of_it() -> None:
    plain = sweep(lifelike(60), SweepOptions(replicates=0))
    assert (plain.depth, depth_table(plain), count(plain)) == (None, None, 8)
    record = sweep_json(plain)
    assert "depth" not in record
    assert "won" not in record["meaning"]


def test_without_labels_looks_are_judged_by_the_agent() -> None:
    table = looks(lifelike(120, seed=4), 1)
    found = sweep(run_like(table, labelled=np.zeros(120, dtype=np.bool_)), SweepOptions(replicates=0))
    assert found.depth is not None
    record = sweep_json(found)["depth"]
    assert "accuracy" not in json.dumps(record)
    assert record["as_accurate"][1]["won"]["agent_agreement"]["value"] in (1.0, None)
    assert record["drafts"][1]["agreement"]["value"] == pytest.approx(
        table.closer[0].agrees[table.closer[0].usable].mean()
    )


def test_looks_that_all_fail_cost_their_seconds_and_win_nothing() -> None:
    plain = run_of([True, False] * 6, logprobs=np.array([[-0.01, -3.0 - i, -4.0 - i] for i in range(12)]))
    nothing, none = AnswerTable.of([()] * 12), np.zeros(12, dtype=np.bool_)
    closer = CloserTable(nothing, ~none, none, none, none, none, np.full(12, 0.25))
    found = sweep(run_like(plain, closer=(closer,)), SweepOptions(replicates=10)).depth
    assert found is not None
    at_zero, at_one = (curve for curve in found.curves)
    np.testing.assert_allclose(at_one.acceptance, at_zero.acceptance)
    np.testing.assert_allclose(at_one.seconds - at_zero.seconds, 0.25 * (1 - at_zero.acceptance), atol=1e-12)
    assert math.isnan(found.as_accurate[1].won["accuracy"].value)
    assert found.as_accurate[1].won["share"].value in (0.0, pytest.approx(math.nan, nan_ok=True))
    assert (found.drafts[1].scored, found.drafts[1].looked) == (0, 0.0)


def test_where_no_query_is_wholly_known_there_is_no_effect() -> None:
    table = looks(lifelike(30), 1)
    closer = CloserTable(
        **{name: getattr(table.closer[0], name) for name in CloserTable.__slots__} | {"known": np.zeros(30, np.bool_)}
    )
    unknown = run_like(table, closer=(closer,))
    sureness = Sureness(np.arange(30), 0, 0.95, 0)
    assert depth_effect(unknown, Outcomes.of(unknown), SETTING, 0.5, sureness) is None
