"""The benchmark of the sweep runs as its README says; it checks its figures against a plain count itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_the_benchmark(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(BENCHMARKS / "sweep.py"),
        "--records",
        "80",
        "--repeats",
        "2",
        "--json",
        "figures/new.json",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "figures" / "new.json").read_text())
    assert record["settings"] >= 1000
    assert record["settings_all_plans"] == 5 * record["settings"]
    assert record["seconds"]["settings"]["median"] > 0
    assert record["machine"]["cores"] >= 1
    assert "1,024 settings, plan paper" in done.stdout
