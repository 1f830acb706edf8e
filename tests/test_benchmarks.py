"""The benchmarks run as their README says, and their figures are what they claim to be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from speceyes.evals.race import Course, Lap
from speceyes.evals.systems import SystemName

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import soak
import throughput

BENCHMARKS = Path(throughput.__file__).parent
TIMEOUT_S = 240


def run(folder: Path, name: str, *options: str) -> tuple[str, dict[str, Any]]:
    """What a benchmark prints, and its JSON."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPECEYES_")}
    command = [sys.executable, str(BENCHMARKS / name), *options, "--json", "figures/new.json"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout, json.loads((folder / "figures" / "new.json").read_text())


def demo(**seconds: list[float]) -> Any:
    """A demo of which only the laps count: two queries in each."""
    courses = {SystemName(name): Course([], sum(laps), [Lap(2, s) for s in laps]) for name, laps in seconds.items()}
    return SimpleNamespace(courses=courses)


def test_a_ratio_is_taken_part_by_part() -> None:
    demos = [demo(agent=[4.0, 6.0], speceyes=[2.0, 2.0]), demo(agent=[8.0, 2.0], speceyes=[2.0, 2.0])]
    found = throughput.ratio(demos, SystemName.AGENT, SystemName.SPECEYES)
    assert found["overall"] == pytest.approx(20 / 8)
    assert (found["min"], found["median"], found["max"], found["n"]) == (1.0, 2.5, 4.0, 4)


def test_a_part_without_questions_has_no_ratio() -> None:
    courses = {name: Course([], 1.0, [Lap(0, 1e-9), Lap(1, 1.0)]) for name in SystemName}
    found = throughput.ratio([SimpleNamespace(courses=courses)], SystemName.AGENT, SystemName.DRAFT)
    assert found["n"] == 1


@pytest.mark.usefixtures("nano_draft_server", "nano_agent_server")  # they say it best if the models are missing
def test_throughput(tmp_path: Path) -> None:
    said, record = run(tmp_path, "throughput.py", "--count", "6", "--concurrency", "1", "2", "--repeats", "2")
    assert [level["concurrency"] for level in record["levels"]] == [1, 2]
    for level in record["levels"]:
        systems = level["systems"]
        assert list(systems) == ["agent", "draft", "speceyes"]
        assert all(row["errors"] == 0 and row["seconds"]["n"] == 2 for row in systems.values())
        assert len(level["runs"]) == 2
        assert level["ratios"]["speceyes_over_agent"]["n"] == 6
    assert record["machine"]["cores"] >= 1
    assert record["machine"]["packages"]["xllamacpp"]
    assert len(re.findall(r"^2 at a time: [\d.]+ times the agent's speed; by the honest law", said, re.MULTILINE)) == 1


def test_gate_arithmetic(tmp_path: Path) -> None:
    said, record = run(tmp_path, "gate_arithmetic.py", "--answers", "50", "--repeats", "2")
    assert record["answers"] == 50
    assert record["speedup"]["median"] > 0
    assert "plain Python loop" in said


def test_soak(tmp_path: Path) -> None:
    """A short one: every request is accounted for, and nothing is left of them in the gateway's process."""
    said, record = run(tmp_path, "soak.py", "--requests", "300", "--concurrency", "16")
    assert record["wrong"] == []
    assert record["counted"] == record["requests"] == 300
    assert record["lost"] == 0
    kinds = {name.rpartition(": ")[0] for name in record["got"]}
    assert len(kinds) == 14
    assert any(name.startswith("hangs up") for name in kinds)
    assert record["after"]["tasks"] <= record["before"]["tasks"] + 2
    assert "KB a request" in said


def test_a_soak_that_leaks_says_so() -> None:
    held = {"tasks": 2, "threads": 9, "os_threads": 10, "files": 30, "sockets": 16, "objects": 130_000}
    found = {"before": held, "after": dict(held), "memory": {"first_fifth_mb": 200.0, "last_fifth_mb": 204.0}}
    found |= {"lost": 0, "counted": 10_000}
    assert soak.leaks(found, 10_000) == []
    for name, grown in (("tasks", 8), ("files", 40), ("sockets", 80), ("threads", 12), ("objects", 140_000)):
        leaky = found | {"after": held | {name: grown}}
        assert [str(grown) in fault for fault in soak.leaks(leaky, 10_000)] == [True]
    assert "memory" in soak.leaks(found | {"memory": {"first_fifth_mb": 200.0, "last_fifth_mb": 230.0}}, 10_000)[0]
    assert "lost" in soak.leaks(found | {"lost": 1}, 10_000)[0]
    assert "9999" in soak.leaks(found | {"counted": 9_999}, 10_000)[0]


def test_every_benchmark_is_explained() -> None:
    text = (BENCHMARKS / "README.md").read_text()
    programs = [path.name for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()]
    assert sorted(set(re.findall(r"benchmarks/(\w+\.py)", text))) == sorted(programs)
