"""What holds the shape of the project: small files, an algorithm on one screen, documentation that keeps up."""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from speceyes.types import Reason

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "speceyes"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 400
ONE_SCREEN = 60

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_no_file_is_long() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in MODULES}
    assert lengths, "no source found: is this the repository?"
    assert not {path.name: lines for path, lines in lengths.items() if lines > MOST_LINES}


def test_no_module_is_a_drawer_for_everything() -> None:
    named = {part.removesuffix(".py") for path in MODULES for part in path.relative_to(PACKAGE).parts}
    assert not named & {"util", "utils", "helper", "helpers", "common", "misc"}


def test_the_algorithm_stands_on_one_screen() -> None:
    tree = ast.parse((PACKAGE / "funnel.py").read_text())
    (funnel,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Funnel")
    lengths = {
        node.name: (node.end_lineno or 0) - node.lineno + 1
        for node in funnel.body
        if isinstance(node, ast.AsyncFunctionDef)
    }
    assert lengths["answer"] + lengths["_decide"] <= ONE_SCREEN


def test_each_phase_is_a_module_and_nothing_else_is() -> None:
    found = {path.stem for path in (PACKAGE / "phases").glob("*.py")} - {"__init__"}
    assert found == {"screen", "speculate", "gate", "fall_back"}


def test_every_part_has_its_place_among_the_layers() -> None:
    (contract,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert contract["type"] == "layers"
    placed = {part.strip(" ()") for layer in contract["layers"] for part in layer.split("|")}
    files = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert files | folders <= placed


def test_every_reason_is_documented_and_no_other() -> None:
    text = (ROOT / "docs" / "reasons.md").read_text()
    assert sorted(re.findall(r"^### `(\w+)`$", text, re.MULTILINE)) == sorted(Reason)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_sessions_in_the_documentation_are_true(page: Path) -> None:
    parsed = doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(parsed, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_documentation_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for words in commands(page.read_text()):
        if words[0] == "make":
            named = [word for word in words[1:] if "=" not in word]
            assert set(named) <= targets, f"{page.name}: {shlex.join(words)}"
        elif words[0] == "speceyes":
            check_speceyes(words[1:], f"{page.name}: {shlex.join(words)}")


def test_the_readme_names_the_commands_that_matter() -> None:
    named = {tuple(words[:2]) for words in commands((ROOT / "README.md").read_text())}
    assert {("make", "demo"), ("make", "test"), ("speceyes", "demo"), ("speceyes", "ask")} <= named


def commands(text: str) -> Iterator[list[str]]:
    """Shell commands of a page: indented blocks, fenced ones without a language or with a shell's, and inline code."""
    shell = re.sub(r"^```(?!bash|sh|console|$).*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^(?: {4}|\$ )(\S.*)$", re.sub(r"\\\n\s*", "", shell), re.MULTILINE)
    lines += re.findall(r"`((?:make|speceyes) [^`\n]+)`", shell)
    for line in lines:
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if words:
            yield words


def check_speceyes(words: list[str], where: str) -> None:
    """Each word names a command as long as there are sub-commands, and each flag is one of the last command's."""
    from speceyes.cli.main import app

    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        assert words or command.invoke_without_command, f"{where}: which command?"
        if not words or words[0].startswith("-"):
            break
        if words[0] not in command.commands and (default := getattr(command, "default", None)):
            command = command.commands[default]
            break
        assert words[0] in command.commands, f"{where}: there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    flags = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert flags <= known | {"--help", "-h"}, f"{where}: there is no flag {', '.join(sorted(flags - known))}"
