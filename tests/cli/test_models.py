"""`speceyes models`: what is here and whether it is whole, or what a server has."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from command_line import Run, Serve

from speceyes.agents import DIALECTS
from speceyes.engines import nano
from speceyes.engines.nano import nano_files
from speceyes.engines.scripted import Reply


def test_the_nano_pair_is_listed_with_sizes_and_hashes(run: Run) -> None:
    record = json.loads(run("models", "--json", "-").stdout)
    files = nano_files()
    pair = record["nano"]
    assert (pair["intact"], pair["problem"], pair["folder"]) == (True, None, str(files.draft.parent))
    listed = {row["file"]: row for model in pair["models"] for row in model["files"]}
    for path in (files.draft, files.draft_mmproj, files.agent, files.agent_mmproj):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert listed[path.name] == {"file": path.name, "bytes": path.stat().st_size, "sha256": digest}
    names = {model["name"]: model for model in pair["models"]}
    digest = listed[files.draft.name]["sha256"]
    assert names["nano-draft"]["fingerprint"] == f"nano-draft@sha256:{digest[:12]}"
    assert record["dialects"] == sorted(DIALECTS)


def test_for_people_there_is_a_table(run: Run) -> None:
    said = run("models").stdout
    for part in ("nano-draft", "draft-f16.gguf", "MB", "The nano pair is intact", "Dialects: deepeyes"):
        assert part in said


def test_a_damaged_file_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "nano"
    shutil.copytree(nano_files().draft.parent, folder)
    with (folder / "agent-f16.gguf").open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
    monkeypatch.setattr(nano, "_home", lambda: folder)
    result = run("models", "--json", "-")
    assert result.exit_code == 0
    pair = json.loads(result.stdout)["nano"]
    assert pair["intact"] is False
    assert "agent-f16.gguf is not the file of its manifest" in pair["problem"]
    assert "cannot be used" in run("models").stdout


def test_missing_files_are_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nano, "_home", lambda: tmp_path)
    pair = json.loads(run("models", "--json", "-").stdout)["nano"]
    assert (pair["intact"], pair["models"]) == (False, [])
    assert "lacks draft-f16.gguf" in pair["problem"]


def test_a_servers_models(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(Reply("x"), models=["a", "b"], api_key="sk-right")
    monkeypatch.setenv("THE_KEY", "sk-right")
    flags = ["models", "--url", server.url, "--api-key-env", "THE_KEY"]
    assert run(*flags).stdout == "a\nb\n"
    assert json.loads(run(*flags, "--json", "-").stdout) == {"models": ["a", "b"]}
    refused = run("models", "--url", server.url)
    assert refused.exit_code == 1
    assert "HTTP 401" in refused.stderr


def test_a_server_that_is_not_there(run: Run) -> None:
    result = run("models", "--url", "http://127.0.0.1:9")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: the model server at 127.0.0.1:9" in result.stderr
