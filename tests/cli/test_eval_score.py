"""`speceyes eval score`: one answer, a file of answers, and a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, Serve

from speceyes.engines.scripted import Reply

COLOURS = '["blue", "green", "red", "white"]'


def mark(run: Run, *words: str) -> dict[str, Any]:
    result = run("eval", "score", *words, "--json", "-")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(
    ("rule", "answer", "parsed", "right"),
    [
        ("strict", "Based on the sign, the answer is C.", "C", True),
        ("lmms", "Based on the sign, the answer is C.", "B", False),
        ("vlmevalkit", "Based on the sign, the answer is C.", "C", True),
        ("strict", "C or D", None, False),
        ("lmms", "C or D", "C", True),
    ],
)
def test_one_answer(run: Run, rule: str, answer: str, parsed: str | None, right: bool) -> None:
    found = mark(run, "--rule", rule, "--gold", "C", "--options", COLOURS, "--answer", answer)
    assert (found["parsed"], found["right"], found["rule"]) == (parsed, right, rule)
    assert found["how"]


def test_yes_or_no(run: Run) -> None:
    assert mark(run, "--gold", "yes", "--answer", "YES\n") == {
        "parsed": "yes", "right": True, "how": "word", "form": "plain", "rule": "strict", "gold": "yes",
    }  # fmt: skip
    assert mark(run, "--rule", "pope", "--gold", "no", "--answer", "There is not a dog.")["right"] is True
    assert mark(run, "--rule", "vlmevalkit", "--gold", "yes", "--answer", "Yes, no doubt")["how"] == "unparsed"
    assert mark(run, "--gold", "no", "--answer", "")["parsed"] is None


def test_options_by_letter_and_kinds(run: Run) -> None:
    by_letter = '{"A": "left", "B": "right"}'
    assert mark(run, "--gold", "right", "--options", by_letter, "--answer", "(b)")["right"] is True
    words = ["--rule", "lmms", "--gold", "A", "--options", by_letter, "--answer", "Look: A"]
    assert mark(run, *words, "--kind", "hrbench")["kind"] == "hrbench"
    assert mark(run, "--answer", "B", "--options", by_letter)["right"] is None


def test_for_people(run: Run) -> None:
    result = run("eval", "score", "--gold", "C", "--options", COLOURS, "--answer", "Answer: B")
    assert result.stdout == "wrong: the answer states B (cue)\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--answer", "x", "--rule", "exact"], "no scoring rule 'exact'"),
        (["--answer", "x", "--kind", "mme"], "no such kind"),
        ([], "--answer TEXT or --answers FILE"),
        (["--answer", "x", "--answers", "f"], "--answer TEXT or --answers FILE"),
        (["--answers", "f", "--gold", "C"], "a file has its own"),
        (["--answer", "x", "--out", "f"], "--out belongs to --answers"),
        (["--answer", "x", "--options", "[1,"], "--options is not JSON"),
        (["--answer", "x", "--options", "3"], "a list of texts"),
        (["--answer", "x", "--options", '{"A": "a", "C": "c"}'], "A, B, C and so on"),
        (["--answer", "x", "--gold", "E", "--options", COLOURS], "none of the options A to D"),
        (["--answer", "x", "--gold", "C", "--options", COLOURS, "--rule", "pope"], "does not cover"),
        (["--answer", "x", "--judge-model", "m"], "need --judge-url"),
        (["--answers", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
    ],
)
def test_wrong_input(run: Run, words: list[str], said: str) -> None:
    result = run("eval", "score", *words)
    assert result.exit_code == 2
    assert said in result.stderr


ROWS = [
    {"id": "a", "answer": "C", "gold": "C", "options": json.loads(COLOURS)},
    {"id": "b", "answer": "hm, hard to say", "gold": "C", "options": json.loads(COLOURS), "question": "Which colour?"},
    {"id": "c", "answer": None, "error": "EngineTimeout: too slow", "gold": "A", "options": json.loads(COLOURS)},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_file_gives_one_mark_a_line_and_figures(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "answers.jsonl", ROWS)
    result = run("eval", "score", "--answers", file, "--json", "figures.json")
    marks = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["id"], row["how"], row["right"]) for row in marks] == [
        ("a", "letter", True), ("b", "unparsed", False), ("c", "error", False),
    ]  # fmt: skip
    assert marks[2]["error"] == "EngineTimeout: too slow"
    figures = json.loads(Path("figures.json").read_text())
    assert (figures["rows"], figures["unparsed"], figures["errors"], figures["headline"]) == (3, ["b"], ["c"], None)
    assert figures["accuracy"]["value"] == pytest.approx(1 / 3)
    assert figures["accuracy_answered"]["value"] == 0.5
    assert "too many questions failed" in result.stderr


def test_figures_of_yes_no_and_of_rotations(run: Run, tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "answer": a, "gold": g, "category": "random"}
        for n, (a, g) in enumerate([("yes", "yes"), ("no", "yes")])
    ]
    found = json.loads(
        run("eval", "score", "--answers", write(tmp_path / "p", rows), "--json", "-", "--out", "m").stdout
    )
    assert (found["pope"]["recall"], found["pope_splits"]["random"]["yes_ratio"]) == (0.5, 0.5)
    assert len(Path("m").read_text().splitlines()) == 2
    rows = [{"id": n, "answer": a, "gold": "A", "options": ["x", "y"], "group": "1"} for n, a in enumerate("AAAB")]
    result = run("eval", "score", "--answers", write(tmp_path / "r", rows), "--json", "-")
    found = json.loads(result.stdout)["rotations"]
    assert (found["each_rotation"]["value"], found["all_rotations"]["value"]) == (0.75, 0.0)
    assert "all rotations right" in result.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"id": "a"}', "needs an answer"),
        ('{"answer": "a"}', "needs an id"),
        ('{"id": "a", "answer": "x", "label": "y"}', "unknown fields label"),
        ('{"id": "a", "answer": 7}', "answer must be a text"),
        ('{"id": "a", "answer": "x", "gold": "C", "options": ["a"]}', "none of the options"),
        ('{"id": "first", "answer": "x"}', "first is there twice"),
    ],
)
def test_a_wrong_line_is_named(run: Run, tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text('{"id": "first", "answer": "A", "gold": "A", "options": ["a", "b"]}\n\n' + line)
    result = run("eval", "score", "--answers", file)
    assert result.exit_code == 2
    assert "line 3" in result.stderr
    assert said in " ".join(result.stderr.split())


def test_an_empty_file_and_a_line_that_the_rule_does_not_cover(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert "holds no answer" in run("eval", "score", "--answers", empty).stderr
    result = run("eval", "score", "--answers", write(tmp_path / "rows", ROWS), "--rule", "pope")
    assert result.exit_code == 2
    assert "a: the rule pope" in result.stderr


def test_a_judge_reads_what_the_rule_cannot(run: Run, serve: Serve, tmp_path: Path) -> None:
    server = serve([Reply("1")], models=["referee"])
    words = ["eval", "score", "--answers", write(tmp_path / "rows", ROWS), "--json", "-", "--judge-url", server.url]
    words += ["--judge-cache", tmp_path / "cache"]
    for cached in (0, 1):
        result = run(*words)
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert found["accuracy"]["successes"] == 2
        assert (found["judge"]["model"], found["judge"]["judged"], found["judge"]["cached"]) == ("referee", 1, cached)
        assert found["judge"]["prompt"].startswith("sha256:")
        assert found["judge"]["unparsed_share"] == 0.0
    assert len(server.completions) == 1
    assert "Which colour?" in server.completions[0].json["messages"][1]["content"]
