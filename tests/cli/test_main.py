"""The `speceyes` command itself: its sub-commands, its exit codes, and how little it takes to start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Run

import speceyes
from speceyes import errors
from speceyes.cli.main import COMMANDS, exit_code
from speceyes.cli.output import visible, write_json
from speceyes.errors import ConfigError, EngineError, SpecEyesError

PROGRAM = [sys.executable, "-c", "from speceyes.cli import main; main()"]


def test_every_command_is_there_and_explains_itself(run: Run) -> None:
    listed = run("--help").stdout
    for name in COMMANDS:
        assert f" {name} " in listed
        assert run(name, "--help").exit_code == 0


def test_the_version(run: Run) -> None:
    assert run("--version").stdout == f"speceyes {speceyes.__version__}\n"


def test_help_comes_at_once() -> None:
    """What takes long to import is not imported for it."""
    code = "import sys; from speceyes.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], check=True, capture_output=True, text=True, timeout=60
    )
    assert "Answer a question" in done.stdout
    assert not {"httpx", "numpy", "PIL", "pydantic", "xllamacpp"} & set(done.stderr.split())


@pytest.mark.parametrize(
    "error", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SpecEyesError)]
)
def test_an_error_of_ours_is_1_for_an_engine_and_2_for_what_the_caller_can_mend(error: type[SpecEyesError]) -> None:
    expected = 2 if issubclass(error, errors.ConfigError | errors.InputError) else 1
    assert exit_code(error("x")) == expected
    assert exit_code(EngineError("x")) == 1


def test_a_name_that_is_no_text_is_shown_and_not_fatal() -> None:
    """File names may hold any bytes, and then neither the message nor the terminal may break."""
    done = subprocess.run([*PROGRAM, "ask", b"caf\xe9.png", "q", "--threshold", "1"], capture_output=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == b"error: caf\\udce9.png: there is no such file.\n"


def test_an_unknown_command_is_code_2(run: Run) -> None:
    result = run("aks")
    assert result.exit_code == 2
    assert "No such command 'aks'" in result.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, é, 漢字, 😀\n\tindented", "plain, é, 漢字, 😀\n\tindented"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\rb\r\nc\x00", "a\\rb\nc\\x00"),
        ("\u202egnp.exe\udce9", "\\u202egnp.exe\\udce9"),
    ],
)
def test_control_characters_are_spelled(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_json_is_strict_ascii(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    write_json(str(target), {"answer": "é\ud800"})
    assert json.loads(target.read_bytes().decode("ascii")) == {"answer": "é\ud800"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(str(target), {"score": float("nan")})
    with pytest.raises(ConfigError, match="cannot be written"):
        write_json(str(tmp_path), {})
