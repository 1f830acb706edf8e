"""`speceyes sweep`: from a folder of records to tables, JSON, pictures and a page."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Run

from speceyes.evals.records import Asked, DatasetFacts, ImageFacts, Manifest, Observed, Row, RunWriter, make_row
from speceyes.types import AgentRun, Draft, Finish, Screening, Token

MANIFEST = Manifest(
    dataset=DatasetFacts(name="made", kind="made", digest="sha256:0", samples=80),
    bound_to={"draft_model": "small", "agent_model": "large"},
    k=6,
)


def row(index: int, *, gold: str | None = "B") -> Row:
    """Draft and agent are right more often the later the row; sure drafts are more often right."""
    rng = random.Random(index)
    good = rng.random() < 0.6
    gap = 1.0 + 3.0 * good + 2.0 * rng.random()
    logprobs = (-0.05, *sorted((-0.05 - gap - rng.random() for _ in range(5)), reverse=True))
    asked = Asked(
        f"q{index}", index, "Which?", [ImageFacts(f"{index // 2:064x}", (64, 64), 9)], gold=gold,
        options=("red", "blue", "green", "grey"), category="color",
    )  # fmt: skip
    said = "B" if good else "C"
    seen = Observed(
        Screening(0.1, 0.9, seconds=0.05) if index % 4 else Screening(0.9, 0.1, seconds=0.05),
        Draft(said, (Token(said, -0.05, logprobs, tuple("BACDEF")),), seconds=0.06),
        AgentRun("B" if rng.random() < 0.9 else "A", (), Finish.ANSWERED, seconds=0.5),
        seconds={"look": 0.01, "screen": 0.05, "draft": 0.06, "agent": 0.5},
    )
    return make_row(asked, seen, recorded_at=1.7e9)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    with RunWriter(tmp_path / "run", MANIFEST) as writer:
        writer.write_rows([row(index) for index in range(80)])
    return tmp_path / "run"


def test_a_run_becomes_tables_json_pictures_and_a_page(run: Run, recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "pictures" / "new"
    result = run("sweep", recorded, "--out", out, "--json", tmp_path / "sweep.json", "--resamples", 50)
    assert result.exit_code == 0, result.stderr
    for words in ("AUROC", "separability, min", "learned", "hedged", "honest law", "Answers are judged by the labels"):
        assert words in result.stdout
    record = json.loads((tmp_path / "sweep.json").read_text())
    assert record["run"]["judged"] == 80
    assert record["run"]["intervals"]["groups"] == 40  # two questions an image
    assert record["gates"][0]["auroc"]["value"] is not None
    assert len(list(out.glob("*.png"))) == 8
    page = (out / "index.html").read_text()
    assert page.count("data:image/png") == 8
    assert str(out / "index.html") in result.stdout.replace("\n", "")


def test_json_alone_on_standard_output(run: Run, recorded: Path) -> None:
    result = run(
        "sweep", recorded, "--json", "-", "--resamples", 0, "--k", "4-5", "--plan", "hedged", "--against", "agent"
    )
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["against"] == "agent"
    assert record["run"]["ks"] == [4, 5]
    assert record["run"]["plan"] == "hedged"
    assert "final_agreement" in record["best"]["hedged"]


def test_without_labels_agreement_takes_their_place(run: Run, tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run", MANIFEST) as writer:
        writer.write_rows([row(index, gold=None) for index in range(30)])
    result = run("sweep", tmp_path / "run", "--resamples", 0)
    assert result.exit_code == 0, result.stderr
    assert "agreement with the agent" in " ".join(result.stdout.split())
    refused = run("sweep", tmp_path / "run", "--against", "labels")
    assert refused.exit_code == 2
    assert "has a label" in refused.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--k", "99"], "holds 6 log-probs a token at most"),
        (["--k", "many"], "neither a number nor a range"),
        (["--screen-threshold", "2"], "not between 0 and 1"),
        (["--resamples", "-1"], "cannot be -1 resamples"),
        (["--out", "taken"], "that is a file"),
        (["--json", "nowhere/x.json"], "there is no folder nowhere"),
    ],
)
def test_wrong_options_are_refused(run: Run, recorded: Path, options: list[str], said: str) -> None:
    (recorded.parent / "taken").touch()
    result = run("sweep", "run", *options)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_a_folder_without_a_run_is_refused(run: Run, tmp_path: Path) -> None:
    result = run("sweep", tmp_path)
    assert result.exit_code == 2
    assert str(tmp_path) in result.stderr.replace("\n", "")


def test_a_missing_library_is_named(recorded: Path) -> None:
    code = "import sys; sys.modules['sklearn'] = None; from speceyes.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "sweep", str(recorded)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "pip install 'speceyes[evals]'" in done.stderr
    assert "Traceback" not in done.stderr
