"""`speceyes ask`: the answer, the account of it, the JSON, and what happens when it cannot be had."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, Serve, WaitUntil

from speceyes.engines.scripted import Hang, Outcome, Reply, ScriptedServer, Status, token_reply
from speceyes.evals.datasets.scenes import draw_scene, make_scene

QUESTION = "What digit is on the red sign?"


def servers(draft: ScriptedServer, agent: ScriptedServer, threshold: float = 6.0) -> list[str]:
    gate = ["--threshold", str(threshold), "--k", "8"]
    return ["--draft-url", draft.url, "--agent-url", agent.url, *gate]


def test_the_answer_alone_goes_to_standard_output(
    run: Run, draft: ScriptedServer, agent: ScriptedServer, picture: Path
) -> None:
    result = run("ask", picture, QUESTION, *servers(draft, agent))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "7\n", "")


def test_json_on_standard_output_is_all_there_is(
    run: Run, draft: ScriptedServer, agent: ScriptedServer, picture: Path
) -> None:
    result = run("ask", picture, QUESTION, *servers(draft, agent), "--json", "-")
    record = json.loads(result.stdout)
    assert list(record) == ["answer", "route", "reason", "score", "threshold", "finish", "usage", "trace"]
    assert [record[name] for name in ("answer", "route", "reason", "threshold")] == ["7", "draft", "accepted", 6.0]
    assert set(record["usage"]["models"]) == {"small", "large"}


def test_json_in_a_file_leaves_the_answer_on_the_screen(
    run: Run, draft: ScriptedServer, agent: ScriptedServer, picture: Path, tmp_path: Path
) -> None:
    result = run("ask", picture, QUESTION, *servers(draft, agent, 1000), "--json", tmp_path / "out.json")
    assert result.stdout == "8\n"
    record = json.loads((tmp_path / "out.json").read_text())
    assert [record[name] for name in ("answer", "route", "reason")] == ["8", "agent", "below_threshold"]


def test_explaining_an_accepted_draft(run: Run, draft: ScriptedServer, agent: ScriptedServer, picture: Path) -> None:
    said = run("ask", picture, QUESTION, *servers(draft, agent), "--explain").stdout
    for part in ("street.png, 600 x 400", "P(yes) 0.018", "P(no) 0.980", "accepted", ">= threshold 6.0000", '"7"'):
        assert part in said
    assert "IV Agent" not in said


def test_explaining_an_agent_run(run: Run, draft: ScriptedServer, agent: ScriptedServer, picture: Path) -> None:
    said = run("ask", picture, QUESTION, *servers(draft, agent, 1000), "--explain").stdout
    # 600 x 400 is seen as 588 x 392 at factor 28, so a pixel there is 600/588 of the original.
    for part in (
        "It is small.",
        'image_zoom_in_tool "the sign"',
        "(57, 57) to (114, 114) of street.png",
        "1 tool call",
    ):
        assert part in said
    for part in ("< threshold 1000.0000", "by the agent", "small: 1 call", "large: 3 calls"):
        assert part in said


def test_explaining_a_call_that_had_to_be_mended(run: Run, serve: Serve, draft: ScriptedServer, picture: Path) -> None:
    def answer(request: dict[str, Any], turn: int) -> Outcome:
        if request["max_tokens"] == 1:
            return Reply(tokens=[token_reply("yes", [("yes", -0.02), ("no", -4.0)])])
        if any(message["role"] == "assistant" for message in request["messages"]):
            return Reply("<answer>8</answer>")
        call = "{'name': 'image_zoom_in_tool', 'arguments': {'bbox_2d': [56, 56, 112, 112]}}"
        return Reply(f"<tool_call>{call}</tool_call>")

    agent = serve(answer, models=["large"])
    said = run("ask", picture, QUESTION, *servers(draft, agent), "--explain").stdout
    assert "its call was mended: Python literal for JSON" in said


def test_the_account_makes_way_for_json(run: Run, draft: ScriptedServer, agent: ScriptedServer, picture: Path) -> None:
    result = run("ask", picture, QUESTION, *servers(draft, agent), "--explain", "--json", "-")
    assert json.loads(result.stdout)["answer"] == "7"
    assert "III Gate" in result.stderr


def test_several_images_and_a_system_prompt_reach_both_models(
    run: Run, draft: ScriptedServer, agent: ScriptedServer, picture: Path
) -> None:
    result = run("ask", picture, picture, QUESTION, *servers(draft, agent), "--system", "In French.")
    assert result.exit_code == 0
    for server in (draft, agent):
        sent = json.dumps(server.completions[0].json["messages"])
        assert sent.count("data:image") == 2
        assert "In French." in sent


def test_settings_come_from_the_file_and_from_assignments(
    run: Run, draft: ScriptedServer, agent: ScriptedServer, picture: Path
) -> None:
    Path("speceyes.toml").write_text(f'[draft]\nurl = "{draft.url}"\n[gate]\nthreshold = 1000.0\nk = 8\n')
    result = run("ask", picture, QUESTION, "--set", f"agent.url={agent.url}", "--threshold", 6)
    assert result.stdout == "7\n"
    other = Path("other.toml")
    other.write_text(Path("speceyes.toml").read_text())
    result = run("ask", picture, QUESTION, "--config", other, "--agent-url", agent.url)
    assert result.stdout == "8\n"


def test_what_a_model_writes_cannot_steer_the_terminal(
    run: Run, serve: Serve, draft: ScriptedServer, picture: Path
) -> None:
    def answer(request: dict[str, Any], turn: int) -> Outcome:
        if request["max_tokens"] == 1:
            return Reply(tokens=[token_reply("yes", [("yes", -0.02), ("no", -4.0)])])
        return Reply("<answer>\x1b]0;owned\x07[bold]8[/bold]\u202e</answer>")

    agent = serve(answer, models=["large"])
    for flags in ([], ["--explain"]):
        said = run("ask", picture, QUESTION, *servers(draft, agent), *flags).stdout
        assert "\\x1b]0;owned\\x07[bold]8[/bold]\\u202e" in said
        assert "\x1b" not in said
    record = json.loads(run("ask", picture, QUESTION, *servers(draft, agent), "--json", "-").stdout)
    assert record["answer"] == "\x1b]0;owned\x07[bold]8[/bold]\u202e", "JSON has it to the letter"


# What goes wrong


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ask", "nope.png", "q", "--threshold", "1"], "error: nope.png: there is no such file."),
        (["ask", "{picture}", " ", "--threshold", "1"], "error: the question is empty"),
        (["ask", "{picture}", "q", "--draft-url", "gpu:1"], "error: --draft-url: a model server's address begins wi"),
        (["ask", "{picture}", "q", "--k", "20"], "error: gate: `k` can be set only together with `threshold`"),
        (["ask", "{picture}", "q", "--calibration", "c", "--threshold", "1"], "(given: --calibration, --threshold)"),
        (["ask", "{picture}", "q", "--set", "draft.retries"], "error: --set draft.retries: write it as NAME=VALUE"),
        (["ask", "{picture}", "q", "--set", "draft.retris=1"], "--set draft.retris is no setting; did you mean draft"),
        (["ask", "{picture}", "q", "--config", "nope.toml"], "error: cannot read the configuration nope.toml"),
        (["ask", "{picture}", "q", "--json", "no/where.json"], "error: --json no/where.json: there is no folder no"),
        (["ask", "{picture}", "q", "--agent-url", "http://127.0.0.1:9"], "error: no threshold is known for these mode"),
        (["ask", "{picture}"], "Missing argument 'IMAGE'"),
    ],
)
def test_a_wrong_call_ends_with_one_clear_line_and_code_2(run: Run, picture: Path, words: list[str], said: str) -> None:
    result = run(*(word.format(picture=picture) for word in words))
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_server_that_is_not_there_ends_with_code_1(run: Run, draft: ScriptedServer, picture: Path) -> None:
    flags = ["--draft-url", draft.url, "--agent-url", "http://127.0.0.1:9", "--threshold", "1"]
    result = run("ask", picture, QUESTION, *flags, "--set", "agent.retries=0", "--json", "-")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "127.0.0.1:9: cannot connect" in result.stderr


def test_an_agent_that_fails_ends_with_code_1(
    run: Run, serve: Serve, draft: ScriptedServer, picture: Path, tmp_path: Path
) -> None:
    agent = serve(Status(400, {"error": {"message": "too many images"}}), models=["large"])
    result = run("ask", picture, QUESTION, *servers(draft, agent), "--json", tmp_path / "out.json")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: large at 127.0.0.1:")
    assert "too many images" in result.stderr
    assert not (tmp_path / "out.json").exists()


def test_a_draft_that_fails_is_survived(run: Run, serve: Serve, agent: ScriptedServer, picture: Path) -> None:
    draft = serve(Status(400, "no"), models=["small"])
    result = run("ask", picture, QUESTION, *servers(draft, agent), "--explain")
    assert result.exit_code == 0
    for part in ("draft_failed", "EngineRefused: small at", "by the agent"):
        assert part in result.stdout


def test_debug_shows_where_an_error_came_from(run: Run) -> None:
    result = run("--debug", "ask", "nope.png", "q", "--threshold", "1")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "error: nope.png: there is no such file." in result.stderr


def test_an_interrupt_hangs_up_and_ends_quietly(
    serve: Serve, draft: ScriptedServer, picture: Path, wait_until: WaitUntil
) -> None:
    agent = serve(Hang(), models=["large"])
    program = [sys.executable, "-c", "from speceyes.cli import main; main()"]
    command = [*program, "ask", str(picture), QUESTION, *servers(draft, agent)]
    asking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(agent, lambda: len(agent.completions) == 1)
        asking.send_signal(signal.SIGINT)
        said = asking.communicate(timeout=20)
    finally:
        asking.kill()
    assert (asking.returncode, *said) == (130, "", "interrupted\n")
    wait_until(agent, lambda: agent.completions[0].done)
    assert agent.completions[0].closed_by_client


# On the models that come with SpecEyes


def test_the_nano_pair_answers(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "scene.png"
    scene = make_scene(123_456_789)
    draw_scene(scene).save(path)
    question = f"What digit is on the {scene.signs[0].color} sign?"
    result = run("ask", path, question, "--json", "-", "--explain")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert record["answer"]
    assert record["trace"]["screening"]["help_probability"] is not None
    assert set(record["usage"]["models"]) <= {"nano-draft", "nano-agent"}
    assert record["usage"]["prompt_tokens"] > 36
    assert record["reason"] in result.stderr
