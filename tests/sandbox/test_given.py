"""Folders that a container is given: gone with their maker, or with the next one where it was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from speceyes.sandbox.given import given_folder, remove_orphans

MAKER = """
import sys, time
from speceyes.sandbox.given import given_folder
with given_folder() as folder:
    (folder / "picture.png").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_it_is_gone_with_its_context() -> None:
    with given_folder() as folder:
        assert folder.is_dir()
    assert not folder.exists()


def test_the_folder_of_a_killed_maker_is_removed_and_of_a_living_one_not() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", MAKER], stdin=pipe, stdout=pipe, text=True) as maker:
        assert maker.stdout is not None
        folder = Path(maker.stdout.readline().strip())
        remove_orphans()
        assert (folder / "picture.png").exists()
        maker.send_signal(signal.SIGKILL)
        maker.wait()
    assert folder.exists()
    remove_orphans()
    assert not folder.exists()


def test_what_only_looks_like_one_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch()
    (tmp_path / "speceyes-sandbox-empty").mkdir()
    (tmp_path / "speceyes-sandbox-link").mkdir()
    (tmp_path / "speceyes-sandbox-link" / "in-use").symlink_to(target)
    remove_orphans()
    assert {path.name for path in tmp_path.iterdir()} == {"target", "speceyes-sandbox-empty", "speceyes-sandbox-link"}
