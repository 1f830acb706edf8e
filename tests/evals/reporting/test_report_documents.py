"""The report as Markdown, LaTeX and JSON."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from made_eval_runs import make_run
from speceyes.evals.reporting import Study, report_json, study, write_latex, write_markdown
from speceyes.evals.reporting.latex import latex_table
from speceyes.evals.reporting.markdown import markdown_table
from speceyes.evals.reporting.table import Cell, Row, Section, Table

ODD = r"50% of $x_1$ & {a}\b ~^# <i>|`*[c]"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Study:
    base = tmp_path_factory.mktemp("runs")
    return study([make_run(base / "v", "vstar", 30), make_run(base / "p", "pope", 30)])


def odd_table() -> Table:
    rows = (
        Row(ODD, (Cell(ODD, ODD, ODD, ODD), Cell("1"))),
        Row("[begins with a bracket]", (Cell("*"), Cell("2", "1 to 3"))),
    )
    return Table("odd", ODD, ODD, ("head", ODD, ""), (Section(rows, ODD),), ((ODD, 1), ("x", 1)), (ODD,))


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


def test_markdown_tables_have_equal_rows(found: Study) -> None:
    text = write_markdown(found)
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        if lines:
            assert len({cells(line) for line in lines}) == 1, block
            assert re.fullmatch(r"\| --- \|( ---: \|)+", lines[1])
    assert "| SpecEyes |" in text
    assert "*Published in the SpecEyes paper, measured by others" in text
    assert text.startswith("# SpecEyes evaluation: V\\*, POPE\n")


def test_odd_text_stays_text_in_markdown() -> None:
    text = markdown_table(odd_table())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {cells(row) for row in rows} == {3}
    assert "<i>" not in text.replace("\\<", "")


def test_latex_balances_and_uses_booktabs_alone(found: Study) -> None:
    text = write_latex(found)
    assert text.count(r"\begin{table*}") == text.count(r"\end{table*}") == 2
    for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\cmidrule(lr){2-4}"):
        assert rule in text
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    for body in re.findall(r"\\begin\{tabular\}\{l(c+)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        lines = [line for line in body[1].splitlines() if line.endswith((r"\\", "pt]")) and r"\multicolumn" not in line]
        assert {len(re.findall(r"(?<!\\)&", line)) for line in lines if line.strip("\\[2pt]")} <= {len(body[0]), 0}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX here")
def test_latex_compiles(found: Study, tmp_path: Path) -> None:
    (tmp_path / "table.tex").write_text(f"{write_latex(found)}\n{latex_table(odd_table())}", encoding="ascii")
    (tmp_path / "main.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\\input{table}\\end{document}\n"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]


def test_json_is_strict_and_says_what_is_whose(found: Study) -> None:
    record = json.loads(json.dumps(report_json(found), allow_nan=False))
    assert record["format"] == 1
    assert record["published"]["measured_here"] is False
    assert record["published"]["comparable"] is True
    assert len(record["published"]["systems"]) == 7
    speceyes = record["columns"][0]["systems"]["speceyes"]
    assert 0 <= speceyes["accuracy"]["low"] <= speceyes["accuracy"]["value"] <= speceyes["accuracy"]["high"] <= 1
    assert record["mean"]["agent"]["speedup"]["value"] == 1.0
    assert record["runs"][1]["summary"]["dataset"]["kind"] == "pope"
    assert record["runs"][0]["facts"]["draft fingerprint"] == "sha256:dd"


def test_one_run_has_no_mean(tmp_path: Path) -> None:
    assert report_json(study([make_run(tmp_path / "run", count=10)]))["mean"] is None
