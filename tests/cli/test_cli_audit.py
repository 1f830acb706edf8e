"""`speceyes audit`: a state in plain language, a simulation, a replay."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Run

from speceyes.cli.audit_report import percent
from speceyes.evals.records import Asked, DatasetFacts, ImageFacts, Manifest, Observed, RunWriter, make_row
from speceyes.gating import Calibration
from speceyes.gating.audit import Audited, AuditPlan, Reference, Served, begin, dump, step
from speceyes.types import AgentRun, Draft, Finish, Screening, Token, Turn, Usage


def state_file(path: Path, losses: list[bool | None], **settings: Any) -> Path:
    reference = Reference(n=1000, screened=700, accepted=(500, 300), score_edges=(5.0,), score_counts=(350, 350, 0))
    plan = AuditPlan(**({"thresholds": (4.0, 5.0), "alpha": 0.02, "reference": reference} | settings))
    state = begin(plan)
    for index, loss in enumerate(losses):
        score = 4.5 + index % 2
        state, _ = step(state, Served(accepted=True, level=state.level, screened=True, drafted=True, score=score))
        if state.threshold is not None:
            state, _ = step(state, Audited(loss=loss, level=state.level, at="2026-11-30T12:00:00Z"))
    path.write_text(dump(state))
    return path


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_state_says_what_was_promised_seen_and_how_far_the_alarm_is(run: Run, tmp_path: Path) -> None:
    file = state_file(tmp_path / "state.json", [*[False] * 60, True, None])
    result = run("audit", "show", file)
    said = words(result.stdout)
    assert result.exit_code == 0
    assert "At most 2 % of the accepted answers differ from the agent's." in said
    assert "Threshold 4, never tightened." in said
    assert "61 accepted queries also went to the agent, 1 of them lost: 1.6 %." in said
    assert "1 more have no result" in said
    assert "alarm at 40" in said
    assert "2 losses in a row would raise an alarm now" in said or "3 losses in a row" in said
    assert "is above the calibration's" in said
    assert run("audit", file).stdout == result.stdout


def test_the_same_as_json(run: Run, tmp_path: Path) -> None:
    file = state_file(tmp_path / "state.json", [*[False] * 60, True, None])
    result = run("audit", file, "--json", "-")
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    assert (found["audited"], found["losses"], found["missing"], found["level"]) == (61, 1, 1, 0)
    assert found["interval"][0] < 1 / 61 < found["interval"][1]


def test_alarms_are_told_with_their_time(run: Run, tmp_path: Path) -> None:
    file = state_file(tmp_path / "state.json", [True] * 40)
    said = words(run("audit", "show", file).stdout)
    assert "the gate accepts nothing, and the agent answers all" in said
    assert "The test raised an alarm at threshold 4 (2026-11-30T12:00:00Z)" in said
    empty = state_file(tmp_path / "empty.json", [], thresholds=(), reference=None)
    assert "No threshold is certified" in words(run("audit", "show", empty).stdout)


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "not strict JSON"), ("{}", "holds no audit's state"), (None, "No such file"), (b"\xff", "cannot read")],
)
def test_what_is_no_state_ends_with_code_2(run: Run, tmp_path: Path, content: str | bytes | None, said: str) -> None:
    path = tmp_path / "state.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = run("audit", "state.json")
    assert result.exit_code == 2
    assert said in result.stderr
    assert "state.json" in result.stderr
    assert result.stdout == ""


def test_a_simulation_at_ones_own_traffic(run: Run, tmp_path: Path) -> None:
    picture, figures = tmp_path / "delays.png", tmp_path / "out.json"
    flags = ("--alpha", 0.05, "--rate", 0.5, "--after", 50, "--streams", 60, "--horizon", 400, "--qps", 0.1)
    result = run("audit", "simulate", *flags, "--out", picture, "--json", figures)
    assert result.exit_code == 0, result.stderr
    said = words(result.stdout)
    assert "Without a fault, at a loss rate of 5 %, the worst case" in said
    assert "days at your traffic" in said
    assert "The audit costs about 216 agent runs a day." in said
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = json.loads(figures.read_text(), parse_constant=pytest.fail)
    assert found["audits_a_day"] == pytest.approx(0.1 * 86_400 * 0.5 * 0.05)
    assert [one["world"]["begins"] for one in found["detections"]] == [0, 50]
    assert all(one["either"]["found"] == 1.0 for one in found["detections"])


def test_without_traffic_there_are_no_days(run: Run) -> None:
    result = run("audit", "simulate", "--alpha", 0.05, "--rate", 0.06, "--streams", 5, "--horizon", 50)
    assert "days" not in result.stdout.replace("told in days", "")
    assert "later" in result.stdout


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--alpha", 0), "alpha = 0"),
        (("--share", 0), "share = 0"),
        (("--per-day", 5, "--qps", 1), "say the same"),
        (("--per-day", -5), "must be a positive number"),
        (("--accept", 0), "--accept 0"),
        (("--healthy", 0.5), "healthy"),
        (("--rate", 1.5), "rates between 0 and 1"),
        (("--json", "no/where.json"), "there is no folder no"),
        (("--out", "no/where.png", "--streams", 2, "--horizon", 9), "no/where.png"),
        (("--out", "delays.txt", "--streams", 2, "--horizon", 9), "delays.txt"),
    ],
)
def test_what_cannot_be_simulated_ends_with_code_2(run: Run, flags: tuple[object, ...], said: str) -> None:
    result = run("audit", "simulate", *flags)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_missing_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "speceyes.evals.audit_picture", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    result = run("audit", "simulate", "--out", "delays.png")
    assert result.exit_code == 2
    assert "pip install 'speceyes[evals]'" in result.stderr


def recorded(folder: Path, *, wrong: set[int], queries: int) -> Path:
    """A run in which every draft is sure, and differs from the agent's answer where `wrong` says so."""
    facts = DatasetFacts(name="made", kind="made", digest="sha256:0", samples=queries)
    bound_to = {"draft_model": "small", "agent_model": "large"}
    with RunWriter(folder, Manifest(dataset=facts, bound_to=bound_to, k=3)) as writer:
        for index in range(queries):
            token = Token("7", -0.1, (-0.1, -4.0, -6.0), ("7", "8", "9"))
            seen = Observed(
                Screening(0.1, 0.9, Usage(), 0.1),
                Draft("7", (token,), None, Usage(), 0.1),
                AgentRun("8" if index in wrong else "7", (Turn(0, "done"),), Finish.ANSWERED, Usage(), 1.0),
                seconds={"look": 0.01},
            )
            image = ImageFacts("ab" * 32, (64, 64), 1)
            asked = Asked(f"q{index}", index, "Which number?", [image], options=(), gold=None, category="")
            writer.write_rows([make_row(asked, seen, recorded_at=0.0)])
    return folder


