"""`speceyes probe` tells what vLLM can do, and has nothing to warn of where it is started as docs/servers.md says."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner
from vllm_server import BLOCK, VllmServer

from speceyes.cli import app
from speceyes.engines.findings import Feature

SEEN = {feature.value: "yes" for feature in Feature} | {
    "sentinels": "no",
    "slots": "unknown",  # these are llama.cpp's
}


@pytest.mark.parametrize("which", ["vllm_draft", "vllm_agent"])
def test_what_vllm_can_do(which: str, request: pytest.FixtureRequest) -> None:
    server: VllmServer = request.getfixturevalue(which)
    result = CliRunner().invoke(app, ["probe", server.url, "--json", "-"])
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    findings = record["findings"]
    outcomes = {name: found["outcome"] for name, found in findings.items()}
    # Whether a less likely token is ever sampled is up to the weights.
    assert outcomes.pop("sampled_first") in ("yes", "unknown")
    assert outcomes == {name: outcome for name, outcome in SEEN.items() if name != "sampled_first"}, findings
    assert (record["model"], record["usable_k"], record["warnings"]) == (f"nano-{server.name}", 64, [])
    assert findings["images"]["number"] == 36 + 2, "a picture's tokens and the marks around them"
    assert findings["prefix_cache"]["number"] % BLOCK == 0
    assert findings["stop"]["detail"] == "the text ends before the stop string"


def test_more_logprobs_than_vllm_was_started_for_are_too_many(vllm_draft: VllmServer) -> None:
    """65 are allowed, one of them for the sampled token."""
    result = CliRunner().invoke(app, ["probe", vllm_draft.url, "--k", "65", "--json", "-"])
    record = json.loads(result.stdout)
    assert record["usable_k"] == 64
    assert any("--max-logprobs 66" in warning for warning in record["warnings"]), record["warnings"]
