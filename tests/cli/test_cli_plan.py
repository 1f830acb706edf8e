"""`speceyes plan`: from a folder of records to a table, JSON and a picture."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Run

from speceyes.evals.records import Asked, DatasetFacts, ImageFacts, Manifest, Observed, Row, RunWriter, make_row
from speceyes.types import AgentRun, Draft, Finish, Screening, Token, Turn

MANIFEST = Manifest(
    dataset=DatasetFacts(name="made", kind="made", digest="sha256:0", samples=60),
    bound_to={"draft_model": "small", "agent_model": "large"},
    k=6,
)
SMALL = ("--queries", 400, "--threshold", 2.0, "--k", 6)


def row(index: int) -> Row:
    """Three in four are let through; of those two in three have a sure draft."""
    rng = random.Random(index)
    gap = 5.0 if index % 3 else 0.2
    logprobs = (-0.05, *sorted((-0.05 - gap - rng.random() for _ in range(5)), reverse=True))
    asked = Asked(f"q{index}", index, "Which?", [ImageFacts("ab" * 32, (64, 64), 9)])
    seen = Observed(
        Screening(0.1, 0.9) if index % 4 else Screening(0.9, 0.1),
        Draft("B", (Token("B", -0.05, logprobs, tuple("BACDEF")),)),
        AgentRun("B", (Turn(0, "look"), Turn(1, "B")), Finish.ANSWERED),
        seconds={"look": 0.01, "screen": 0.05, "draft": 0.06, "agent": 0.4 + 0.2 * rng.random()},
    )
    return make_row(asked, seen, recorded_at=1.7e9)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    with RunWriter(tmp_path / "run", MANIFEST) as writer:
        writer.write_rows([row(index) for index in range(60)])
    return tmp_path / "run"


def test_clients_before_one_server_each(run: Run, recorded: Path, tmp_path: Path) -> None:
    result = run("plan", recorded, *SMALL, "--json", tmp_path / "plan.json", "--clients", 4)
    assert result.exit_code == 0, result.stderr
    for words in ("4 clients, on the servers given", "published", "auto", "of the law", "60 recorded queries"):
        assert words in result.stdout
    found = json.loads((tmp_path / "plan.json").read_text())
    assert list(found["systems"]) == [
        "agent", "published", "paper", "draft-first", "parallel", "hedged", "auto"
    ]  # fmt: skip
    paper = found["systems"]["paper"]
    assert paper["replicas"] == {"draft": 1, "agent": 1}
    assert paper["speedup"] > 1.2
    assert paper["share_of_law"] == pytest.approx(paper["speedup"] / found["law"]["honest"])
    assert paper["latency_s"]["p50"] < paper["latency_s"]["p95"] <= paper["latency_s"]["p99"]
    assert found["arrivals"] == {"clients": 4}
    assert found["workload"]["queries"] == 60
    assert found["limits"] is None


def test_one_client_gains_what_the_honest_law_says(run: Run, recorded: Path) -> None:
    result = run("plan", recorded, *SMALL, "--json", "-", "--clients", 1, "--plan", "paper")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["systems"]["paper"]["share_of_law"] == pytest.approx(1.0, rel=0.08)


def test_a_rate_finds_the_servers_that_it_needs(run: Run, recorded: Path) -> None:
    result = run("plan", recorded, *SMALL, "--json", "-", "--rate", 40, "--plan", "paper", "--batching", "cpu:4")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    agent, paper = found["systems"]["agent"], found["systems"]["paper"]
    assert agent["replicas"]["draft"] == 0
    assert agent["replicas"]["agent"] > paper["replicas"]["agent"] > 1
    assert all(system["feasible"] for system in (agent, paper))
    assert agent["utilisation_by_work"]["agent"] <= 0.8
    assert found["limits"] == {"utilisation": 0.8, "p95_s": None}
    assert found["batching"]["agent"]["name"] == "cpu:4"


def test_a_target_out_of_reach_is_said(run: Run, recorded: Path) -> None:
    result = run("plan", recorded, *SMALL, "--rate", 5, "--plan", "paper", "--target-p95", 0.2)
    assert result.exit_code == 0, result.stderr
    assert "paper: the limits are out of reach: idle servers already take" in result.stdout


def test_too_few_servers_are_said(run: Run, recorded: Path) -> None:
    servers = ("--draft-replicas", 1, "--agent-replicas", 1)
    result = run("plan", recorded, *SMALL, *servers, "--rate", 9, "--plan", "paper")
    assert result.exit_code == 0, result.stderr
    assert "agent: queries come faster than they are answered" in result.stdout
    assert "grows" in result.stdout


def test_a_picture_and_a_file_with_curves(run: Run, recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "gpu.json").write_text('{"points": [[1, 1.0], [8, 1.5]], "slots": 8}')
    result = run(
        "plan", recorded, *SMALL, "--batching", "gpu.json", "--picture", "load.png", "--plan", "paper", "--seed", 3
    )
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "load.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote load.png" in result.stdout


def test_the_nano_pairs_gate_is_not_put_before_other_models(run: Run, recorded: Path) -> None:
    result = run("plan", recorded)
    assert result.exit_code == 2
    assert "draft_model" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rate", "5", "--clients", "3"], "give one of them"),
        (["--rate", "0"], "must be a positive number"),
        (["--rate", "5", "--burstiness", "-1"], "burstiness"),
        (["--clients", "3", "--target-p95", "1"], "give --rate"),
        (["--rate", "5", "--target-p95", "0"], "more than 0 seconds"),
        (["--utilisation", "1"], "between 0 and 1"),
        (["--plan", "fastest"], "there is no such plan"),
        (["--batching", "tpu"], "no preset of this name"),
        (["--picture", "nowhere/x.png"], "name a file in a folder that is there"),
        (["--json", "nowhere/x.json"], "there is no folder nowhere"),
    ],
)
def test_wrong_options_are_refused(run: Run, recorded: Path, options: list[str], said: str) -> None:
    result = run("plan", recorded, *SMALL, *options)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_a_missing_library_is_named(recorded: Path) -> None:
    code = "import sys; sys.modules['simpy'] = None; from speceyes.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "plan", str(recorded)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "pip install 'speceyes[evals]'" in done.stderr
    assert "Traceback" not in done.stderr
