"""The benchmark of a large table's memory, on a small one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import tsv_memory

BENCHMARKS = Path(tsv_memory.__file__).parent


def test_it_writes_turned_questions_and_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tsv_memory, "SIDES", (640, 360))
    rows = tsv_memory.write_table(tmp_path / "hr.tsv", 300_000)
    figures = tsv_memory.read_table(tmp_path / "hr.tsv", 3)
    assert (tmp_path / "hr.tsv").stat().st_size >= 300_000
    assert (figures["rows"], figures["groups"]) == (rows, -(-rows // 4))
    assert (figures["pictures_read"], figures["megapixels_read"]) == (3, round(3 * 640 * 360 / 1e6, 1))
    assert 0 < figures["peak_mb_before"] <= figures["peak_mb_opened"] <= figures["peak_mb"]


def test_a_disk_without_room_is_said_before_anything_is_written(tmp_path: Path) -> None:
    command = [sys.executable, BENCHMARKS / "tsv_memory.py", "--gigabytes", "1e9", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "GB free, and the table needs" in done.stderr
    assert list(tmp_path.iterdir()) == []
