"""What a gateway on a real socket says about its requests: metrics, log lines, records, traces."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_server import (
    QUESTION,
    UNSURE,
    Running,
    agent_says,
    draft_says,
    picture,
    running,
    text_part,
    user,
)
from prometheus_client.parser import text_string_to_metric_families

from speceyes.engines.scripted import Cut, Hang, Status
from speceyes.gateway.observe.logs import LOGGER
from speceyes.store import CLIENT_GONE, RequestRecord, Store

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """The request log's lines."""
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    handler = Keep()
    logging.getLogger(LOGGER).addHandler(handler)
    yield found
    logging.getLogger(LOGGER).removeHandler(handler)


async def metrics(served: Running) -> dict[str, float]:
    """Samples as they stand in the text: `name{label="value",...}`."""
    reply = await served.http.get(f"{served.url.removesuffix('/v1')}/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
    }


def url_of(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'requests.db'}"


async def records(tmp_path: Path) -> list[RequestRecord]:
    async with await Store.open(url_of(tmp_path)) as store:
        return [record async for record in store.iterate()]


async def test_metrics_count_what_happened() -> None:
    async with running() as served:
        assert (await served.ask()).status_code == 200
        assert (await served.ask(stream=True)).status_code == 200
        assert (await served.ask(model="speceyes/agent")).status_code == 200
        assert (await served.ask(model="made-up-by-a-client")).status_code == 404
        found = await metrics(served)
    requests = "speceyes_requests_total model={} reason={} route={} status={}"
    assert found[requests.format("speceyes", "accepted", "draft", 200)] == 2
    assert found[requests.format("speceyes/agent", "forced_agent", "agent", 200)] == 1
    assert not any("made-up" in name for name in found)
    assert sum(value for name, value in found.items() if name.startswith("speceyes_requests_total")) == 4
    assert found["speceyes_requests_under_way"] == 0
    assert found["speceyes_phase_seconds_count phase=screen"] == 2
    assert found["speceyes_phase_seconds_count phase=fall_back"] == 1
    assert found["speceyes_screenings_total passed=true"] == 2
    assert found["speceyes_drafts_total accepted=true"] == 2
    assert found["speceyes_agent_turns_total tool=true"] == 1
    assert found["speceyes_first_token_seconds_count route=draft"] == 1
    assert found["speceyes_model_calls_total model=small"] == 2
    assert found["speceyes_model_calls_total model=large"] == 4
    assert found["speceyes_slots pool=loops state=held"] == 0
    assert found["speceyes_slots pool=stateless state=capacity"] == 8
    assert found["speceyes_circuit_state model=small state=closed"] == 1
    # two drafts were accepted, and the agent's only run tells what each saved
    agent_s = found["speceyes_phase_seconds_sum phase=fall_back"]
    assert 0 < found["speceyes_saved_seconds_total"] <= 2 * agent_s * 1.001


async def test_errors_of_servers_are_told_from_those_of_clients() -> None:
    async with running(draft=lambda request, turn: Status(500)) as served:
        assert (await served.ask()).status_code == 200
        assert (await served.post({"model": "speceyes"})).status_code == 400
        found = await metrics(served)
    assert found["speceyes_upstream_errors_total error=EngineProtocolError upstream=draft"] == 1
    assert sum(value for name, value in found.items() if name.startswith("speceyes_upstream_errors_total")) == 1
    async with running(draft=draft_says(top=UNSURE), agent=agent_says(Cut(0))) as served:
        assert (await served.ask()).status_code >= 500
        found = await metrics(served)
    assert found["speceyes_upstream_errors_total error=EngineUnreachable upstream=agent"] == 1


async def test_a_log_line_tells_all_but_words_images_and_keys(lines: list[str]) -> None:
    image = picture("red", form="JPEG")
    key = "sk-client-secret-key"
    settings = {"observe.log": True, "draft.api_key": "sk-draft-secret", "agent.api_key": "sk-agent-secret"}
    async with running(settings=settings) as served:
        part = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{base64.b64encode(image).decode()}"}}
        body = {"model": "speceyes", "messages": [user(part, text_part(QUESTION))]}
        reply = await served.post(body, headers={"authorization": f"Bearer {key}"})
        assert reply.status_code == 200
    (line,) = lines
    told = json.loads(line)
    assert told["request_id"] == reply.headers["x-speceyes-request-id"]
    assert (told["status"], told["route"], told["reason"]) == (200, "draft", "accepted")
    assert told["score"] > told["threshold"] == 6.0
    assert told["phase_seconds"].keys() >= {"screen", "speculate"}
    assert [(one["format"], one["bytes"]) for one in told["images"]] == [("JPEG", len(image))]
    assert "secret" not in line
    assert QUESTION not in line
    digest = told["images"][0]["sha256"]
    assert not re.search(r"[A-Za-z0-9+/]{40,}", line.replace(digest, ""))


