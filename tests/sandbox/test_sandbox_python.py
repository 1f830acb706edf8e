"""Which Python is mounted, and what stays outside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from speceyes.errors import ConfigError, SandboxUnavailable
from speceyes.sandbox import Bubblewrap
from speceyes.sandbox.interpreter import find_interpreter, make_environment


@pytest.fixture(autouse=True)
def _nothing_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def an_environment(folder: Path, *packages: str) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name in packages:
        (folder / "lib" / version / "site-packages" / name).mkdir(parents=True)
    return folder


def test_by_default_the_packages_are_those_of_this_process() -> None:
    import numpy

    found = find_interpreter()
    assert Path(numpy.__file__).parents[1] in found.packages
    assert found.binary.is_file()
    assert all(folder.is_dir() for folder, _ in (*found.libraries, *found.package_mounts))


def test_only_folders_of_libraries_are_mounted() -> None:
    found = find_interpreter()
    for folder, place in (*found.libraries, *found.package_mounts):
        assert folder.name in ("lib", "lib64", "site-packages", "dist-packages") or folder.name.startswith("python3")
        assert place.startswith(("/python/lib", "/packages/"))


def test_an_environment_that_was_set_up_is_used_instead(tmp_path: Path) -> None:
    place = an_environment(tmp_path / "data" / "speceyes" / "sandbox", "numpy", "PIL", "cv2")
    found = find_interpreter()
    assert [folder.parents[2] for folder in found.packages] == [place.resolve()]
    assert found.missing == ("matplotlib",)


def test_one_that_is_incomplete_or_of_another_python_is_told(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="no PIL there"):
        find_interpreter(an_environment(tmp_path / "half", "numpy"))
    (tmp_path / "old" / "lib" / "python2.7" / "site-packages").mkdir(parents=True)
    with pytest.raises(SandboxUnavailable, match="no environment for python3"):
        find_interpreter(tmp_path / "old")


async def test_a_provider_tells_why_it_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await Bubblewrap(an_environment(tmp_path / "half", "numpy")).available()
    assert not found.available
    assert "no PIL there" in found.reason
    monkeypatch.setenv("PATH", str(tmp_path))
    found = await Bubblewrap().available()
    assert (found.available, found.reason) == (
        False,
        "the program `bwrap` is not there; install the package `bubblewrap`",
    )


async def test_packages_that_cannot_be_loaded_are_told(tmp_path: Path) -> None:
    place = an_environment(tmp_path / "broken", "numpy", "PIL")
    next(place.rglob("numpy")).joinpath("__init__.py").write_text("raise ImportError('no good')")
    found = await Bubblewrap(place).available()
    assert not found.available
    assert "no good" in found.reason


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    said: list[str] = []
    with pytest.raises(ConfigError, match="making the environment failed"):
        make_environment(tmp_path / "file" / "env", said.append)
    assert said == ["Making the environment"]
