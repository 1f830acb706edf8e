"""`speceyes probe`: the account of a server, its warnings, and its exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Run, Serve

from speceyes.engines.findings import Feature
from speceyes.engines.scripted import Outcome, Reply, Status


def words(request: dict[str, Any], turn: int) -> Outcome:
    return Reply("A red one.")


def test_the_record_has_every_finding_and_the_warnings(run: Run, serve: Serve) -> None:
    server = serve(words, models=["small"], max_top_logprobs=20)
    result = run("probe", server.url, "--json", "-")
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    assert set(record["findings"]) == set(Feature)
    assert (record["model"], record["want_logprobs"], record["usable_k"]) == ("small", 64, 19)
    assert any("The gate needs 64 log-probs a token and gets 19" in warning for warning in record["warnings"])


def test_for_people_there_is_a_table(run: Run, serve: Serve) -> None:
    server = serve(words, models=["small"])
    result = run("probe", server.url, "--k", 8)
    assert result.exit_code == 0
    for part in ("usable K: 8 of 8", "logprob count", "prefix cache", "yes", "warning:"):
        assert part in result.stdout


def test_the_model_can_be_named_and_the_key_comes_from_the_environment(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(words, models=["a", "b"], api_key="sk-right")
    monkeypatch.setenv("THE_KEY", "sk-right")
    result = run("probe", server.url, "--api-key-env", "THE_KEY")
    assert result.exit_code == 2
    assert "has 2 models: a, b. Name one (--model)" in result.stderr
    result = run("probe", server.url, "--api-key-env", "THE_KEY", "--model", "b", "--json", "-")
    assert json.loads(result.stdout)["model"] == "b"
    assert {request.json["model"] for request in server.completions} == {"b"}


def test_a_server_that_does_not_answer_ends_with_code_1(run: Run, serve: Serve) -> None:
    server = serve(Status(500, "down"), models=["small"])
    result = run("probe", server.url, "--json", "-")
    assert result.exit_code == 1
    assert "error: the model small does not answer" in result.stderr
    assert json.loads(result.stdout)["findings"]["chat"]["outcome"] != "yes"


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["gpu:8000"], 2, "begins with http:// or https://"),
        (["http://127.0.0.1:9"], 1, "cannot connect"),
        (["http://127.0.0.1:9", "--api-key-env", "NOT_SET"], 2, "that environment variable is not set"),
        (["http://127.0.0.1:9", "--json", "no/where"], 2, "there is no folder no"),
        (["http://127.0.0.1:9", "--k", "2"], 2, "--k"),
    ],
)
def test_what_cannot_be_probed_is_one_clear_line(run: Run, flags: list[str], code: int, said: str) -> None:
    result = run("probe", *flags)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
