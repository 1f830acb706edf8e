"""`speceyes report`: from folders of runs to a page, Markdown, LaTeX and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Run

from made_eval_runs import make_run


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [make_run(tmp_path / "v", "vstar", 20), make_run(tmp_path / "p", "pope", 30)]


def test_several_runs_become_one_report(run: Run, folders: list[Path], tmp_path: Path) -> None:
    names = ("report.html", "report.md", "report.tex", "report.json")
    page, markdown, latex, record = (tmp_path / name for name in names)
    result = run("report", *folders, "-o", page, "--markdown", markdown, "--latex", latex, "--json", record)
    assert result.exit_code == 0, result.stderr
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "| SpecEyes |" in markdown.read_text(encoding="utf-8")
    assert r"\toprule" in latex.read_text(encoding="ascii")
    found = json.loads(record.read_text())
    assert [one["label"] for one in found["runs"]] == ["V*", "POPE"]
    assert found["page"]["page_bytes"] == page.stat().st_size
    assert found["verdict"]["sentence"] in " ".join(result.stdout.split())


def test_a_report_of_the_nano_pair_on_v_star_files(run: Run, tmp_path: Path) -> None:
    """From benchmark files over real answers of both models to the page."""
    out, page = tmp_path / "run", tmp_path / "report.html"
    assert run("data", "make", tmp_path / "data", "--count", 4, "--seed", 3).exit_code == 0
    asked = run("eval", tmp_path / "data", "-o", out, "--systems", "agent,draft,speceyes")
    assert asked.exit_code == 0, asked.stderr
    result = run("report", out, "-o", page, "--json", "-")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    summary = record["runs"][0]["summary"]["systems"]
    whole = record["columns"][-1]
    assert whole["questions"] == 4
    for name in ("agent", "draft", "speceyes"):
        assert whole["systems"][name]["accuracy"]["value"] == summary[name]["accuracy"]["value"]
    assert record["published"]["comparable"] is False
    text = page.read_text(encoding="utf-8")
    assert "cannot be compared with the published ones" in text
    assert "nano-agent" in text


def test_json_alone_on_standard_output(run: Run, folders: list[Path]) -> None:
    result = run("report", folders[0], "--json", "-")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["page"] is None
    assert record["complete"] is True


def test_limits_of_the_page(run: Run, folders: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "small.html"
    result = run("report", folders[0], "-o", page, "--cases", 3, "--pictures-mb", 0, "--json", "-")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)["page"]
    assert (facts["shown"], facts["pictures"], facts["picture_budget"]) == (3, 0, 0)
    assert page.read_text(encoding="utf-8").count("<article") == 3


def test_what_cannot_be_done_is_said_before_the_work(run: Run, folders: list[Path], tmp_path: Path) -> None:
    for words, said in (
        (("report", tmp_path / "nothing", "-o", "page.html"), "run.json"),
        (("report", folders[0], folders[0]), "named twice"),
        (("report", folders[0], "-o", tmp_path), "that is a folder"),
        (("report", folders[0], "--latex", tmp_path / "gone" / "x.tex"), "there is no folder"),
        (("report", folders[0], "-o", "x.html", "--markdown", "./x.html"), "named for two outputs"),
    ):
        result = run(*words)
        assert result.exit_code == 2, words
        assert said in result.stderr
