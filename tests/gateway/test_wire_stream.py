"""Streams and whole answers as bytes: what each event holds, and that all of it is strict JSON."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from speceyes.events import Answered, Decided, PhaseEnded, TextStreamed, TurnEnded
from speceyes.export import plain_text
from speceyes.gateway.wire.errors import ApiError
from speceyes.gateway.wire.responses import (
    Envelope,
    completion,
    draft_logprobs,
    encode,
    extension,
    route_headers,
    usage,
)
from speceyes.gateway.wire.stream import KEEP_ALIVE, Chunks, event, failure, progress
from speceyes.types import Answer, Crop, Draft, Reason, Token, Trace, Turn, Usage, Verdict

ENVELOPE = Envelope("r1", 1_700_000_000, "speceyes")
DRAFT = Draft(
    "one two", (Token("one", -0.1, (-0.1, -2.0), ("one", "six")), Token(" two", -0.2, (-0.2, -3.0), (" two", "")))
)


def parsed(data: bytes) -> dict[str, Any]:
    assert data.startswith(b"data: ")
    assert data.endswith(b"\n\n")
    assert data.count(b"\n") == 2, "a line end inside an event would cut it in two"
    found: dict[str, Any] = json.loads(data[6:], parse_constant=lambda name: 1 / 0)
    return found


def answer(text: str = "one two", **fields: Any) -> Answer:
    trace = Trace(Reason.ACCEPTED, draft=DRAFT, verdict=Verdict(Reason.ACCEPTED, 7.5, 0.99, 6.0), **fields)
    return Answer(text, trace, "r1")


@given(st.text(st.characters()))
def test_any_text_survives_a_chunk(text: str) -> None:
    chunk = parsed(Chunks(ENVELOPE, include_usage=False).content(text))
    assert chunk["choices"][0]["delta"]["content"] == plain_text(text)
    assert (chunk["id"], chunk["object"], chunk["model"]) == ("chatcmpl-r1", "chat.completion.chunk", "speceyes")


def test_usage_is_null_on_the_way_for_those_who_get_it_in_the_end() -> None:
    for wanted in (True, False):
        chunks = Chunks(ENVELOPE, include_usage=wanted)
        assert ("usage" in parsed(chunks.content("x"))) is wanted
    assert parsed(chunks.usage({"total_tokens": 3}))["choices"] == []


def test_comments_are_no_events() -> None:
    assert KEEP_ALIVE.startswith(b":")
    assert KEEP_ALIVE.endswith(b"\n\n")


def test_a_failure_is_an_error_object() -> None:
    assert parsed(failure(ApiError(502, "broke\noff", code="x")))["error"]["message"] == "broke\noff"


def test_numbers_that_json_has_not_are_null() -> None:
    assert encode({"a": float("nan"), "b": [float("inf")], "\ud800": "\udfff"}) == (
        '{"a":null,"b":[null],"\ufffd":"\ufffd"}'.encode()
    )


def test_usage_sums_models_and_knows_what_it_does_not_know() -> None:
    assert usage({"a": Usage(100, 5, None, 1), "b": Usage(3600, 40, 900, 3)}) == {
        "prompt_tokens": 3700,
        "completion_tokens": 45,
        "total_tokens": 3745,
        "prompt_tokens_details": {"cached_tokens": 900},
    }
    assert usage({"a": Usage(100, None), "b": Usage(1, 1)}) is None
    assert usage({}) == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def test_the_extension_and_the_headers_say_the_same() -> None:
    told = extension("r1", answer(usage={"small": Usage(1, 2, None, 1)}), trace=False, notes=("so",))
    assert told["notes"] == ["so"]
    assert route_headers(told) == {
        "x-speceyes-route": "draft",
        "x-speceyes-reason": "accepted",
        "x-speceyes-score": "7.5",
        "x-speceyes-threshold": "6.0",
    }
    assert "x-speceyes-score" not in route_headers(told | {"score": None})
    assert json.loads(completion(ENVELOPE, answer(), told))["speceyes"]["route"] == "draft"


def test_log_probs_go_as_far_as_the_answer_does() -> None:
    found = draft_logprobs(answer(), 1)
    assert found is not None
    assert [(one["token"], len(one["top_logprobs"])) for one in found["content"]] == [("one", 1), (" two", 1)]
    cut = draft_logprobs(answer("one"), 0)
    assert cut is not None
    assert [(one["token"], one["bytes"], one["top_logprobs"]) for one in cut["content"]] == [
        ("one", [111, 110, 101], [])
    ]
    by_agent = Answer("one", Trace(Reason.BELOW_THRESHOLD, draft=DRAFT), "r1")
    assert draft_logprobs(by_agent, 1) is None


def test_progress_tells_phases_the_gate_and_turns() -> None:
    crop = Crop(0, (1.234, 2, 3, 4), (28, 28), "sign")
    turn = Turn(1, "secret thoughts", "zoom", "seen", (crop,), seconds=1.0, tool_seconds=0.5)
    assert progress(PhaseEnded("q", "screen", 0.25)) == {"phase": "screen", "seconds": 0.25}
    assert progress(TurnEnded("q", turn)) == {
        "phase": "fall_back",
        "turn": 1,
        "tool": "zoom",
        "crop": {"image": 0, "box": [1.23, 2, 3, 4], "size": [28, 28], "label": "sign"},
        "seconds": 1.5,
    }
    gate = progress(Decided("q", Verdict(Reason.BELOW_THRESHOLD, float("nan"), None, 6.0)))
    assert gate == {"phase": "gate", "route": "agent", "reason": "below_threshold", "score": None, "threshold": 6.0}
    assert progress(TextStreamed("q", "answer", "x")) is progress(Answered(answer())) is None
    assert "secret" not in event(progress(TurnEnded("q", turn))).decode()
