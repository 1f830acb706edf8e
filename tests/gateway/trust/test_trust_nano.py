"""Observe and audit with the nano pair, as people start it: processes that are stopped, killed, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_server import data_url, text_part, user

from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.gateway.trust.keeping import read_state
from speceyes.gating.agreement import same_answer

PROGRAM = [sys.executable, "-c", "from speceyes.cli import main; main()"]
AUDIT = ("trust.mode=audit", "trust.audit_alpha=0.5", "trust.audit_share=1", "trust.audits_at_once=8")
PATIENCE_S = 300


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return list(make_samples(8, seed=3))


def environment(folder: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPECEYES_")}
    return clean | {"XDG_STATE_HOME": str(folder)}


@contextmanager
def gateway(folder: Path, *settings: str, end: signal.Signals = signal.SIGTERM) -> Iterator[httpx.Client]:
    """A client of a gateway in a process of its own, which gets the signal in the end."""
    flags = [word for setting in settings for word in ("--set", setting)]
    with subprocess.Popen(
        [*PROGRAM, "serve", "--port", "0", "--set", "observe.log=false", *flags],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, "the gateway did not start"
        try:
            with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
                yield client
        finally:
            process.send_signal(end)
            process.wait(PATIENCE_S)
    assert process.returncode == (0 if end is signal.SIGTERM else -end)


def ask(client: httpx.Client, sample: Sample, model: str = "speceyes") -> dict[str, Any]:
    query = sample.query()
    image = {"type": "image_url", "image_url": {"url": data_url(query.images[0].source)}}
    body = {"model": model, "messages": [user(image, text_part(query.question))]}
    found: dict[str, Any] = client.post("/chat/completions", json=body).raise_for_status().json()
    return found


def said(reply: dict[str, Any]) -> str:
    text: str = reply["choices"][0]["message"]["content"]
    return text


def audit_of(client: httpx.Client) -> dict[str, Any]:
    """The audit's state once no audit is under way."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        told = client.get("/audit").json()
        if not told["audits_under_way"]:
            found: dict[str, Any] = told["audit"]
            return found
        time.sleep(0.05)
    raise AssertionError("an audit does not end")


def test_observed_answers_are_the_agents_and_become_a_run_to_calibrate_on(
    tmp_path: Path, samples: list[Sample]
) -> None:
    with gateway(tmp_path, "trust.mode=observe") as client:
        observed = [ask(client, sample) for sample in samples]
        agents = [ask(client, sample, "speceyes/agent") for sample in samples]
        drafts = [ask(client, sample, "speceyes/draft") for sample in samples]
    assert {reply["speceyes"]["reason"] for reply in observed} == {"observed"}
    assert [said(reply) for reply in observed] == [said(reply) for reply in agents]

    command = [*PROGRAM, "requests", "export", "-o", "run"]
    subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), check=True, timeout=PATIENCE_S)
    from speceyes.evals.records import read_rows

    rows = {row["id"]: row for row in read_rows(tmp_path / "run")}
    assert len(rows) == len(samples)
    for sample, reply, agent, draft in zip(samples, observed, agents, drafts, strict=True):
        row = rows[reply["speceyes"]["request_id"]]
        assert row["tokens"], "each has a draft, whatever screening says"
        assert row["p_yes"] + row["p_no"] > 0.5
        assert row["agrees"] == same_answer(said(draft), said(agent), sample.query().question)


def test_an_audit_goes_on_where_it_was(tmp_path: Path, samples: list[Sample]) -> None:
    state = tmp_path / "speceyes" / "audit.json"
    with gateway(tmp_path, *AUDIT) as client:
        accepted = [reply for reply in (ask(client, s) for s in samples) if reply["speceyes"]["route"] == "draft"]
        first = audit_of(client)
    assert len(accepted) >= 2, "hardly any of eight questions was answered by the draft"
    assert (first["audited"] + first["missing"], first["level"]) == (len(accepted), 0)
    assert first["missing"] == 0

    with gateway(tmp_path, *AUDIT, end=signal.SIGKILL) as client:
        assert audit_of(client) == first, "stopped and started again"
        for sample in samples:
            ask(client, sample)
        second = audit_of(client)
        assert second["audited"] == 2 * first["audited"]
        assert second["losses"] == 2 * first["losses"], "the same questions, the same answers"
        until = time.monotonic() + PATIENCE_S
        while (saved := read_state(state)) is None or saved.current.audited < second["audited"]:
            assert time.monotonic() < until
            time.sleep(0.05)

    with gateway(tmp_path, *AUDIT) as client:
        assert audit_of(client) == second, "killed and started again"
    shown = subprocess.run(
        [*PROGRAM, "audit", "show", str(state), "--json", "-"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert json.loads(shown.stdout) == second


def test_an_audit_of_a_calibration_that_promises_nothing_of_the_kind_does_not_start(tmp_path: Path) -> None:
    calibration = Path(__file__).parents[3] / "models" / "nano" / "gguf" / "calibration.json"
    promises = json.loads(calibration.read_text()).get("promises", [])
    if any(promise["risk"] == "disagreement" for promise in promises):
        pytest.skip("the nano pair's calibration promises it")
    command = [*PROGRAM, "serve", "--port", "0", "--set", "trust.mode=audit"]
    refused = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path, env=environment(tmp_path)
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "trust.audit_alpha" in refused.stderr
    assert "Traceback" not in refused.stderr
