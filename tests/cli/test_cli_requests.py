"""`speceyes requests` over real stores."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Run

from speceyes.evals.records import load_run
from speceyes.store import ImageFacts, RequestRecord, Store
from speceyes.types import Token, Usage

NOW = time.time()
TOKENS = (Token("7", -0.1, (-0.1, -4.0, -5.0), ("7", "1", "\x1b[31m")),)
RECORD = RequestRecord(
    id="r0",
    created=NOW,
    model="speceyes",
    status=200,
    key="team-a",
    trust="observe",
    route="agent",
    reason="below_threshold",
    verdict="below_threshold",
    score=3.5,
    threshold=6.0,
    p_yes=0.1,
    p_no=0.3,
    draft_tokens=TOKENS,
    draft_text="7",
    agent_text="\x1b[2Jwipe",
    agent_finish="answered",
    agent_depth=1,
    agrees=False,
    question="What digit?",
    usage={"small": Usage(5, 1, None, 1), "large": Usage(None, 9, None, 2)},
    phase_usage={"speculate": Usage(5, 1, None, 1)},
    seconds=2.5,
    phase_seconds={"screen": 0.5, "fall_back": 2.0},
    images=(ImageFacts("ab" * 32, "JPEG", 10, 2, 3),),
    metadata={"job": "x"},
    setup={"draft_model": "small", "agent_model": "large"},
)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store of six requests, one an hour, the latest now."""
    url = f"sqlite:///{tmp_path / 'requests.db'}"

    async def fill() -> None:
        async with await Store.open(url, content=True) as opened:
            for hours in range(5, -1, -1):
                route = "draft" if hours % 2 else "agent"
                await opened.add(replace(RECORD, id=f"r{hours}", created=NOW - 3600 * hours, route=route))

    asyncio.run(fill())
    return url


def test_list_shows_the_latest_newest_last(run: Run, store: str) -> None:
    result = run("requests", "list", "--store", store, "-n", 3)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[2] for line in lines[1:4]] == ["r2", "r1", "r0"]
    assert lines[-1].strip() == "3 of 6 requests."


@pytest.mark.parametrize(
    ("flags", "ids"),
    [
        (["--since", "150m"], ["r2", "r1", "r0"]),
        (["--until", "150m", "--route", "draft"], ["r5", "r3"]),
        (["--since", "2001-01-01", "--key", "team-a", "--reason", "below_threshold", "--status", "200"], None),
        (["--key", "nobody"], []),
    ],
)
def test_list_selects(run: Run, store: str, flags: list[str], ids: list[str] | None) -> None:
    result = run("requests", "list", "--store", store, *flags, "--json", "-")
    found = json.loads(result.stdout)
    assert [one["id"] for one in found["requests"]] == (["r5", "r4", "r3", "r2", "r1", "r0"] if ids is None else ids)
    assert found["count"] == len(found["requests"])


def test_show_tells_everything_and_keeps_the_terminal_safe(run: Run, store: str) -> None:
    result = run("requests", "show", "r0", "--store", store)
    assert result.exit_code == 0
    for said in (
        "below_threshold",
        "3.500",
        "What digit?",
        "JPEG 2x3",
        "disagree",
        "? read, 9 written, 2 calls",
        "job",
    ):
        assert said in result.stdout
    assert "\x1b" not in result.stdout
    told = json.loads(run("requests", "show", "r0", "--store", store, "--json", "-").stdout)
    assert told["draft_tokens"][0]["top_logprobs"][0] == {"token": "7", "logprob": -0.1}
    assert told["help_probability"] == pytest.approx(0.25)
    assert json.loads(run("requests", "show", "r0", "--store", store, "--json", "-").stdout)["id"] == "r0"


def test_show_takes_the_beginning_of_an_id_where_it_is_one_requests_alone(run: Run, store: str) -> None:
    several, none, wild = (run("requests", "show", id, "--store", store) for id in ("r", "x", "_"))
    assert "several requests begin with 'r'" in several.stderr
    assert "there is no record of a request 'x'" in none.stderr
    assert (several.exit_code, none.exit_code, wild.exit_code) == (2, 2, 2)


def test_export_makes_a_run(run: Run, store: str, tmp_path: Path) -> None:
    result = run("requests", "export", "-o", tmp_path / "run", "--store", store, "--since", "150m", "--json", "x.json")
    assert result.exit_code == 0
    assert "3 observed requests" in result.stdout
    assert json.loads(Path("x.json").read_text())["rows"] == 3
    assert load_run(tmp_path / "run").agrees.tolist() == [False] * 3


def test_prune_deletes_by_flags_or_by_the_settings(run: Run, store: str) -> None:
    settings = ["--set", "store.max_records=5", "--set", "store.max_age_days=1"]
    result = run("requests", "prune", "--store", store, *settings)
    assert result.stdout.strip() == "1 records deleted, 5 left"
    assert run("requests", "prune", "--store", store, "--max-age", "150m").stdout.strip() == "2 records deleted, 3 left"
    found = json.loads(run("requests", "prune", "--store", store, "--max-records", 1, "--json", "-").stdout)
    assert found == {"deleted": 2, "images_deleted": 0, "left": 1}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "--store", "sqlite:////nowhere/at/all.db"], "does not exist"),
        (["list"], "a running gateway makes it"),
        (["list", "--store", "mongodb://u:hunter2@h/d"], "begins with mongodb"),
        (["list", "--since", "yesterday"], "--since yesterday: write 90s"),
        (["export", "-o", "run", "--store", "sqlite:////nowhere/at/all.db"], "does not exist"),
    ],
)
def test_what_is_wrong_is_said(run: Run, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/nowhere")
    result = run("requests", *words)
    assert result.exit_code == 2
    assert said.casefold() in result.stderr.casefold()
    assert "hunter2" not in result.stderr
    assert not Path("/nowhere").exists()


def test_without_the_extra_the_message_names_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[:2] == ["speceyes", "store"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    result = run("requests", "list")
    assert result.exit_code == 2
    assert "pip install 'speceyes[gateway]'" in result.stderr
