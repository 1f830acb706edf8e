"""`speceyes keys`: a key is made, shown once, listed without itself, and revoked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Run

from speceyes.gateway.access.auth import Keys


def test_a_key_is_shown_once_and_works_until_it_is_revoked(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "keys.jsonl"
    made = run("keys", "create", "web", "--file", file)
    assert made.exit_code == 0
    key = made.stdout.strip()
    assert key.startswith("sk-speceyes-")
    assert "only time" in made.stderr
    assert key not in made.stderr
    keys = Keys(file)
    assert keys.check(f"Bearer {key}")
    listed = run("keys", "list", "--file", file).stdout
    assert "web" in listed
    assert "valid" in listed
    assert key not in listed
    revoked = run("keys", "revoke", "web", "--file", file)
    assert (revoked.exit_code, "is revoked" in revoked.stdout) == (0, True)
    assert keys.check(f"Bearer {key}") is None
    assert "revoked" in run("keys", "list", "--file", file).stdout


def test_figures_go_to_json(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "keys.jsonl"
    flags = ["--scope", "admin", "--scope", "chat", "--days", 30, "--max-in-flight", 4]
    made = json.loads(run("keys", "create", "ops", "--file", file, *flags, "--json", "-").stdout)
    assert made.pop("key").startswith("sk-speceyes-")
    assert (made["name"], made["state"], made["scopes"], made["max_in_flight"]) == (
        "ops",
        "valid",
        ["admin", "chat"],
        4,
    )
    assert made["expires"] > made["created"]
    assert json.loads(run("keys", "list", "--file", file, "--json", "-").stdout) == {"keys": [made]}
    assert not {"salt", "digest"} & set(made)
    revoked = json.loads(run("keys", "revoke", "ops", "--file", file, "--json", "-").stdout)
    assert (revoked["state"], bool(revoked["revoked"])) == ("revoked", True)


def test_the_file_of_the_settings_is_used(run: Run, tmp_path: Path) -> None:
    Path("speceyes.toml").write_text('[access]\nkeys_file = "k.jsonl"\n')
    assert run("keys", "create", "web").exit_code == 0
    assert (tmp_path / "k.jsonl").is_file()
    assert "web" in run("keys", "list").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "web"], "which file holds the keys? Give --file"),
        (["list", "--file", "none.jsonl"], "cannot read the keys in none.jsonl: No such file"),
        (["revoke", "web", "--file", "none.jsonl"], "cannot read the keys"),
        (["create", "two words", "--file", "k.jsonl"], "a name has up to 64 letters"),
        (["create", "web", "--file", "k.jsonl", "--scope", "root"], "--scope root: there are chat, admin"),
        (["create", "web", "--file", "k.jsonl", "--days", "1e12"], "beyond the calendar"),
        (["create", "web", "--file", "no/k.jsonl"], "No such file or directory"),
    ],
)
def test_mistakes_are_one_clear_line(run: Run, words: list[str], said: str) -> None:
    result = run("keys", *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in result.stderr
    assert not Path("k.jsonl").exists()


def test_the_command_needs_none_of_the_gateways_libraries(tmp_path: Path) -> None:
    heavy = ("fastapi", "starlette", "msgspec", "sqlalchemy", "uvicorn", "httpx")
    code = (
        "import sys\nfrom speceyes.cli.main import app\n"
        f"try: app(['keys', 'create', 'a', '--file', {str(tmp_path / 'k')!r}])\n"
        "except SystemExit as end: assert not end.code\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
