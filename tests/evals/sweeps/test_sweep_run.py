"""The whole sweep: what it says about ordinary runs, and about those that leave nothing to say."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from made_runs import lifelike, run_of

from speceyes.errors import ConfigError, InputError
from speceyes.evals.records import RecordTable
from speceyes.evals.sweeps import Against, Sweep, SweepOptions, sweep
from speceyes.evals.sweeps.charts import draw
from speceyes.evals.sweeps.grid import DEFAULT_KS, default_ks, gate_grid, parse_ks
from speceyes.evals.sweeps.page import write_page
from speceyes.evals.sweeps.report import notes, sweep_json
from speceyes.gating import SCORES
from speceyes.scheduling import SPECULATIVE

QUICK = SweepOptions(replicates=40)


@pytest.fixture(autouse=True)
def _small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speceyes.evals.sweeps.charts.style.DPI", 40)


@pytest.fixture(scope="module")
def swept() -> Sweep:
    return sweep(lifelike(300, seed=1), SweepOptions(replicates=60))


def strict(found: Sweep) -> dict[str, Any]:
    """The JSON, as a reader gets it."""
    read: dict[str, Any] = json.loads(json.dumps(sweep_json(found), allow_nan=False))
    return read


def test_every_score_with_each_aggregate_is_swept_at_each_k(swept: Sweep) -> None:
    expected = {(s.name, a, k) for s in SCORES.values() for a in s.aggregates for k in (3, 5, 10, 20)}
    expected |= {("learned", "", k) for k in (3, 5, 10, 20)}
    assert {(g.setting.score, g.setting.aggregate, g.setting.k) for g in swept.gates} == expected
    assert swept.k == 20
    assert swept.gates[swept.reference].setting.name == "separability, min"


def test_the_best_is_on_the_record_as_accurate_and_none_such_is_faster(swept: Sweep) -> None:
    for plan, ledger in swept.ledgers.items():
        best = swept.best[plan].figures
        assert best["accuracy_change"].value >= 0
        for gate in swept.gates:
            curve = ledger.curve(gate.ranking)
            assert not (curve.speedup[curve.accuracy_change >= 0] > best["speedup"].value + 1e-12).any()
        assert swept.default[plan].figures["speedup"].value <= best["speedup"].value + 1e-12


def test_the_front_goes_from_fast_to_accurate(swept: Sweep) -> None:
    for points in swept.fronts.values():
        speed = [point.figures["speedup"].value for point in points]
        accuracy = [point.figures["final_accuracy"].value for point in points]
        assert speed == sorted(speed, reverse=True)
        assert accuracy == sorted(accuracy)


def test_screening_by_hand() -> None:
    found = sweep(run_of([True, True, False, False], help_probability=[0.1, 0.9, 0.2, math.nan]), QUICK).screening
    assert (found.let_through, found.unreadable) == (0.5, 1)
    assert (found.right_let_through, found.right_stopped) == (0.5, 0.5)
    assert (found.right_drafts_lost, found.wrong_drafts_stopped) == (0.5, 0.5)
    # Help probabilities of right drafts .1 and .9, of the one wrong draft that has one .2.
    assert found.auroc == 0.5


def test_the_json_is_strict_and_explains_its_figures(swept: Sweep) -> None:
    record = strict(swept)
    assert record["against"] == "labels"
    assert record["run"]["k"] == 20
    assert set(record["pareto"]) == set(SPECULATIVE)
    point = record["best"]["paper"]
    assert set(point) - {"score", "aggregate", "k", "plan"} <= set(record["meaning"])
    curves = {(gate["score"], gate["aggregate"]): gate["curve"] for gate in record["gates"] if gate["k"] == 20}
    assert len(curves) == 17
    curve = curves["separability", "min"]
    assert set(curve) <= set(record["meaning"])
    assert {len(values) for values in curve.values()} == {len(curve["threshold"])}
    assert curve["threshold"][0] is None
    assert curve["acceptance"] == sorted(curve["acceptance"])
    assert curve["acceptance"][-1] == swept.curves[swept.reference].acceptance[-1]


def test_without_labels_it_speaks_of_agreement() -> None:
    table = lifelike(200, seed=4)
    unlabelled = run_like(table, labelled=np.zeros(200, dtype=np.bool_))
    found = sweep(unlabelled, QUICK)
    assert found.outcomes.against is Against.AGENT
    record = strict(found)
    text = json.dumps({key: value for key, value in record.items() if key not in ("meaning", "notes", "published")})
    assert "accuracy" not in text
    assert "excess_loss" not in text
    point = record["best"]["paper"]
    assert point["final_agreement"]["value"] == 1.0
    assert point["disagreement"]["value"] in (None, 0.0)
    assert "agreement with the agent" in record["notes"][0]
    by_hand = sweep(run_like(table, draft_right=table.agrees, agent_right=np.ones(200, dtype=np.bool_)), QUICK)
    assert [s.auroc for s in found.separations] == [s.auroc for s in by_hand.separations]


def test_only_complete_and_labelled_records_count() -> None:
    table = lifelike(100, seed=2)
    agent_seconds = table.agent_seconds.copy()
    agent_seconds[:7] = np.nan
    found = sweep(run_like(table, agent_seconds=agent_seconds, labelled=np.arange(100) % 2 == 0), QUICK)
    assert (found.outcomes.incomplete, found.outcomes.unlabelled, len(found.outcomes)) == (7, 47, 46)
    assert any("7 of 100 records lack a phase" in note for note in notes(found))


def run_like(table: RecordTable, **changes: Any) -> RecordTable:
    return RecordTable(**{name: changes.get(name, getattr(table, name)) for name in RecordTable.__slots__})


def drawn(found: Sweep) -> str:
    """All pictures and the page, without a crash or a warning."""
    return write_page(found, list(draw(found)))


def test_an_empty_run_is_refused() -> None:
    with pytest.raises(InputError, match="holds no records"):
        sweep(run_of([]))


def test_a_run_without_one_complete_record_is_refused() -> None:
    with pytest.raises(InputError, match="did screen, draft and agent all run"):
        sweep(run_of([True], agent_seconds=[math.nan]))


def test_labels_cannot_be_demanded_where_there_are_none() -> None:
    with pytest.raises(InputError, match="has a label"):
        sweep(run_of([True], labelled=[False]), SweepOptions(against=Against.LABELS))


@pytest.mark.parametrize("right", [True, False])
def test_all_drafts_alike(right: bool) -> None:
    found = sweep(run_of([right] * 12), QUICK)
    record = strict(found)
    assert all(gate["auroc"]["value"] is None for gate in record["gates"])
    word = "right" if right else "wrong"
    assert any(note.startswith(f"All drafts are {word}") for note in record["notes"])
    best = record["best"]["no-screen"]
    assert best["acceptance"]["value"] == (1.0 if right else 0.0)
    assert best["law_ideal"]["value"] == (None if right else 1.0)
    drawn(found)


def test_no_confidence_anywhere() -> None:
    nothing = sweep(run_of([True, False] * 10, logprobs=np.full((20, 4), np.nan)), QUICK)
    record = strict(nothing)
    assert all(gate["scored"] == 0 for gate in record["gates"])
    assert any("20 drafts have no score" in note for note in record["notes"])
    assert record["best"]["paper"]["threshold"] is None
    assert record["best"]["paper"]["speedup"]["value"] < 1
    drawn(nothing)


def test_one_record() -> None:
    found = sweep(run_of([True]), QUICK)
    record = strict(found)
    assert record["gates"][0]["scored"] == 1
    assert record["best"]["paper"]["speedup"] == {"value": pytest.approx(1 / 0.3), "low": None, "high": None}
    assert any("Few records (1)" in note for note in record["notes"])
    drawn(found)


def test_equal_scores_everywhere() -> None:
    found = sweep(run_of([True, False] * 15, logprobs=[[-0.1, -3.0, -4.0]] * 30), QUICK)
    assert found.separations[found.reference].auroc.value == 0.5
    assert found.curves[found.reference].acceptance.tolist() == [0.0, 1.0]
    drawn(found)


def test_the_main_k_is_the_one_that_most_drafts_have() -> None:
    rows = np.array([[-0.1, -3.0, -4.0, -4.5, -5.0 - i] for i in range(20)])
    rows[:12, 4] = np.nan
    assert sweep(run_of([True, False] * 10, logprobs=rows), SweepOptions(ks=[3, 4, 5], replicates=0)).k == 4


def test_pictures_and_page_need_nothing_else(swept: Sweep) -> None:
    charts = list(draw(swept))
    assert len({chart.name for chart in charts}) == len(charts) == 8
    for chart in charts:
        assert chart.png.startswith(b"\x89PNG")
        assert 1 <= chart.text.count(".") <= 6
        assert chart.figure.axes[0].get_xlabel()
    page = write_page(swept, charts)
    assert page.count("data:image/png;base64,") == 8
    assert "http" not in page
    assert "<script" not in page


def test_intervals_can_be_left_out() -> None:
    record = strict(sweep(lifelike(60), SweepOptions(replicates=0)))
    assert record["gates"][0]["auroc"]["value"] is not None
    assert record["gates"][0]["auroc"]["low"] is None


def test_progress_reaches_the_end_of_every_stage() -> None:
    told: dict[str, float] = {}
    sweep(lifelike(60), QUICK, progress=lambda stage, share: told.update({stage: share}))
    assert told["resampling"] == told["plans"] == 1.0


@pytest.mark.parametrize(
    "options", [{"screen_threshold": 1.5}, {"confidence": 1.0}, {"replicates": -1}, {"screen_threshold": math.nan}]
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        SweepOptions(**options)


@pytest.mark.parametrize("ks", [[], [0, 5], [21]])
def test_a_k_that_was_not_recorded_is_refused(ks: list[int]) -> None:
    with pytest.raises(ConfigError, match="between 1 and 20"):
        sweep(lifelike(30), SweepOptions(ks=ks))


@pytest.mark.parametrize(
    ("text", "ks"), [("5", (5,)), ("3-6", (3, 4, 5, 6)), ("10, 3-4,3", (3, 4, 10)), ("1-20", tuple(range(1, 21)))]
)
def test_a_choice_of_k_is_read(text: str, ks: tuple[int, ...]) -> None:
    assert parse_ks(text, 20) == ks


@pytest.mark.parametrize("text", ["", "x", "0", "5-3", "21", "3-21", "3--4", "-3", "1.5"])
def test_a_wrong_choice_of_k_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--k"):
        parse_ks(text, 20)


def test_default_ks_end_at_what_was_recorded() -> None:
    assert default_ks(64) == DEFAULT_KS
    assert default_ks(21) == (3, 5, 10, 20, 21)
    assert default_ks(2) == (2,)
    assert default_ks(0) == (0,)
    assert [setting.score for setting in gate_grid([0])] == ["logprob"] * 3
