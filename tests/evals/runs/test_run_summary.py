"""The figures of a run, by hand: rows made up so that each figure is known beforehand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_run_format import header

from speceyes.evals.runs import EvalRun, Judged, Lap, Result, Sample, summarise
from speceyes.evals.runs.format import DatasetFacts, Session, UsageLine
from speceyes.gating import wilson

N = 20
IDS = [f"q{i:02d}" for i in range(N)]


def samples(**changes: Any) -> list[Sample]:
    """Two questions about each picture, two categories."""
    return [
        Sample(one, f"{one}?", gold="A", options=("x", "y"), category="ab"[i % 2], image_name=f"p{i // 2}", **changes)
        for i, one in enumerate(IDS)
    ]


def agent_row(i: int) -> Result:
    """Right in 16 of 20, one tool call in the odd ones, 1 s and 0.5 s more for the call."""
    depth = i % 2
    usage = {"agent": UsageLine(100, 10, 50, 1 + depth)}
    return Result(
        "agent", IDS[i], i // 5, "A", "A", "letter", i >= 4, None, 1.0 + 0.5 * depth, "agent", "forced_agent",
        depth=depth, finish="answered", phase_seconds={"fall_back": 1.0 + 0.5 * depth}, usage=usage,
    )  # fmt: skip


def speceyes_row(i: int) -> Result:
    """Screening stops five, the gate refuses five, ten are accepted; right in 18."""
    phases = {"screen": 0.1} if i < 5 else {"screen": 0.1, "speculate": 0.2}
    route, reason = ("draft", "accepted") if i >= 10 else ("agent", "tool_would_help" if i < 5 else "below_threshold")
    if route == "agent":
        phases |= {"fall_back": 1.0}
    seconds = sum(phases.values()) + 0.05  # the first look
    return Result(
        "speceyes", IDS[i], i // 5, "A", "A", "letter", i >= 2, None, seconds, route, reason, 3.0, 0.9, 2.0, 0.1, 0,
        phase_seconds=phases, usage={"agent": UsageLine(10, 1, None, 1), "draft": UsageLine(None, 1, None, 1)},
    )  # fmt: skip


def made(**changes: Any) -> EvalRun:
    laps = [Lap(name, block, 1, 5, seconds, right=4) for name, seconds in (("agent", 6.0), ("speceyes", 3.0)) for block in range(4)]  # fmt: skip  # noqa: E501
    head = header(
        dataset=DatasetFacts("set", "vstar", "sha256:1", N, N, 0), systems=("agent", "speceyes"), blocks=4,
        sessions=(Session("2026", "speceyes eval", {}, {}, "2026"),),
    )  # fmt: skip
    run = EvalRun(
        Path("none"), head, samples(),
        {"agent": [agent_row(i) for i in range(N)], "speceyes": [speceyes_row(i) for i in range(N)]}, laps, {},
    )  # fmt: skip
    return replace(run, **changes)


def figures(**changes: Any) -> dict[str, Any]:
    found = summarise(made(**changes))
    return json.loads(json.dumps(found, allow_nan=False))  # type: ignore[no-any-return]


def test_systems() -> None:
    found = figures()
    agent, speceyes = found["systems"]["agent"], found["systems"]["speceyes"]
    low, high = wilson(16, 20)
    assert agent["accuracy"] == {"value": 0.8, "low": low, "high": high, "successes": 16, "n": 20}
    assert agent["accuracy_answered"] == agent["accuracy"]
    assert (agent["n"], agent["errors"], agent["answered"], agent["unparsed"]) == (20, 0, 20, 0)
    assert {name: share["successes"] for name, share in agent["categories"].items()} == {"a": 8, "b": 8}
    assert agent["seconds"]["mean"] == 1.25
    assert (agent["wall_seconds"], speceyes["wall_seconds"]) == (24.0, 12.0)
    assert speceyes["speedup"] == {"value": 2.0, "low": 2.0, "high": 2.0, "blocks": 4}
    assert agent["speedup"]["value"] == 1.0
    assert speceyes["acceptance"] == 0.5
    assert speceyes["reasons"] == {"accepted": 10, "tool_would_help": 5, "below_threshold": 5}
    assert agent["depth"] == 0.5
    assert agent["tokens"] == {"agent": {"prompt": 2000, "completion": 200, "cached": 1000, "calls": 30}}
    assert speceyes["tokens"]["draft"]["prompt"] is None
    assert agent["finishes"] == {"answered": 20}
    assert found["complete"] is True
    own = sum(speceyes_row(i).seconds or 0.0 for i in range(N))
    assert speceyes["latency_speedup"] == pytest.approx(20 * 1.25 / own)


def test_pairs() -> None:
    (pair,) = figures()["pairs"]
    assert (pair["first"], pair["second"], pair["n"]) == ("agent", "speceyes", 20)
    assert (pair["both"], pair["only_first"], pair["only_second"], pair["neither"]) == (16, 0, 2, 2)
    assert pair["mcnemar_p"] == 0.5
    assert pair["difference"]["value"] == pytest.approx(0.1)
    assert 0.0 <= pair["difference"]["low"] <= 0.1 <= pair["difference"]["high"]


def test_the_laws_take_their_costs_from_the_run() -> None:
    law = figures()["law"]
    assert (law["beta"], law["alpha"], law["acceptance"]) == (0.75, pytest.approx(2 / 3), 0.5)
    assert law["ideal"] == pytest.approx(2.0)
    costs = law["costs"]
    assert costs["screen"] == pytest.approx(0.15)  # the first look is in it
    assert costs["draft"] == pytest.approx(0.2)
    assert costs["agent"] == 1.25
    assert law["honest"] == pytest.approx(1.25 / (0.15 + 0.75 * 0.2 + 0.5 * 1.25))
    assert law["measured"]["value"] == 2.0


def test_depth() -> None:
    depth = figures()["depth"]
    assert depth["base"]["value"] == pytest.approx(1.0)
    assert depth["per_call"]["value"] == pytest.approx(0.5)
    assert depth["n"] == 20


def test_failures_are_wrong_and_their_blocks_have_no_speed() -> None:
    run = made()
    rows = [agent_row(i) for i in range(N)]
    rows[7] = Result("agent", IDS[7], 1, error="EngineTimeout: slow", right=False, how="error")
    laps = [
        replace(lap, errors=1, seconds=600.0) if (lap.system, lap.block) == ("agent", 1) else lap for lap in run.laps
    ]
    found = figures(results={**run.results, "agent": rows}, laps=laps)
    agent = found["systems"]["agent"]
    assert (agent["n"], agent["errors"], agent["answered"], agent["unparsed"]) == (20, 1, 19, 0)
    assert agent["accuracy"]["successes"] == 15
    assert (agent["accuracy"]["n"], agent["accuracy_answered"]["n"]) == (20, 19)
    assert found["systems"]["speceyes"]["speedup"] == {"value": 2.0, "low": 2.0, "high": 2.0, "blocks": 3}
    assert any("agent: 1 of 20 queries failed" in note for note in found["notes"])


def test_without_right_answers_there_is_no_accuracy() -> None:
    run = made()
    unknown = {name: [replace(row, right=None) for row in rows] for name, rows in run.results.items()}
    found = figures(results=unknown, samples=[replace(sample, gold=None) for sample in run.samples])
    assert found["systems"]["agent"]["accuracy"]["value"] is None
    assert found["pairs"] == []
    assert found["systems"]["speceyes"]["speedup"]["value"] == 2.0


def test_a_run_that_has_just_begun_has_figures_too() -> None:
    found = figures(results={"agent": [agent_row(0)], "speceyes": []}, laps=[])
    assert found["complete"] is False
    assert found["law"] is None
    assert found["systems"]["speceyes"]["accuracy"]["value"] is None
    assert found["systems"]["speceyes"]["wall_seconds"] is None
    assert found["pairs"] == []
    nothing = figures(results={"agent": [], "speceyes": []}, laps=[])
    assert nothing["depth"] is None


def test_levels_batches_and_the_lot() -> None:
    run = made()
    more = [replace(lap, concurrency=4, seconds=lap.seconds / (2 if lap.system == "agent" else 4)) for lap in run.laps]
    front = [Lap("stateless", block, size, 10, 8.0 / size) for size in (1, 2) for block in range(2)]
    judged = {one: Judged(one, "accepted", 0.1, 3.0, i >= 5, i >= 10) for i, one in enumerate(IDS)}
    random = [replace(speceyes_row(i), system="random", route="draft" if i % 2 else "agent") for i in range(N)]
    found = figures(
        header=replace(run.header, concurrency=(1, 4), systems=("agent", "speceyes", "random")),
        results={**run.results, "random": random},
        laps=[*run.laps, *more, *front],
        judged=judged,
    )
    assert [level["concurrency"] for level in found["load"]] == [1, 4]
    assert [level["systems"]["speceyes"]["speedup"]["value"] for level in found["load"]] == [2.0, 4.0]
    assert found["load"][1]["systems"]["agent"]["accuracy"] == 0.8
    assert found["systems"]["speceyes"]["wall_seconds"] == 12.0, "of the first concurrency only"
    assert [(size["in_flight"], size["queries"]) for size in found["batch"]] == [(1, 20), (2, 20)]
    assert found["batch"][1]["seconds_a_query"]["value"] == pytest.approx(0.4)
    assert found["random"] == {
        "let_through": 15,
        "accepted": 10,
        "share": 0.5,
        "speceyes_share": 0.5,
        "realised_share": 0.5,
    }
    assert found["systems"]["random"]["speedup"]["value"] is None
    assert len(found["pairs"]) == 3


def test_short_blocks_are_told() -> None:
    run = made()
    found = figures(header=replace(run.header, concurrency=(1, 8)))
    assert any("The longest block has 5 questions, so 8 at a time" in note for note in found["notes"])


def test_the_sets_own_figures() -> None:
    run = made()
    pope = replace(run.header, dataset=replace(run.header.dataset, kind="pope"))
    yes = [replace(sample, gold="yes", options=()) for sample in run.samples]
    said = {name: [replace(row, parsed="yes", right=True) for row in rows] for name, rows in run.results.items()}
    metrics = figures(header=pope, samples=yes, results=said)["systems"]["agent"]["metrics"]["pope"]
    assert (metrics["recall"], metrics["yes_ratio"]) == (1.0, 1.0)
    assert set(metrics["splits"]) == {"a", "b"}
    hr = replace(run.header, dataset=replace(run.header.dataset, kind="hrbench"))
    turns = [replace(s, group=f"g{i // 4}", category="single") for i, s in enumerate(run.samples)]
    found = figures(header=hr, samples=turns)["systems"]["agent"]["metrics"]["rotations"]
    assert found["each_rotation"]["value"] == 0.8
    assert found["all_rotations"]["value"] == 0.8  # the four wrong ones are the turns of one question
