"""`speceyes eval`: a set in front, sub-commands beside it, and a run that survives whatever happens to its process."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, Serve

from speceyes.engines.scripted import Outcome, Reply, ScriptedServer, token_reply
from speceyes.evals.datasets.formats import Format, write_benchmark
from speceyes.evals.datasets.readers import open_dataset
from speceyes.evals.runs import open_run, summarise
from speceyes.evals.systems import SystemName

TOP = [-0.01, -6.0, -6.5, -7.0, -7.5, -6.2, -6.8, -7.2]
KILLS = 5


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


def options(draft: ScriptedServer, agent: ScriptedServer) -> list[str]:
    urls = ["--draft-url", draft.url, "--agent-url", agent.url]
    return [*urls, "--k", "8", "--threshold", "2", "--set", "draft.retries=0"]


@pytest.fixture
def servers(serve: Serve) -> list[str]:
    """Options for models that answer each question in its own words."""
    return options(serve(draft_says, models=["small"]), serve(agent_says, models=["large"]))


def check_rows(folder: Path, name: str) -> None:
    """Rows in are rows out: each system's are the questions, each once, with the answers that belong to them."""
    run, items = open_run(folder), open_dataset(name).items
    assert run.complete
    assert [sample.id for sample in run.samples] == [item.id for item in items]
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert len(lines) == len(items) * len(run.header.systems)
    for rows in run.results.values():
        assert [row.id for row in rows] == [item.id for item in items]
        assert [row.text for row in rows] == [word_for(item.prompt) for item in items]
    laps = Counter((lap.system, lap.block) for lap in run.laps)
    assert set(laps.values()) == {1}
    assert len(laps) == run.header.blocks * len(run.header.systems)


def test_the_first_word_is_the_set(run: Run, servers: list[str], tmp_path: Path) -> None:
    words = ("-o", tmp_path / "run", *servers, "--json", tmp_path / "figures.json")
    result = run("eval", "nano:4:0", "--systems", "agent,draft,speceyes", *words)
    assert result.exit_code == 0, result.stderr
    assert "times the agent" in result.stdout
    assert "speceyes report" in result.stdout
    assert "done: agent, 1 at a time\n" in result.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures == json.loads(json.dumps(summarise(open_run(tmp_path / "run"))))
    assert list(figures["systems"]) == ["agent", "draft", "speceyes"]
    check_rows(tmp_path / "run", "nano:4:0")


def test_flags_may_stand_before_the_set(run: Run, servers: list[str], tmp_path: Path) -> None:
    result = run("eval", "--baselines", "draft", "-o", tmp_path / "run", *servers, "nano:2:0", "--json", "-")
    assert result.exit_code == 0, result.stderr
    assert list(json.loads(result.stdout)["systems"]) == ["draft"]


def test_help_is_found(run: Run) -> None:
    group = run("eval", "--help")
    assert group.exit_code == 0
    assert "eval SET -o run/" in " ".join(group.stdout.split())
    assert "--systems" in run("eval", "nano:2:0", "--help").stdout
    assert run("eval").exit_code != 0 or "Usage" in run("eval").stdout