async def test_words_are_in_the_line_only_if_asked_for(lines: list[str]) -> None:
    async with running(settings={"observe.log": True, "observe.log_content": True}) as served:
        assert (await served.ask()).status_code == 200
    told = json.loads(lines[0])
    assert (told["question"], told["answer"]) == (QUESTION, "7")
    assert "base64" not in lines[0]


@pytest.mark.parametrize("content", [False, True])
async def test_requests_become_records(tmp_path: Path, content: bool) -> None:
    settings = {"store.enabled": True, "store.url": url_of(tmp_path), "store.content": content}
    async with running(settings=settings) as served:
        accepted = await served.ask(user="u-7", metadata={"job": "x"})
        forced = await served.ask(model="speceyes/agent", stream=True)
        refused = await served.ask(model="nope")
        found = {record.id: record for record in await _drained(served, tmp_path)}
        first = found[accepted.headers["x-speceyes-request-id"]]
        second = found[forced.headers["x-speceyes-request-id"]]
        third = found[refused.headers["x-speceyes-request-id"]]
    assert len(found) == 3
    assert (first.route, first.reason, first.verdict, first.status) == ("draft", "accepted", "accepted", 200)
    assert (first.user, first.metadata) == ("u-7", {"job": "x"})
    assert [len(token.top_logprobs) for token in first.draft_tokens] == [8]
    assert first.usage["small"].calls == first.usage["large"].calls == 1
    assert first.help_probability is not None
    assert first.setup["draft_model"] == "small"
    assert (second.agent_depth, second.agent_finish, second.streamed) == (1, "answered", True)
    assert second.first_token_s is not None
    assert (third.status, third.route, third.error) == (404, None, "ApiError")
    if content:
        assert (first.question, first.draft_text, second.agent_text) == (QUESTION, "7", "8")
    else:
        assert (first.question, first.draft_text, second.agent_text) == (None, None, None)
        assert QUESTION.encode() not in (tmp_path / "requests.db").read_bytes()


async def test_a_client_that_leaves_is_recorded_with_what_it_cost_by_then(tmp_path: Path) -> None:
    settings = {"store.enabled": True, "store.url": url_of(tmp_path)}
    async with running(agent=agent_says(Hang(), needs_tool=True), settings=settings) as served:
        asking = asyncio.create_task(served.ask(stream=True))
        await served.agent.wait_until(lambda: len(served.agent.completions) == 2, 20)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await served.agent.wait_until(lambda: served.agent.completions[1].closed_by_client, 20)
        (record,) = await _drained(served, tmp_path)
        found = await metrics(served)
    assert (record.status, record.route, record.verdict) == (CLIENT_GONE, None, "tool_would_help")
    assert record.usage["large"].calls >= 1
    assert record.phase_seconds.keys() == {"screen", "fall_back"}
    assert found[f"speceyes_requests_total model=speceyes reason=none route=none status={CLIENT_GONE}"] == 1
    assert found["speceyes_requests_under_way"] == 0


async def test_images_are_kept_only_where_a_folder_is_named(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store.enabled": True, "store.url": url_of(tmp_path), "store.images": tmp_path / "seen"}
    async with running(settings=settings) as served:
        await served.ask()
        await served.ask()
        await _drained(served, tmp_path)
    (file,) = (path for path in (tmp_path / "seen").rglob("*") if path.is_file())
    assert file.read_bytes() == picture()


async def test_a_trace_goes_on_in_the_model_servers() -> None:
    async with running() as served:
        headers = {"traceparent": PARENT, "tracestate": "a=b"}
        await served.post(_body(), headers=headers)
        await served.post(_body())
        first, second = served.draft.completions
        assert (first.headers["traceparent"], first.headers["tracestate"]) == (PARENT, "a=b")
        assert "traceparent" not in second.headers
        assert all(call.headers.get("traceparent") in (PARENT, None) for call in served.agent.completions)


async def test_a_store_that_cannot_be_written_stops_no_request(tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/nothing"
    async with running(settings={"store.enabled": True, "store.url": url, "store.queue": 2}) as served:
        replies: list[httpx.Response] = await asyncio.gather(*(served.ask() for _ in range(6)))
        assert {reply.status_code for reply in replies} == {200}
        found = await metrics(served)
    assert found["speceyes_records_written_total"] == 0
    assert found["speceyes_records_dropped_total cause=full"] >= 1


def _body() -> dict[str, Any]:
    from gateway_server import asked

    return asked()


async def _drained(served: Running, tmp_path: Path) -> list[RequestRecord]:
    recorder = served.gateway.observer.recorder
    assert recorder is not None
    while served.gateway.observer.metrics.under_way:  # noqa: ASYNC110, nobody tells
        await asyncio.sleep(0.01)
    await recorder.drained()
    return await records(tmp_path)
