"""`speceyes record`: a record of what was asked, whole whatever happens to the process that makes it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, Serve

from speceyes.engines.scripted import Outcome, Reply, ScriptedServer, Status, token_reply
from speceyes.evals.datasets.formats import Format, write_benchmark
from speceyes.evals.datasets.readers import open_dataset
from speceyes.evals.records import Manifest, load_run, read_rows
from speceyes.phases.speculate import LOOK

TOP = [-0.01, -6.0, -6.5, -7.0, -7.5, -6.2, -6.8, -7.2]
KILLS = 20


def word_for(prompt: str) -> str:
    """What both models answer to a question: nothing that another question could get by mistake."""
    return f"w{zlib.crc32(prompt.encode())}"


def prompt_of(request: dict[str, Any]) -> str:
    texts = [part["text"] for part in request["messages"][-1]["content"] if part["type"] == "text"]
    return str(texts[0]).partition("\n\n")[0]


def draft_says(request: dict[str, Any], turn: int) -> Outcome:
    return Reply(tokens=[token_reply(word_for(prompt_of(request)), TOP)])


def agent_says(request: dict[str, Any], turn: int) -> Outcome:
    if request["max_tokens"] == 1:
        return Reply(tokens=[token_reply("no", [("no", -0.02), ("yes", -4.0)])])
    return Reply(f"<answer>{word_for(prompt_of(request))}</answer>")


@pytest.fixture
def servers(serve: Serve) -> list[str]:
    """Options for models that answer each question in its own words."""
    return options(serve(draft_says, models=["small"]), serve(agent_says, models=["large"]))


def options(draft: ScriptedServer, agent: ScriptedServer) -> list[str]:
    return ["--draft-url", draft.url, "--agent-url", agent.url, "--k", "8", "--set", "draft.retries=0"]


def check_rows(folder: Path, name: str) -> None:
    """The rows are the questions of the data set, each once, with the answers that belong to them."""
    items = open_dataset(name).items
    rows = list(read_rows(folder))
    assert [row["id"] for row in rows] == [item.id for item in items]
    assert [row["index"] for row in rows] == list(range(len(items)))
    for row, item in zip(rows, items, strict=True):
        assert row["question"] == item.prompt
        assert row["draft_text"] == row["agent_text"] == word_for(item.prompt)
        assert row["tokens"] == [row["draft_text"]]
        assert row["image_sha256"] == [item.image().sha256]


@pytest.mark.parametrize("kind", list(Format))
def test_benchmark_files_are_recorded(run: Run, servers: list[str], tmp_path: Path, kind: Format) -> None:
    write_benchmark(tmp_path / "set", kind, count=2, seed=0)
    result = run("record", tmp_path / "set", "-o", tmp_path / "run", *servers, "--json", tmp_path / "run.json")
    assert result.exit_code == 0, result.stderr
    check_rows(tmp_path / "run", str(tmp_path / "set"))
    figures = json.loads((tmp_path / "run.json").read_text())
    assert figures["rows"] == len(load_run(tmp_path / "run"))
    assert (figures["failed"], figures["agreement"], figures["draft_accuracy"]) == (0, 1.0, 0.0)
    assert figures["run"]["dataset"]["kind"] == kind.kind
    assert figures["bytes_per_row"] > 0


def test_it_tells_what_was_found(run: Run, servers: list[str], tmp_path: Path) -> None:
    result = run("record", "nano:10:0", "-o", tmp_path / "run", *servers)
    assert "10  questions, 0 of them failed" in result.stdout
    assert "both agree" in result.stdout
    assert "recorded 1 of 10\n" in result.stderr
    assert "recorded 10 of 10\n" in result.stderr


def test_json_on_standard_output_is_all_there_is(run: Run, servers: list[str], tmp_path: Path) -> None:
    result = run("record", "nano:2:0", "-o", tmp_path / "run", *servers, "--json", "-")
    assert json.loads(result.stdout)["rows"] == 2


def test_a_larger_limit_goes_on(run: Run, servers: list[str], tmp_path: Path) -> None:
    name, folder = "nano:6:0@calibration", tmp_path / "run"
    for limit in (2, 4):
        run("record", name, "-o", folder, "--limit", limit, *servers)
        assert len(load_run(folder)) == limit
    result = run("record", name, "-o", folder, "--concurrency", 3, *servers)
    assert "4 of 6 questions are recorded already" in result.stderr
    assert "times are those of a loaded machine" in result.stdout
    check_rows(folder, name)
    manifest = Manifest.load(folder)
    assert [session.limit for session in manifest.sessions] == [2, 4, None]
    assert [session.concurrency for session in manifest.sessions] == [1, 1, 3]
    assert manifest.dataset.samples == 6


def test_a_run_is_not_mixed(run: Run, servers: list[str], tmp_path: Path) -> None:
    run("record", "nano:2:0", "-o", tmp_path / "run", *servers)
    for name, more, said in [
        ("nano:2:1", [], "dataset: recorded with"),
        ("nano:2:0", ["--k", "4"], "k: recorded with 8, in use is 4"),
        ("nano:2:0", ["--set", "draft.prompt=Say it."], "draft_prompt: recorded with"),
        ("nano:2:0", ["--set", "agent.max_turns=2"], "agent_max_turns: recorded with "),
    ]:
        result = run("record", name, "-o", tmp_path / "run", *servers, *more)
        assert result.exit_code == 2
        assert said in result.stderr
    check_rows(tmp_path / "run", "nano:2:0")


def test_closer_looks_are_recorded_and_the_run_is_of_that_depth(run: Run, serve: Serve, tmp_path: Path) -> None:
    def looks_once(request: dict[str, Any], turn: int) -> Outcome:
        """It names the same part each time, so a second look shows nothing new."""
        asked = request["messages"][-1]["content"][-1]["text"]
        return Reply('{"bbox_2d": [10, 10, 60, 60]}') if asked.endswith(LOOK) else draft_says(request, turn)

    servers = options(serve(looks_once, models=["small"]), serve(agent_says, models=["large"]))
    words = ("record", "nano:3:0", "-o", tmp_path / "run", *servers)
    result = run(*words, "--max-depth", 2, "--limit", 2)
    assert result.exit_code == 0, result.stderr
    assert "Look 1 of the draft model: it names a part for 100.0 % of the questions" in result.stdout
    assert "Look 2 of the draft model: it names a part for 0.0 %" in result.stdout
    for row in read_rows(tmp_path / "run"):
        assert row["closer_text"] == [row["draft_text"], ""]
        assert row["closer_fault"] == [None, "look_failed"]
        assert row["closer_agrees"] == [True, False]
        assert len(row["closer_box"][0]) == 4
    assert Manifest.load(tmp_path / "run").max_depth == 2
    other = run(*words)
    assert other.exit_code == 2
    assert "draft_max_depth: recorded with 2, in use is 0" in other.stderr
    assert run(*words, "--set", "speculation.max_depth=2").exit_code == 0
    assert len(load_run(tmp_path / "run").closer[0].known) == 3


def test_failed_questions_are_recorded_again_on_request(run: Run, serve: Serve, tmp_path: Path) -> None:
    broken = [True]

    def sometimes(request: dict[str, Any], turn: int) -> Outcome:
        return Status(500) if broken[0] and turn % 3 == 0 else draft_says(request, turn)

    servers = options(serve(sometimes, models=["small"]), serve(agent_says, models=["large"]))
    result = run("record", "nano:6:0", "-o", tmp_path / "run", *servers)
    failed = sum(row["draft_error"] is not None for row in read_rows(tmp_path / "run"))
    assert 0 < failed < 6
    assert f"6  questions, {failed} of them failed" in result.stdout
    broken[0] = False
    run("record", "nano:6:0", "-o", tmp_path / "run", *servers)
    assert sum(row["draft_error"] is not None for row in read_rows(tmp_path / "run")) == failed
    run("record", "nano:6:0", "-o", tmp_path / "run", *servers, "--retry-errors")
    check_rows(tmp_path / "run", "nano:6:0")


def test_a_server_that_is_not_there_is_an_error(run: Run, servers: list[str], tmp_path: Path) -> None:
    result = run("record", "nano:2:0", "-o", tmp_path / "run", "--draft-url", "http://127.0.0.1:9", *servers[2:])
    assert result.exit_code == 1
    assert "error: " in result.stderr


def test_without_pyarrow_it_says_what_to_install(
    run: Run, servers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("record", "nano:2:0", "-o", tmp_path / "run", *servers)
    assert result.exit_code == 2
    assert "pip install 'speceyes[evals]'" in result.stderr


def test_no_key_is_written_down(run: Run, servers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["record", "nano:2:0", "-o", str(tmp_path / "run"), *servers, "--set", "draft.api_key=hush"]
    monkeypatch.setattr(sys, "argv", ["speceyes", *words])
    run(*words)
    assert "draft.api_key=***" in Manifest.load(tmp_path / "run").sessions[0].command
    assert not any(b"hush" in path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())


def start(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "from speceyes.cli import main; main()", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def test_killed_twenty_times_at_random_points_it_loses_no_row_and_doubles_none(serve: Serve, tmp_path: Path) -> None:
    """SIGKILL between a few and a few dozen milliseconds after some answer of the agent, with three rows to a part.

    So it falls before, between and into the appends, the making of a part and the reading of the next question.
    """
    rng = random.Random(20)
    victim: list[int] = []
    answers_left = [0]

    async def agent(request: dict[str, Any], turn: int) -> Outcome:
        if request["max_tokens"] > 1 and victim:
            answers_left[0] -= 1
            if answers_left[0] == 0:
                asyncio.get_running_loop().call_later(rng.uniform(0, 0.04), os.kill, victim.pop(), signal.SIGKILL)
        return agent_says(request, turn)

    servers = options(serve(draft_says, models=["small"]), serve(agent, models=["large"]))
    name, folder = "nano:100:0", tmp_path / "run"
    words = ("record", name, "-o", folder, "--rows-per-part", 3, *servers)
    for life in range(KILLS):
        answers_left[0] = rng.randint(2, 4)  # the first one only warms the servers up
        process = start(*words)
        victim.append(process.pid)
        _, errors = process.communicate(timeout=600)
        assert process.returncode == -signal.SIGKILL, f"life {life} ended by itself: {errors.decode()}"
    sessions = Manifest.load(folder).sessions
    assert len(sessions) == KILLS
    assert not any(session.ended for session in sessions)
    process = start(*words)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()
    check_rows(folder, name)
    assert not list(folder.glob("journal-*"))
    assert not list(folder.glob(".making-*"))


def test_the_nano_pair_is_recorded_and_survives_a_kill(tmp_path: Path) -> None:
    name, folder = "nano:4:0@test", tmp_path / "run"
    words = ("record", name, "-o", folder)
    process = start(*words)
    assert process.stderr is not None
    for line in process.stderr:  # it is about to record the second question
        if line.startswith(b"recorded 1 of 4"):
            process.kill()
    process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL
    assert 1 <= len(load_run(folder)) < 4
    process = start(*words)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()
    items, rows, table = open_dataset(name).items, list(read_rows(folder)), load_run(folder)
    assert [row["id"] for row in rows] == [item.id for item in items]
    assert table.complete.all()
    assert table.bound_to["logprob_mode"] == "raw"
    assert table.bound_to["draft_model"].startswith("nano-draft@sha256:")
    assert (table.answers.given == 64).all()
    scores = table.answers.score("separability", 64, "min")
    assert scores.reasons.tolist() == [None] * 4
    assert all(row["agent_cached_tokens"] > 0 for row in rows), "the agent starts from what screening left"
