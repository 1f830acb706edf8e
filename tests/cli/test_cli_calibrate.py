"""`speceyes calibrate`: from a folder of records to a file that the gate takes, or does not."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from command_line import Run

from speceyes.evals.datasets.scenes import draw_scene, make_scene
from speceyes.evals.datasets.seeds import TEST
from speceyes.evals.records import Asked, DatasetFacts, Manifest, Observed, RunWriter, load_run, make_row
from speceyes.gating import Calibration, fingerprint
from speceyes.types import AgentRun, Draft, Finish, Screening, Token

WORDS = ("red", "blue")


def recorded(folder: Path, n: int, lost: float, seed: int = 0) -> Path:
    """A run of n questions. Of the sure drafts none is wrong, of the others so many: the agent is always right."""
    manifest = Manifest(
        dataset=DatasetFacts(name="made", kind="made", digest="sha256:0", samples=n),
        bound_to={
            "draft_model": "small",
            "agent_model": "large",
            "draft_prompt": fingerprint("a"),
            "screen_prompt": fingerprint("b"),
            "agent_prompt": fingerprint("c"),
            "logprob_mode": "raw",
        },
        k=8,
    )
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        sure = rng.random() < 0.6
        gold, other = rng.sample(WORDS, 2)
        said = gold if sure or rng.random() >= lost else other
        gap = rng.uniform(8.0, 12.0) if sure else rng.uniform(2.0, 6.0)
        top = (-0.01, *(-gap - 0.5 * step for step in range(7)))
        rows.append(
            make_row(
                Asked(f"q{i}", i, "Which?", gold=gold),
                Observed(
                    Screening(0.1, 0.8, seconds=0.1),
                    Draft(said, (Token(said, top[0], top),), seconds=0.1),
                    AgentRun(gold, (), Finish.ANSWERED, seconds=1.0),
                    seconds={"screen": 0.1, "draft": 0.1, "agent": 1.0},
                ),
            )
        )
    with RunWriter(folder, manifest) as writer:
        writer.write_rows(rows)
    return folder


def test_a_threshold(tmp_path: Path, run: Run) -> None:
    folder = recorded(tmp_path / "run", 800, lost=0.5)
    result = run(
        "calibrate", folder, "-o", "gate.json", "--alpha", "0.02", "--report", "gate.html", "--json", "all.json"
    )
    assert result.exit_code == 0, result.output
    made = Calibration.load("gate.json")
    assert made.feasible
    assert (made.k, made.alpha, made.delta, made.method) == (8, 0.02, 0.05, "split")
    assert made.data == load_run(folder).digest
    assert "at most 2 in 100" in result.stdout
    assert "wrote gate.json" in result.stdout
    assert "What this calibration promises" in Path("gate.html").read_text()
    record = json.loads(Path("all.json").read_text(), parse_constant=pytest.fail)
    assert record["feasible"] is True
    assert record["digest"] == made.digest
    assert record["need"] is None
    assert Calibration(**record["calibration"]) == made
    assert [step["threshold"] for step in record["steps"] if step["certified"]][-1] == made.threshold


def test_infeasible_is_exit_code_3_and_a_file_that_accepts_nothing(tmp_path: Path, run: Run) -> None:
    folder = recorded(tmp_path / "run", 60, lost=0.5)
    result = run("calibrate", folder, "-o", "gate.json", "--json", "-")
    assert result.exit_code == 3
    record = json.loads(result.stdout, parse_constant=pytest.fail)
    assert record["feasible"] is False
    assert record["need"]["more_records"] > 0
    assert record["need"]["carried"]["excess"] > 0.02
    made = Calibration.load("gate.json")
    assert (made.threshold, made.feasible) == (None, False)


def test_several_risks_and_another_method(tmp_path: Path, run: Run) -> None:
    folder = recorded(tmp_path / "run", 900, lost=0.5)
    words = ["--risk", "error:0.05", "--risk", "disagreement", "--alpha", "0.1", "--delta", "0.1"]
    result = run("calibrate", folder, "-o", "gate.json", *words, "--method", "fixed-sequence", "--k", "5")
    assert result.exit_code == 0, result.output
    made = Calibration.load("gate.json")
    assert [(promise.risk, promise.alpha) for promise in made.promises] == [("error", 0.05), ("disagreement", 0.1)]
    assert (made.k, made.alpha, made.delta, made.method, made.n_tuning) == (5, 0.05, 0.1, "fixed-sequence", 0)
    # ... and the next calibration tests these thresholds again, on fresh records
    fresh = recorded(tmp_path / "fresh", 900, lost=0.5, seed=1)
    again = run(
        *("calibrate", fresh, "-o", "next.json", *words, "--method", "fixed-sequence", "--k", "5"),
        *("--sequence", "gate.json"),
    )
    assert again.exit_code == 0, again.output
    old = {passed.threshold for passed in made.certified}
    assert {passed.threshold for passed in Calibration.load("next.json").certified} <= old


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--risk", "loss"], "excess, disagreement, error"),
        (["--risk", "excess:0"], "between 0 and 1"),
        (["--alpha", "2"], "between 0 and 1"),
        (["--delta", "0"], "delta is 0"),
        (["--method", "best"], "split, fixed-sequence"),
        (["--split", "1"], "one part would be empty"),
        (["--k", "64"], "8 were recorded"),
        (["--max-depth", "1"], "record with --max-depth 1"),
        (["--score", "sep"], "no score"),
        (["--sequence", "none.json"], "none.json"),
        (["--report", "."], "that is a folder"),
        (["--json", "none/all.json"], "no folder"),
    ],
)
def test_what_is_refused(tmp_path: Path, run: Run, words: list[str], says: str) -> None:
    folder = recorded(tmp_path / "run", 20, lost=0.5)
    result = run("calibrate", folder, "-o", "gate.json", *words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert not Path("gate.json").exists()


def test_no_run(run: Run) -> None:
    result = run("calibrate", "nowhere", "-o", "gate.json")
    assert result.exit_code == 2
    assert "nowhere" in result.stderr


def test_with_the_nano_pair_from_records_to_an_answer(tmp_path: Path, run: Run) -> None:
    """Recorded, calibrated, asked; and another prompt or depth is refused. So few records carry a weak promise only."""
    assert run("record", "nano:24:5@calibration", "-o", "run", "--max-depth", 1).exit_code == 0
    weak = ["--alpha", "0.6", "--delta", "0.4", "--screen-threshold", "0.9", "--method", "fixed-sequence"]
    made = run("calibrate", "run", "-o", "gate.json", *weak, "--max-depth", 0)
    assert made.exit_code == 0, made.output
    deeper = run("calibrate", "run", "-o", "deeper.json", *weak, "--json", "-")
    assert deeper.exit_code == 0, deeper.output
    depths = json.loads(deeper.stdout)["depths"]
    assert [one["depth"] for one in depths] == [0, 1]
    assert sum(one["accepted"] for one in depths) == Calibration.load("deeper.json").accepted
    draw_scene(make_scene(TEST)).save("scene.png")
    question = ("ask", "scene.png", "Is there a red sign?", "--calibration", "gate.json")
    answer = run(*question, "--json", "-")
    assert answer.exit_code == 0, answer.output
    record = json.loads(answer.stdout)
    assert record["answer"]
    assert record["reason"] != "infeasible"
    refused = run(*question, "--set", "draft.prompt=Say what you see.")
    assert refused.exit_code == 2
    assert "draft_prompt" in refused.stderr
    assert "made for something else" in refused.stderr
    looking = [*question[:-1], "deeper.json", "--max-depth", 1]
    assert run(*looking).exit_code == 0
    for words, said in (
        ((*question[:-1], "deeper.json"), "1, in use is 0"),
        ([*question, "--max-depth", 1], "0, in use is 1"),
    ):
        refused = run(*words)
        assert refused.exit_code == 2
        assert f"max_depth: calibrated for {said}" in refused.stderr


def test_without_scipy(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded(tmp_path / "run", 20, lost=0.5)
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    result = run("calibrate", folder, "-o", "gate.json")
    assert result.exit_code == 2
    assert "pip install 'speceyes[evals]'" in result.stderr
