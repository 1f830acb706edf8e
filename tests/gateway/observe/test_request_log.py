"""The request log: strict JSON, and nobody who does not read it stops a request."""

from __future__ import annotations

import io
import json
import logging
import math
import threading

import pytest

from speceyes.gateway.observe.logs import LOGGER, RequestLog, line_of
from speceyes.store import ImageFacts, RequestRecord
from speceyes.types import Usage

RECORD = RequestRecord(
    id="r1",
    created=1_700_000_000.1234,
    model="speceyes",
    status=200,
    route="agent",
    reason="tool_would_help",
    score=math.nan,
    threshold=-math.inf,
    question="first line\nsecond {} %s line",
    draft_text="7",
    agent_text="8",
    usage={"small": Usage(5, 1, None, 1), "large": Usage(None, 9, None, 2)},
    phase_seconds={"screen": 0.123456789},
    images=(ImageFacts("ab" * 32, "JPEG", 10, 2, 3),),
)


def test_a_line_is_strict_json_on_one_line() -> None:
    line = line_of(RECORD, content=True, trace_id="4bf9")
    assert "\n" not in line
    told = json.loads(line, parse_constant=pytest.fail)
    assert told["time"] == "2023-11-14T22:13:20.123Z"
    assert (told["score"], told["threshold"], told["phase_seconds"]) == (None, None, {"screen": 0.123457})
    assert (told["prompt_tokens"], told["completion_tokens"]) == (None, 10)
    assert (told["question"], told["answer"], told["trace_id"]) == (RECORD.question, "8", "4bf9")


def test_lines_reach_the_stream_whole_and_in_order() -> None:
    stream = io.StringIO()
    log = RequestLog(stream, content=True)
    for _ in range(50):
        log.write(RECORD)
    log.close(30)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 50
    assert {json.loads(line)["question"] for line in lines} == {RECORD.question}
    assert not logging.getLogger(LOGGER).handlers


def test_a_reader_who_does_not_read_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speceyes.gateway.observe.logs.WAITING_LINES", 5)
    let_go = threading.Event()

    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            let_go.wait(30)
            return super().write(text)

    stream = Stuck()
    log = RequestLog(stream)
    for _ in range(20):
        log.write(RECORD)
    assert log.dropped >= 14  # one is being written, five wait
    log.close(0.01)
    let_go.set()
