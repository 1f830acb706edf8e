"""The audit's state on the disk: whole whatever happens, and of one process at a time."""

from __future__ import annotations

import logging
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from trust_server import until

from speceyes.errors import ConfigError
from speceyes.gateway.trust.keeping import StateFile, read_state
from speceyes.gateway.trust.saving import Saver
from speceyes.gating.audit import Audited, AuditPlan, AuditState, begin, step

PLAN = AuditPlan(thresholds=(1.0, 2.0), alpha=0.1)


def after(audits: int, state: AuditState | None = None) -> AuditState:
    state = state or begin(PLAN)
    for _ in range(audits):
        state, _events = step(state, Audited(loss=False, level=0))
    return state


def test_what_was_written_is_read_and_nothing_else_lies_about(tmp_path: Path) -> None:
    path = tmp_path / "new" / "audit.json"
    file = StateFile(path)
    assert read_state(path) is None
    file.write(lambda: after(3))
    file.write(lambda: after(4))
    assert read_state(path) == after(4)
    assert sorted(one.name for one in path.parent.iterdir()) == ["audit.json", "audit.json.lock"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file.close()


def test_a_write_that_fails_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    file = StateFile(path)
    file.write(lambda: after(3))

    def broken() -> AuditState:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        file.write(broken)
    assert read_state(path) == after(3)
    file.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    file = StateFile(path)
    code = "import sys, pathlib, speceyes.gateway.trust.keeping as k; k.StateFile(pathlib.Path(sys.argv[1]))"
    other = [sys.executable, "-c", code, str(path)]
    refused = subprocess.run(other, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert "another process keeps its audit in" in refused.stderr
    file.close()
    assert subprocess.run(other, capture_output=True, timeout=60).returncode == 0


def test_the_secret_is_made_once_and_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    file = StateFile(path)
    key = file.secret()
    assert len(key) == 64
    assert file.secret() == key
    assert stat.S_IMODE((tmp_path / "audit.json.key").stat().st_mode) == 0o600
    file.close()
    other = StateFile(tmp_path / "other.json")
    assert other.secret() != key
    other.close()


def test_a_place_that_cannot_be_written_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot keep an audit in .*a file.*trust\.audit_state"):
        StateFile(tmp_path / "a file" / "audit.json")


def test_a_damaged_state_is_no_fresh_start(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    path.write_text('{"format": 1, "plan": {}}')
    with pytest.raises(ConfigError, match=r"audit\.json \(trust\.audit_state\) is damaged"):
        read_state(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot read"):
        read_state(path)


async def test_it_is_written_soon_and_at_the_end(tmp_path: Path) -> None:
    path, state = tmp_path / "audit.json", after(1)
    saver = Saver(file := StateFile(path), lambda: state)
    saver.soon()
    await until(lambda: read_state(path) == state)
    state = after(2)  # nobody says so
    await saver.close()
    assert read_state(path) == after(2)
    file.close()


async def test_a_full_disk_is_a_warning_and_passes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "audit.json"
    saver = Saver(file := StateFile(path), lambda: after(1))
    blocker = tmp_path / "audit.json.part"
    blocker.mkdir()  # whatever the disk's fault is, this one can be made and unmade
    with caplog.at_level(logging.ERROR):
        saver.now()
        saver.now()
    assert caplog.text.count("cannot be written") == 1, "not once for every try"
    assert saver.problem
    blocker.rmdir()
    saver.now()
    assert saver.problem is None
    assert read_state(path) == after(1)
    await saver.close()
    file.close()
