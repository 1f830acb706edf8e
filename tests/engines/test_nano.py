"""Finding the nano pair's files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from speceyes.engines import nano
from speceyes.engines.nano import NANO_LIMITS, nano_files
from speceyes.errors import ConfigError
from speceyes.imaging.resize import view_size

NAMES = ("draft-f16.gguf", "draft-mmproj-f16.gguf", "agent-f16.gguf", "agent-mmproj-f16.gguf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    described = {}
    for name in NAMES:
        content = f"weights of {name}".encode()
        (tmp_path / name).write_bytes(content)
        described[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (tmp_path / "manifest.json").write_text(json.dumps({"files": described}))
    return tmp_path


def test_whole_pair_is_found(folder: Path) -> None:
    files = nano_files(folder)
    assert [files.draft.name, files.draft_mmproj.name, files.agent.name, files.agent_mmproj.name] == list(NAMES)
    assert files.agent.read_bytes() == b"weights of agent-f16.gguf"


def test_manifest_may_be_absent(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    assert nano_files(folder).draft == folder / "draft-f16.gguf"


@pytest.mark.parametrize("name", NAMES)
def test_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ConfigError, match=f"lacks {name}"):
        nano_files(folder)


@pytest.mark.parametrize("name", NAMES)
def test_other_content_is_noticed(folder: Path, name: str) -> None:
    (folder / name).write_bytes(f"weights_of {name}".encode())
    with pytest.raises(ConfigError, match=rf"{name} is not the file of its manifest \(SHA-256"):
        nano_files(folder)


def test_other_size_is_noticed(folder: Path) -> None:
    (folder / "agent-f16.gguf").write_bytes(b"short")
    with pytest.raises(ConfigError, match=r"agent-f16\.gguf has 5 bytes, and 25 by its manifest"):
        nano_files(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": 3}', '{"files": {"draft-f16.gguf": {}}}'])
def test_broken_manifest_is_refused(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(ConfigError, match="manifest"):
        nano_files(folder)


def test_installed_package_comes_before_checkout(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path_factory.mktemp("checkout")
    (checkout / "pyproject.toml").touch()
    in_checkout = checkout / "models" / "nano" / "gguf"
    monkeypatch.setattr(nano, "_candidates", lambda: (folder, in_checkout))
    assert nano_files().draft == folder / "draft-f16.gguf"

    monkeypatch.setattr(nano, "_candidates", lambda: (checkout / "nowhere", in_checkout))
    with pytest.raises(ConfigError, match=rf"{in_checkout} lacks"):
        nano_files()


def test_neither_installed_nor_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "speceyes" / "_nano"
    monkeypatch.setattr(nano, "_candidates", lambda: (package, tmp_path / "models" / "nano" / "gguf"))
    with pytest.raises(ConfigError, match=f"{package} lacks .*reinstall speceyes"):
        nano_files()


@pytest.mark.parametrize("size", [(1024, 1024), (64, 64), (4000, 1000), (300, 900), (1921, 1080), (5, 900)])
def test_every_view_of_the_nano_models_has_the_same_cost(size: tuple[int, int]) -> None:
    shown = view_size(*size, NANO_LIMITS)
    assert NANO_LIMITS.tokens(shown) == 36
    assert shown[0] * shown[1] == 192 * 192
