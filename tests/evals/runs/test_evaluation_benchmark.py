"""The benchmark of the evaluation runs as its README says, from files to the page, on the nano pair."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.usefixtures("nano_draft_server", "nano_agent_server")  # they say it best if the models are missing
def test_the_benchmark(tmp_path: Path) -> None:
    words = ["--questions", "6", "--systems", "agent,speceyes", "--batch", "", "--json", "figures/new.json"]
    command = [sys.executable, str(BENCHMARKS / "evaluation.py"), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "figures" / "new.json").read_text())
    asked = {form: found["summary"]["dataset"]["asked"] for form, found in record["sets"].items()}
    assert asked == {"vstar": 6, "hrbench": 4, "pope": 6}
    assert all(found["summary"]["complete"] for found in record["sets"].values())
    assert record["seconds"] > sum(found["seconds"]["eval"] for found in record["sets"].values()) > 0
    assert (tmp_path / "out" / "evaluation" / "report.html").stat().st_size > 10_000
    assert "| SpecEyes |" in (tmp_path / "figures" / "new.md").read_text()
    assert "from files to page in" in done.stdout
