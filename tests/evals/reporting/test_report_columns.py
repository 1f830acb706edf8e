"""The table's columns and figures: parts, means, and agreement with the run's own summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_eval_runs import failed, make_run
from speceyes.errors import DatasetError, InputError
from speceyes.evals.reporting import Study, judge, report_json, study
from speceyes.evals.reporting.comparisons import paired_table
from speceyes.evals.reporting.tables import law_table, main_table, not_comparable
from speceyes.evals.reporting.verdict import Accuracy
from speceyes.evals.runs import Result


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Study:
    base = tmp_path_factory.mktemp("runs")
    runs = [
        make_run(base / "v", "vstar", 40),
        make_run(base / "h", "hrbench", 40, name="data/hr_bench_4k"),
        make_run(base / "p", "pope", 45),
    ]
    return study(runs)


def test_columns_are_those_of_the_published_table(three: Study) -> None:
    names = [(column.name, column.key) for column in three.columns]
    assert names == [
        ("V* attributes", "vstar/direct_attributes"),
        ("V* positions", "vstar/relative_position"),
        ("V* all", ""),
        ("HR-Bench 4K", "hrbench/4k"),
        ("POPE adversarial", "pope/adversarial"),
        ("POPE popular", "pope/popular"),
        ("POPE random", "pope/random"),
        ("POPE all", ""),
    ]
    parts = [set(column.ids) for column in three.columns[:2]]
    assert parts[0] | parts[1] == set(three.columns[2].ids)
    assert not parts[0] & parts[1]


def test_whole_columns_agree_with_the_summary(three: Study) -> None:
    for place, column in enumerate(three.columns):
        if not column.timed:
            continue
        for system in three.systems:
            found = three.summaries[column.run]["systems"][system]
            share = three.accuracy(place, system)
            assert share.as_json() == {name: found["accuracy"][name] for name in ("value", "low", "high")}
            if system != "agent":
                assert three.speedup(place, system).value == found["speedup"]["value"]
                ratio = three.speeds[place].values[three.systems.index(system)]
                assert ratio == pytest.approx(found["speedup"]["value"])
    assert three.speedup(3, "agent").as_json() == {"value": 1.0, "low": None, "high": None}


def test_parts_are_timed_by_their_questions(three: Study) -> None:
    run, ids = three.runs[0], three.columns[0].ids
    spent = {name: sum(run.answers[name][one].seconds or 0 for one in ids) for name in ("agent", "speceyes")}
    assert three.speedup(0, "speceyes").value == pytest.approx(spent["agent"] / spent["speceyes"])
    assert three.speedup(0, "speceyes").bounded


def test_the_mean_is_unweighted_and_over_parts(three: Study) -> None:
    assert [three.columns[place].name for place in three.averaged] == [
        "V* attributes",
        "V* positions",
        "HR-Bench 4K",
        "POPE adversarial",
        "POPE popular",
        "POPE random",
    ]
    for system in three.systems:
        shares = [three.accuracy(place, system).value for place in three.averaged]
        speeds = [three.speedup(place, system).value for place in three.averaged]
        mean = three.mean_accuracy(system)
        assert mean.value == pytest.approx(np.mean(shares))  # type: ignore[arg-type]
        assert three.mean_speedup(system).value == pytest.approx(np.mean(speeds))  # type: ignore[arg-type]
        assert mean.low is not None
        assert mean.low <= mean.value <= mean.high  # type: ignore[operator]
    compared = three.compared
    assert compared is not None
    assert compared.questions == 125
    assert compared.difference.value == pytest.approx(
        three.mean_accuracy("speceyes").value - three.mean_accuracy("agent").value  # type: ignore[operator]
    )


def test_published_figures_stand_in_their_own_columns(three: Study) -> None:
    ours, theirs = main_table(three).sections
    assert not ours.published
    assert theirs.published
    assert "measured by others" in theirs.title
    row = next(row for row in theirs.rows if row.name == "SpecEyes on DeepEyes")
    assert [(cell.text, cell.more) for cell in row.cells] == [
        ("90.43", "1.53×"),
        ("89.47", "1.90×"),
        ("–", ""),
        ("75.85", "1.13×"),
        ("85.13", "2.13×"),
        ("87.00", "2.15×"),
        ("90.13", "2.19×"),
        ("–", ""),
        # The published mean is over seven columns, and HR-Bench 8K is not among these.
        ("–", ""),
    ]


def test_laws_stand_beside_the_measured_speedup(three: Study) -> None:
    for row, summary in zip(law_table(three).rows, three.summaries, strict=True):
        law = summary["law"]
        assert row.cells[0].text == f"{law['measured']['value']:.2f}×"
        assert row.cells[1].text == f"{law['honest']:.2f}×"
        assert row.cells[3].text == f"{100 * law['beta']:.1f}"


def test_pairs_are_read_the_right_way_round(tmp_path: Path) -> None:
    """SpecEyes is right on every question and the agent on none."""

    def change(result: Result) -> Result:
        return replace(result, right=result.system == "speceyes")

    found = study([make_run(tmp_path / "run", count=20, systems=("agent", "speceyes"), change=change)])
    (row,) = paired_table(found).rows
    assert row.name == "SpecEyes against Agent alone"
    assert [cell.text for cell in row.cells] == [
        "0",
        "20",
        "0",
        "0",
        "+100.0",
        "<\u00a00.001",
        "SpecEyes is right more often",
    ]
    verdict = judge(found.compared)
    assert verdict.accuracy is Accuracy.BETTER
    assert "100.0 % against 0.0 %" in verdict.sentence


def test_forty_questions_without_a_difference_prove_little(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        return replace(result, right=True)

    found = study([make_run(tmp_path / "run", count=40, systems=("agent", "speceyes"), change=change)])
    assert found.compared is not None
    assert found.compared.difference.value == 0.0
    assert found.compared.difference.low == pytest.approx(-0.066, abs=0.001)
    assert judge(found.compared).accuracy is Accuracy.OPEN
    (row,) = paired_table(found).rows
    assert row.cells[4].note == "−6.6 to +6.6"


def test_failed_questions_count_as_wrong(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        return failed(result) if result.system == "agent" else replace(result, right=True)

    found = study([make_run(tmp_path / "run", count=20, systems=("agent", "speceyes"), change=change)])
    assert found.accuracy(found.whole(0), "agent").value == 0.0
    assert found.compared is not None
    assert found.compared.errors == 1.0
    assert "No verdict" in judge(found.compared).sentence
    assert found.speedup(found.whole(0), "speceyes").value is None
    report_json(found)


def test_nano_data_is_not_comparable(tmp_path: Path, three: Study) -> None:
    assert not_comparable(three) == ""
    scenes = study([make_run(tmp_path / "a", "nano", 10, name="nano:10:0")])
    models = study([make_run(tmp_path / "b", "vstar", 10, models="nano")])
    for found in (scenes, models):
        assert "cannot be compared with the published ones" in not_comparable(found)
        assert report_json(found)["published"]["comparable"] is False
    assert len(main_table(scenes).sections) == 1


def test_two_runs_of_one_set_are_told_apart(tmp_path: Path) -> None:
    found = study([make_run(tmp_path / "first", count=10), make_run(tmp_path / "second", count=10)])
    assert found.labels == ("V* (first)", "V* (second)")


def test_systems_that_only_some_runs_have(tmp_path: Path) -> None:
    found = study(
        [make_run(tmp_path / "a", "vstar", 20, ("agent", "speceyes")), make_run(tmp_path / "b", "pope", 30, ("agent",))]
    )
    assert found.systems == ("agent", "speceyes")
    assert found.compared is None
    cells = {row.name: row.cells for row in main_table(found).rows if row.system}
    assert cells["SpecEyes"][-1].text == "–"
    assert cells["SpecEyes"][-2].text == "–"
    assert cells["Agent alone"][-1].text != "–"


def test_folders_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"run\.json"):
        study([tmp_path])
    run = make_run(tmp_path / "run", count=10)
    with pytest.raises(InputError, match="twice"):
        study([run, tmp_path / "." / "run"])