@pytest.mark.parametrize("kind", list(Format)[:3])
def test_benchmark_files(run: Run, servers: list[str], tmp_path: Path, kind: Format) -> None:
    write_benchmark(tmp_path / "set", kind, count=2, seed=0)
    result = run("eval", tmp_path / "set", "-o", tmp_path / "run", *servers, "--json", tmp_path / "figures.json")
    assert result.exit_code == 0, result.stderr
    check_rows(tmp_path / "run", str(tmp_path / "set"))
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["dataset"]["kind"] == open_dataset(str(tmp_path / "set")).kind
    metrics = figures["systems"]["agent"]["metrics"]
    assert set(metrics) == {"vstar": set(), "hrbench": {"rotations"}, "pope": {"pope"}}[figures["dataset"]["kind"]]
    assert figures["systems"]["agent"]["unparsed"] == figures["systems"]["agent"]["n"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--systems", "magic"), "there is no such system"),
        (("--rule", "kind"), "no scoring rule 'kind'"),
        (("--rule", "pope"), "does not cover"),
        (("--concurrency", "1,two"), "--concurrency 1,two: write whole numbers"),
        (("--concurrency", "0"), "must be 1 or more"),
        (("--batch", "2,2"), "each once"),
    ],
)
def test_wrong_words_are_told(run: Run, servers: list[str], tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    result = run("eval", "nano:4:0", "-o", tmp_path / "run", *servers, *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_record_is_no_evaluation(run: Run, servers: list[str], tmp_path: Path) -> None:
    plain = [word for word in servers if word not in ("--threshold", "2")]
    assert run("record", "nano:2:0", "-o", tmp_path / "run", *plain).exit_code == 0
    result = run("eval", "nano:2:0", "-o", tmp_path / "run", *servers)
    assert result.exit_code == 2
    assert "belongs to a record" in result.stderr


def test_no_key_is_written_down(run: Run, servers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["eval", "nano:2:0", "-o", str(tmp_path / "run"), *servers, "--set", "draft.api_key=hush"]
    monkeypatch.setattr(sys, "argv", ["speceyes", *words])
    run(*words)
    assert "draft.api_key=***" in open_run(tmp_path / "run").header.command
    assert not any(b"hush" in path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())


def start(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", "from speceyes.cli import main; main()", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def test_killed_at_random_points_it_loses_no_row_and_doubles_none(serve: Serve, tmp_path: Path) -> None:
    """SIGKILL a few milliseconds after some answer of the agent: before, between and into appends and laps."""
    rng = random.Random(7)
    victim: list[int] = []
    answers_left = [0]

    async def agent(request: dict[str, Any], turn: int) -> Outcome:
        if request["max_tokens"] > 1 and victim:
            answers_left[0] -= 1
            if answers_left[0] == 0:
                asyncio.get_running_loop().call_later(rng.uniform(0, 0.03), os.kill, victim.pop(), signal.SIGKILL)
        return agent_says(request, turn)

    servers = options(serve(draft_says, models=["small"]), serve(agent, models=["large"]))
    name, folder = "nano:30:0", tmp_path / "run"
    words = (
        "eval",
        name,
        "-o",
        folder,
        "--block",
        5,
        "--systems",
        "agent,draft,no-screen",
        *servers,
        "--threshold",
        99,
    )
    done: dict[tuple[str, int], Any] = {}
    for life in range(KILLS):
        answers_left[0] = rng.randint(4, 9)  # the first one only warms the servers up
        process = start(*words)
        victim.append(process.pid)
        _, errors = process.communicate(timeout=600)
        assert process.returncode == -signal.SIGKILL, f"life {life} ended by itself: {errors.decode()}"
        partial = open_run(folder)
        assert not partial.complete
        laps = {(lap.system, lap.block): lap for lap in partial.laps}
        assert done.items() <= laps.items(), "what was run whole is not run again"
        done = laps
    assert done
    process = start(*words)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()
    assert "answers are there already" in errors.decode()
    check_rows(folder, name)
    run = open_run(folder)
    assert len(run.header.sessions) == KILLS + 1
    assert [session.ended is None for session in run.header.sessions] == [True] * KILLS + [False]


def test_interrupted_it_says_how_to_go_on(serve: Serve, tmp_path: Path) -> None:
    victim: list[int] = []

    def agent(request: dict[str, Any], turn: int) -> Outcome:
        if turn == 8 and victim:
            os.kill(victim.pop(), signal.SIGINT)
        return agent_says(request, turn)

    servers = options(serve(draft_says, models=["small"]), serve(agent, models=["large"]))
    words = ("eval", "nano:20:0", "-o", tmp_path / "run", *servers)
    process = start(*words)
    victim.append(process.pid)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Start the same command again to go on" in errors.decode()
    assert "Traceback" not in errors.decode()
    process = start(*words)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors.decode()
    check_rows(tmp_path / "run", "nano:20:0")


@pytest.mark.usefixtures("nano_draft_server", "nano_agent_server")  # they say it best if the models are missing
def test_the_nano_pair_and_all_systems(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    result = run("eval", "nano:12:0@test", "--systems", "all", "-o", folder, "--json", tmp_path / "figures.json")
    assert result.exit_code == 0, result.stderr
    evaluation = open_run(folder)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert set(figures["systems"]) == set(SystemName)
    assert all(system["n"] == 12 and system["errors"] == 0 for system in figures["systems"].values())
    right = {name: system["accuracy"]["successes"] for name, system in figures["systems"].items()}
    assert right["agent"] >= 7
    assert right["oracle"] >= max(right["speceyes"], right["agent"]) - 1
    rows = evaluation.answers
    for name in ("oracle", "no-gate", "random", "speceyes"):
        for one, row in rows[name].items():
            assert (row.reason == "tool_would_help") == (rows["speceyes"][one].reason == "tool_would_help")
    for row in rows["oracle"].values():
        if row.reason != "tool_would_help":
            assert row.accepted == rows["draft"][row.id].right
    assert {row.reason for row in rows["no-gate"].values()} <= {"accepted", "tool_would_help"}
    assert figures["random"]["realised_share"] == figures["random"]["share"]
    assert figures["law"]["costs"]["agent"] > figures["law"]["costs"]["screen"] > 0
    assert figures["depth"]["per_call"]["value"] > 0
    assert all(turn.rating is None or 0 <= turn.rating <= 9 for r in rows["specreason"].values() for turn in r.turns)
    assert sum(turn.by == "draft" for row in rows["specreason"].values() for turn in row.turns) >= 12
    assert all(row.usage["draft"].prompt_tokens for row in rows["speceyes"].values() if "draft" in row.usage)
    assert all(evaluation.picture(sample) is not None for sample in evaluation.samples)
    used = figures["systems"]["draft"]["tokens"]["draft"]
    assert used["cached"] < 0.2 * used["prompt"], "it finds its questions in the cache, where another system left them"
