"""The benchmark of closer looks: its counts on made answers, and the program once on the nano pair."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from speceyes.errors import ConfigError
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.types import AgentRun, Answer, Draft, Finish, Reason, Trace

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import depth

SAMPLES = make_samples(4, 1)
TIMEOUT_S = 540
LOOK_S, FALL_BACK_S, AGENT_S = 0.25, 0.75, 1.0


def answer(sample: Sample, reason: Reason, *, looks: int = 0, right: bool = True) -> Answer:
    text = sample.gold if right else "something else"
    closer = tuple(Draft(text, (), depth=i + 1) for i in range(looks))
    run = AgentRun(text, (), Finish.ANSWERED) if reason.route == "agent" else None
    seconds = {"look_closer": LOOK_S, "fall_back": FALL_BACK_S}
    return Answer(text, Trace(reason, run=run, seconds=AGENT_S, phase_seconds=seconds, closer=closer), sample.id)


def by_id(*answers: Answer) -> dict[str, Answer]:
    return {sample.id: one for sample, one in zip(SAMPLES, answers, strict=True)}


def test_what_looks_win_is_counted_over_what_the_first_look_left() -> None:
    """One question at a glance, one after a look, one after two, and one that the agent has to answer."""
    a, b, c, d = SAMPLES
    agent = by_id(*(answer(one, Reason.SPECULATION_OFF, right=one is not c) for one in SAMPLES))
    refused = [answer(one, Reason.BELOW_THRESHOLD) for one in (b, c, d)]
    at_glance = answer(a, Reason.ACCEPTED)
    once = [answer(b, Reason.ACCEPTED_CLOSER, looks=1, right=False), *refused[1:]]
    twice = [answer(b, Reason.ACCEPTED_CLOSER, looks=1), answer(c, Reason.ACCEPTED_CLOSER, looks=2), refused[2]]
    answers = {"agent": agent, "0 looks": by_id(at_glance, *refused)}
    answers |= {"1 look": by_id(at_glance, *once), "2 looks": by_id(at_glance, *twice)}
    took = {"agent": [4.0, 2.0], "0 looks": [4.0, 1.0], "1 look": [2.0, 1.0], "2 looks": [1.0, 1.0]}
    row = depth.figures("mixed", SAMPLES, answers, took)
    arms = row["arms"]
    assert [arm["accepted_at"] for arm in arms.values()] == [
        [0, 0, 0],
        [0.25, 0, 0],
        [0.25, 0.25, 0],
        [0.25, 0.25, 0.25],
    ]
    assert [arm["accuracy"]["count"] for arm in arms.values()] == [3, 4, 3, 4]
    assert [arm["speedup"]["median"] for arm in arms.values()] == [1.0, 1.5, 2.0, 3.0]
    assert [len(arm["looks"]) for arm in arms.values()] == [0, 0, 1, 2]
    (look,) = arms["1 look"]["looks"]
    assert (look["left"], look["won"]["count"], look["won"]["of"]) == (3, 1, 3)
    assert (look["accuracy"]["value"], look["agent_accuracy"]["value"]) == (0.0, 1.0)
    assert (look["look_s"], look["agent_s"], look["fall_back_s"]) == (LOOK_S, AGENT_S, FALL_BACK_S)
    first, second = arms["2 looks"]["looks"]
    assert [part["won"]["count"] for part in (first, second)] == [1, 1]
    assert (second["accuracy"]["value"], second["agent_accuracy"]["value"]) == (1.0, 0.0)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(depth.report({"rows": [row]}))
    assert "33%, 33%" in console.export_text()


def test_where_looks_win_nothing_there_is_no_figure() -> None:
    refused = by_id(*(answer(one, Reason.BELOW_THRESHOLD) for one in SAMPLES))
    found = depth.won(SAMPLES, {"agent": refused, "0 looks": refused, "1 look": refused}, "1 look", 1)
    assert (found["left"], found["won"]["count"]) == (4, 0)
    assert [found[name] for name in ("accuracy", "agent_accuracy", "look_s", "agent_s", "fall_back_s")] == [None] * 5


def test_a_missing_calibration_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(depth, "nano_calibration_file", lambda looks: tmp_path / f"of-{looks}.json")
    with pytest.raises(ConfigError, match=r"of-0\.json.*of-2\.json.*--threshold"):
        depth.calibrations(None)
    assert {gate.threshold for gate in depth.calibrations(4.0).values()} == {4.0}


@pytest.mark.usefixtures("nano_draft_server", "nano_agent_server")  # they say it best if the models are missing
def test_it_runs(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPECEYES_")}
    options = ("--questions", "4", "--rounds", "1", "--threshold", "4", "--json", str(tmp_path / "new" / "depth.json"))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.depth", *options],
        cwd=Path(__file__).parents[1], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    record = json.loads((tmp_path / "new" / "depth.json").read_text())
    assert [row["traffic"] for row in record["rows"]] == list(depth.TRAFFIC)
    for row in record["rows"]:
        assert (row["questions"], row["parts"]) == (4, 4)
        assert list(row["arms"]) == ["agent", "0 looks", "1 look", "2 looks"]
        assert row["arms"]["agent"]["accepted_at"] == [0, 0, 0]
        accepted = [arm["accepted_at"] for arm in row["arms"].values()]
        assert accepted[1][0] == accepted[2][0] == accepted[3][0], "all arms take the same first look"
        assert all(arm["speedup"]["n"] == 4 for arm in row["arms"].values())
    assert "times the agent" in done.stdout
