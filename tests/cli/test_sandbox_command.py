"""`speceyes sandbox`: what it prints, what it saves, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run
from PIL import Image

from speceyes.cli import sandbox as command
from speceyes.sandbox import Bubblewrap
from speceyes.sandbox.conformance import Report, Result


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


def test_check_attacks_what_is_there_and_says_what_is_not(run: Run) -> None:
    result = run("sandbox", "check", "--group", "network", "--json", "-")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    by_name = {one["provider"]: one for one in record["providers"]}
    assert set(by_name) == {"bubblewrap", "container"}
    assert record["available"][0] == "bubblewrap", by_name["bubblewrap"]["reason"]
    assert record["failed"] == 0
    assert record["passed"] >= 8
    bubblewrap = by_name["bubblewrap"]
    assert bubblewrap["passed"] == len(bubblewrap["checks"])
    assert set(bubblewrap["checks"][0]) == {"group", "name", "title", "passed", "detail", "seconds"}
    assert all(one["not_covered"] for one in record["providers"])
    assert all(one["reason"] for one in record["providers"])


def test_check_says_the_same_to_a_person(run: Run) -> None:
    result = run("sandbox", "check", "--group", "network", "--provider", "bubblewrap")
    assert result.exit_code == 0
    assert "network" in result.stdout
    assert "8 of 8" in result.stdout
    assert "Not covered:" in result.stdout
    assert "container" not in result.stdout


def test_check_fails_where_an_attack_gets_through(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def checked(*words: object) -> list[Report]:
        results = (
            Result("network", "web", "No page can be fetched", False, "ESCAPED: fetch", 0.1),
            Result("network", "names", "No name", True, "", 0.1),
        )
        return [Report("bubblewrap", True, "here", ("much",), results)]

    monkeypatch.setattr(command, "_check", checked)
    result = run("sandbox", "check")
    assert result.exit_code == 1
    assert "GOT THROUGH: web. No page can be fetched: ESCAPED: fetch" in result.stdout
    result = run("sandbox", "check", "--json", "-")
    assert (result.exit_code, json.loads(result.stdout)["failed"]) == (1, 1)


def test_check_without_any_sandbox_is_no_success(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("sandbox", "check")
    assert result.exit_code == 2
    assert "bubblewrap is not there: the program `bwrap` is not there" in result.stdout
    assert "no sandbox works here, so nothing was checked" in result.stderr


def test_check_knows_its_groups(run: Run) -> None:
    result = run("sandbox", "check", "--group", "netwrok")
    assert result.exit_code == 2
    assert "the groups are kernel, network, output, pictures" in result.stderr


def test_run_prints_what_the_code_prints_and_saves_what_it_shows(run: Run, script: Path, picture: Path) -> None:
    script.write_text(
        "from PIL import Image\nimage = Image.open(image_path)\nprint(image.size)\n"
        "image.crop((0, 0, 9, 5)).save('../tmp/a b.png')\nimage.resize((7, 7)).show()\n"
        "open('notes.txt', 'w').write('x')\n"
    )
    result = run("sandbox", "run", script, "--image", picture, "-o", "out", "--timeout", 200)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("(600, 400)\n")
    saved = sorted(path.name for path in Path("out").iterdir())
    assert saved == ["01-figure-1.png", "02-a-b.png"]
    assert Image.open("out/02-a-b.png").size == (9, 5)


def test_run_as_json(run: Run, script: Path) -> None:
    script.write_text("print('x')\nopen('notes.txt', 'w').close()\n1 / 0")
    result = run("sandbox", "run", script, "--json", "-", "--timeout", 200)
    record = json.loads(result.stdout)
    assert result.exit_code == 1
    assert record["provider"] == "bubblewrap"
    assert record["stdout"] == "x\n"
    assert record["files"] == [{"name": "notes.txt", "bytes": 0}]
    assert "ZeroDivisionError" in record["error"]


def test_run_ends_code_that_does_not_end(run: Run, script: Path) -> None:
    script.write_text("while True: pass")
    result = run("sandbox", "run", script, "--timeout", 1)
    assert result.exit_code == 1
    assert "it took too long" in result.stderr


def test_run_refuses_where_nothing_isolates(
    run: Run, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')")
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("sandbox", "run", script)
    assert result.exit_code == 2
    assert "no sandbox for code that a model writes (bubblewrap: the program `bwrap` is not there" in result.stderr
    assert not (tmp_path / "pwned").exists()


def test_run_needs_a_file(run: Run, tmp_path: Path) -> None:
    result = run("sandbox", "run", tmp_path / "nope.py")
    assert result.exit_code == 2
    assert "nope.py: No such file" in result.stderr


def test_setup_makes_an_environment_and_says_how_to_use_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    monkeypatch.setattr("speceyes.sandbox.interpreter.make_environment", lambda folder, say: made.append(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    result = run("sandbox", "setup")
    assert (result.exit_code, made) == (0, [tmp_path / "data" / "speceyes" / "sandbox"])
    result = run("sandbox", "setup", tmp_path / "mine")
    assert "sandbox.packages" in result.stdout


def test_a_sandbox_is_there_for_these_tests() -> None:
    import asyncio

    found = asyncio.run(Bubblewrap().available())
    assert found.available, f"install the package `bubblewrap`: {found.reason}"
