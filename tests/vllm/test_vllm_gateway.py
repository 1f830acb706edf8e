"""OpenAI's own client through `speceyes serve` onto two servers of vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import openai
import pytest
from serve_process import Process, question, started, told

from speceyes.evals.datasets.samples import Sample

TRACE = {"extra_body": {"speceyes": {"trace": True}}}


@pytest.fixture(scope="module")
def gateway(overrides: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """It looks at both servers when it starts, and would not start over one without log-probs."""
    settings = {**overrides, "store.enabled": "false", "observe.log": "false"}
    flags = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    process = started(tmp_path_factory.mktemp("serve"), *flags)
    yield process
    code, out, err = process.stop()
    assert (code, out) == (0, ""), err


@pytest.fixture
def client(gateway: Process) -> openai.OpenAI:
    return openai.OpenAI(base_url=gateway.url, api_key="none", max_retries=0, timeout=300)


def test_answers_come_by_both_routes_with_a_trace(client: openai.OpenAI, samples: list[Sample]) -> None:
    routes = set()
    for sample in samples:
        answer = client.chat.completions.create(**question(sample), **TRACE)
        assert answer.choices[0].message.content
        assert answer.choices[0].finish_reason == "stop"
        found = told(answer)
        trace = found["trace"]
        assert trace["screening"]["help_probability"] is not None
        assert set(found["usage_by_model"]) <= {"nano-draft", "nano-agent"}
        if found["route"] == "draft":
            assert found["score"] >= found["threshold"]
        else:
            assert trace["run"]["turns"]
            assert found["usage_by_model"]["nano-agent"]["cached_tokens"] > 0
        routes.add(found["route"])
    assert routes == {"draft", "agent"}


@pytest.mark.parametrize("model", ["speceyes/draft", "speceyes/agent"])
def test_a_stream_says_the_same_as_the_whole(client: openai.OpenAI, samples: list[Sample], model: str) -> None:
    whole = client.chat.completions.create(**question(samples[0], model=model))
    chunks = list(client.chat.completions.create(**question(samples[0], model=model, stream=True)))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert told([chunk for chunk in chunks if chunk.choices][-1])["route"] == told(whole)["route"]
