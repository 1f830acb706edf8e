"""An answer as JSON: the promised fields, and strict JSON whatever a server or a model came up with."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.export import as_json, plain_number, plain_text
from speceyes.types import (
    AgentRun,
    Answer,
    Crop,
    Draft,
    Finish,
    Reason,
    Screening,
    Token,
    Trace,
    Turn,
    Usage,
    Verdict,
)

TOKEN = Token("7", -0.01, (-0.01, -6.0, -9999.0), ("7", "1", "x"))
CROP = Crop(0, (10.0, 20.123456, 30.0, 40.0), (192, 192), "the sign")
TURN = Turn(0, "<think>…</think>", "image_zoom_in_tool", "", (CROP,), None, Usage(50, 20, 40, 1), 0.5, 0.01, ("slips",))


def refused() -> Answer:
    trace = Trace(
        reason=Reason.BELOW_THRESHOLD,
        screening=Screening(0.1, 0.3, Usage(100, 1, None, 1), 0.1),
        draft=Draft("7", (TOKEN,), None, Usage(90, 2, None, 1), 0.2),
        verdict=Verdict(Reason.BELOW_THRESHOLD, 2.0, 0.77, 3.0),
        run=AgentRun("8", (TURN,), Finish.ANSWERED, Usage(50, 20, 40, 1), 0.5),
        seconds=0.8,
        phase_seconds={"screen": 0.1, "speculate": 0.2, "fall_back": 0.5},
        usage={"large": Usage(150, 21, 40, 2), "small": Usage(90, 2, None, 1)},
        notes=("EngineTimeout: too slow",),
    )
    return Answer("8", trace, "q1")


def test_the_promised_fields_are_there_and_no_others() -> None:
    record = as_json(refused())
    assert list(record) == ["answer", "route", "reason", "score", "threshold", "finish", "usage", "trace"]
    assert (record["answer"], record["route"], record["reason"]) == ("8", "agent", "below_threshold")
    assert (record["score"], record["threshold"]) == (2.0, 3.0)
    trace = record["trace"]
    assert list(trace) == [
        *("version", "query_id", "seconds", "phase_seconds", "screening", "draft", "verdict", "run", "notes"),
        *("attempts", "images", "plan", "plan_why", "closer"),
    ]
    assert trace["screening"]["help_probability"] == 0.25
    assert list(trace["draft"]) == ["text", "fault", "tokens", "depth", "crops", "seconds", "usage"]
    assert trace["draft"]["tokens"][0]["top_logprobs"][1] == {"token": "1", "logprob": -6.0}
    assert list(trace["run"]) == ["text", "finish", "depth", "whole", "turns", "seconds", "usage"]
    assert (trace["run"]["finish"], trace["run"]["depth"]) == ("answered", 1)
    (turn,) = trace["run"]["turns"]
    assert list(turn) == [
        *("index", "text", "tool", "observation", "crops", "error", "repairs", "seconds", "tool_seconds", "usage")
    ]
    assert turn["repairs"] == ["slips"]
    assert turn["crops"] == [{"image": 0, "box": [10.0, 20.12, 30.0, 40.0], "size": [192, 192], "label": "the sign"}]
    assert trace["notes"] == ["EngineTimeout: too slow"]


def test_usage_is_the_sum_over_models_with_each_beside_it() -> None:
    usage = as_json(refused())["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["cached_tokens"], usage["calls"]) == (
        240,
        23,
        40,
        3,
    )
    assert {name: used["calls"] for name, used in usage["models"].items()} == {"large": 2, "small": 1}


def test_unknown_usage_is_null_and_not_nothing() -> None:
    trace = Trace(Reason.ACCEPTED, usage={"small": Usage(None, 3, None, 1), "large": Usage(5, 1, None, 1)})
    usage = as_json(Answer("7", trace))["usage"]
    assert usage["prompt_tokens"] is None
    assert usage["completion_tokens"] == 4


def test_phases_that_did_not_run_are_null() -> None:
    record = as_json(Answer("8", Trace(Reason.SPECULATION_OFF)))
    assert [record["score"], record["threshold"]] == [None, None]
    assert [record["trace"][part] for part in ("screening", "draft", "verdict", "run")] == [None] * 4


@pytest.mark.parametrize(
    ("value", "plain"), [(math.nan, None), (math.inf, None), (-math.inf, None), (None, None), (-9999.0, -9999.0)]
)
def test_json_has_no_numbers_that_are_none(value: float | None, plain: float | None) -> None:
    assert plain_number(value) == plain


@pytest.mark.parametrize(
    ("text", "plain"), [("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "😀"), ("\x00\x1b", "\x00\x1b"), ("é😀", "é😀")]
)
def test_half_characters_are_replaced(text: str, plain: str) -> None:
    assert plain_text(text) == plain


anything = st.text(st.characters(), max_size=8)
numbers = st.floats()
counts = st.none() | st.integers(0, 10**6)


@settings(max_examples=100)
@given(text=anything, number=numbers, count=counts, reason=st.sampled_from(Reason))
def test_it_is_strict_json_whatever_is_in_it(text: str, number: float, count: int | None, reason: Reason) -> None:
    usage = Usage(count, count, count, 1)
    token = Token(text, number, (number, number), (text, text))
    turn = Turn(0, text, text, text, (Crop(0, (1.0, 2.0, 3.0, 4.0), (5, 6), text),), text, usage, repairs=(text,))
    trace = Trace(
        reason,
        Screening(number, number, usage) if number == number and abs(number) < 1e300 else None,
        Draft(text, (token,), reason, usage),
        Verdict(reason, number, number, number),
        AgentRun(text, (turn,), Finish.TURN_LIMIT, usage),
        usage={text: usage},
        notes=(text,),
    )
    record = as_json(Answer(text, trace, text))
    written = json.dumps(record, allow_nan=False, ensure_ascii=False).encode("utf-8", "strict")
    assert json.loads(written) == record
