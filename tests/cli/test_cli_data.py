"""`speceyes data`: sets made, shown and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from command_line import Run

from speceyes.cli.data import FormName
from speceyes.evals.datasets.formats import Format


def test_every_form_can_be_asked_for() -> None:
    assert set(get_args(FormName)) == set(Format)


@pytest.mark.parametrize("kind", list(Format))
def test_a_set_is_made_shown_and_found_good(run: Run, tmp_path: Path, kind: Format) -> None:
    folder = tmp_path / "set"
    made = run("data", "make", folder, "--format", kind, "--count", "2", "--seed", "5", "--side", "64", "--json", "-")
    assert json.loads(made.stdout) == {
        "folder": str(folder),
        "format": kind.value,
        "count": 2,
        "seed": 5,
        "side": 64,
    }
    shown = json.loads(run("data", "show", folder, "--json", "-").stdout)
    assert (shown["kind"], shown["form"], shown["pictures"]) == (kind.kind, kind.value, 2)
    assert sum(shown["categories"].values()) == sum(shown["options"].values()) == shown["items"]
    assert shown["shuffle_seed"] == (0 if kind is Format.VSTAR else None)
    assert shown["groups"] == ({"4": 2} if kind.kind == "hrbench" else {})
    checked = run("data", "check", folder, "--json", "-")
    assert checked.exit_code == 0
    record = json.loads(checked.stdout)
    assert (record["faults"], record["pictures"], record["set"]) == ([], 2, shown)


def test_the_table_says_what_matters(run: Run, tmp_path: Path) -> None:
    run("data", "make", tmp_path / "set", "--format", "hrbench", "--count", "2", "--side", "48")
    said = run("data", "show", tmp_path / "set").stdout
    for words in ("hrbench, as hrbench files", "8 about 2 pictures", "2 in 4 turns", "4 options 8", "sha256:"):
        assert words in said


def test_another_seed_is_another_order(run: Run, tmp_path: Path) -> None:
    run("data", "make", tmp_path / "set", "--count", "9", "--side", "48")
    one, two = (
        json.loads(run("data", "show", tmp_path / "set", "--shuffle-seed", seed, "--json", "-").stdout)
        for seed in (1, 2)
    )
    assert (one["shuffle_seed"], two["shuffle_seed"]) == (1, 2)
    assert one["digest"] != two["digest"]
    assert one["files"] == two["files"]


def test_generated_scenes_can_be_shown(run: Run) -> None:
    shown = json.loads(run("data", "show", "nano:4:0", "--json", "-").stdout)
    assert (shown["kind"], shown["form"], shown["items"], shown["files"]) == ("nano", None, 4, {})


def test_faults_are_listed_and_the_command_fails(run: Run, tmp_path: Path) -> None:
    run("data", "make", tmp_path / "set", "--format", "pope", "--count", "2", "--side", "48")
    (tmp_path / "set" / "images" / "0000.jpg").write_bytes(b"cut")
    (tmp_path / "set" / "images" / "0001.jpg").unlink()
    checked = run("data", "check", tmp_path / "set")
    assert checked.exit_code == 2
    said = " ".join(checked.stdout.split())  # lines are broken where the folder's name is long
    assert said.count("its image is missing") == 6
    assert said.count("its picture is damaged") == 1
    assert "6 questions read, 1 pictures looked at: 7 faults" in checked.stdout


def test_a_set_that_is_not_there_is_one_line(run: Run) -> None:
    for word in ("show", "check"):
        failed = run("data", word, "nowhere")
        assert failed.exit_code == 2
        assert failed.stderr.startswith("error: nowhere: there is no such folder or file.")