def test_a_folder_is_a_run_to_be_replayed(run: Run, tmp_path: Path) -> None:
    folder = recorded(tmp_path / "run", wrong={20, 21, 22, 23}, queries=40)
    Calibration.manual(2.0, score="margin", k=3, draft_model="small").save(tmp_path / "by-hand.json")
    state = tmp_path / "state.json"
    flags = ("--calibration", tmp_path / "by-hand.json", "--alpha", 0.02, "--state", state)
    result = run("audit", folder, *flags)
    assert result.exit_code == 0, result.stderr
    said = words(result.stdout)
    assert "23 of 40 recorded queries were accepted" in said
    assert "query 23: The test raised an alarm at threshold 2: 3 of 23 audited queries lost." in said
    assert "query 23: The gate accepts nothing from now on." in said
    assert words(run("audit", "show", state).stdout) in said
    found = json.loads(run("audit", "replay", folder, *flags, "--json", "-").stdout, parse_constant=pytest.fail)
    assert [event["event"] for event in found["events"]] == ["Alarm", "Tightened"]
    assert (found["accepted"], found["audit"]["level"]) == (23, 1)


def test_a_replay_needs_a_run_a_calibration_and_a_limit(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    Calibration.manual(2.0, score="margin", k=3).save(tmp_path / "by-hand.json")
    for flags, said in (
        (("run", "--calibration", "none.json"), "none.json"),
        (("run", "--calibration", "by-hand.json"), "promises nothing"),
        (("run", "--calibration", "by-hand.json", "--alpha", 0.1), "run"),
        (("run", "--calibration", "by-hand.json", "--alpha", 0.1, "--risk", "regret"), "risk = 'regret'"),
    ):
        result = run("audit", *flags)
        assert result.exit_code == 2
        assert said in result.stderr


def test_shares_for_people() -> None:
    shown = {0.0: "0 %", 1.0: "1", 0.02: "2 %", 0.0035: "0.35 %", 0.5: "50 %", 0.123: "12 %", 0.00002: "0.002 %"}
    assert {share: percent(share) for share in shown} == shown | {1.0: "100 %"}
