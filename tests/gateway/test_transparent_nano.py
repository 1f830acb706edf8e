"""`speceyes serve` with the nano pair, under a client that runs the agent's loop itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from gateway_server import data_url, text_part, user

from speceyes.agents import make_dialect
from speceyes.engines.nano import NANO_LIMITS
from speceyes.evals.datasets.samples import Sample, Size, make_samples
from speceyes.imaging.resize import render

DIALECT = make_dialect("deepeyes", limits=NANO_LIMITS)
MODEL = "speceyes/transparent-deepeyes"
QUIETLY = ["--port", "0", "--set", "store.enabled=false", "--set", "observe.log=false"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPECEYES_")}
    program = [sys.executable, "-c", "from speceyes.cli import main; main()", "serve", *QUIETLY]
    folder = tmp_path_factory.mktemp("serve")
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=clean, cwd=folder) as gateway:
        assert gateway.stdout is not None
        yield openai.OpenAI(base_url=gateway.stdout.readline().strip(), api_key="none", max_retries=0)
        gateway.terminate()


def asked(sample: Sample, model: str = MODEL, **fields: Any) -> dict[str, Any]:
    """The question in the dialect's own words, the picture in the size that the agent sees; or for managed mode."""
    picture = render(sample.image, None, NANO_LIMITS)
    image = {"type": "image_url", "image_url": {"url": data_url(picture.png)}}
    if model != MODEL:
        return {"model": model, "messages": [user(image, text_part(sample.question))], **fields}
    system = {"role": "system", "content": DIALECT.prompts.system}
    task = text_part(f"{sample.question}\n\n{DIALECT.prompts.act}")
    tools = {"tools": list(DIALECT.tools), "tool_choice": "none"}
    return {"model": MODEL, "messages": [system, user(image, task)], **tools, **fields}


def routes(client: openai.OpenAI, sample: Sample, **fields: Any) -> tuple[str, str, Any]:
    """Route and reason, from the headers, and the reply."""
    reply = client.chat.completions.with_raw_response.create(**asked(sample, **fields))
    return reply.headers["x-speceyes-route"], reply.headers["x-speceyes-reason"], reply.parse()


def test_such_a_client_gets_the_decisions_of_the_gateways_own_loop(client: openai.OpenAI) -> None:
    """Same words, same models, same pictures: so the nano pair's calibration holds here too."""
    trace = {"extra_body": {"speceyes": {"trace": True}}}
    accepted = 0
    for sample in make_samples(8, seed=3):
        route, reason, reply = routes(client, sample, **trace)
        own_route, own_reason, own = routes(client, sample, model="speceyes", **trace)
        assert (route, reason) == (own_route, own_reason)
        if route == "draft":
            accepted += 1
            mine, other = (found.model_extra["speceyes"] for found in (reply, own))
            assert mine["score"] == pytest.approx(other["score"], rel=1e-2)
            screened = [found["trace"]["screening"]["help_probability"] for found in (mine, other)]
            assert screened[0] == pytest.approx(screened[1], abs=1e-2)
            content = reply.choices[0].message.content
            assert content.endswith(f"<answer>{own.choices[0].message.content}</answer>")
    assert 0 < accepted < 8


@pytest.mark.parametrize("stream", [False, True])
def test_what_needs_a_closer_look_comes_from_the_agent_word_for_word(client: openai.OpenAI, stream: bool) -> None:
    small = [sample for sample in make_samples(8, seed=3) if sample.size is Size.SMALL]
    written = []
    for sample in small:
        route, _, reply = routes(client, sample, max_tokens=200, temperature=0, stream=stream)
        if stream:
            text = "".join(chunk.choices[0].delta.content or "" for chunk in reply if chunk.choices)
        else:
            text = reply.choices[0].message.content
        if route == "agent":
            written.append(text)
    assert any("<tool_call>" in text for text in written), written
