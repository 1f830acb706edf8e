"""The written table of fields: complete, the same in the documentation, and what the code does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from speceyes.gateway.wire.errors import ApiError
from speceyes.gateway.wire.fields import FIELDS, check_served, sampling, table
from speceyes.gateway.wire.requests import ChatBody, read_body
from speceyes.types import Route, Sampling

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"


def read(**fields: Any) -> ChatBody:
    return read_body(json.dumps({"model": "m", "messages": [{"role": "user", "content": "?"}]} | fields).encode())


def test_each_field_that_is_read_has_its_line_and_no_other() -> None:
    assert sorted(field.name for field in FIELDS) == sorted(ChatBody.__struct_fields__)


def test_the_documentation_has_the_same_table() -> None:
    assert "\n".join(table()) in PAGE.read_text()


def test_where_sampling_goes() -> None:
    body = read(
        temperature=0.7,
        top_p=0.9,
        seed=7,
        stop=["\n", "END"],
        max_completion_tokens=16,
        presence_penalty=0.5,
        top_k=20,
        logit_bias={"17": -100},
        reasoning_effort="low",
    )
    extra = {"presence_penalty": 0.5, "top_k": 20, "logit_bias": {"17": -100.0}, "reasoning_effort": "low"}
    assert sampling(body) == Sampling(0.7, 0.9, 7, ("\n", "END"), 16, extra)
    assert sampling(read()) == Sampling()
    assert sampling(read(stop="x")).stop == ("x",)


def test_two_limits_on_the_length_must_agree() -> None:
    assert sampling(read(max_tokens=5, max_completion_tokens=5)).max_answer_tokens == 5
    with pytest.raises(ApiError) as caught:
        sampling(read(max_tokens=5, max_completion_tokens=6))
    assert caught.value.param == "max_completion_tokens"


REFUSED = [
    ("n", 2),
    ("n", 0),
    ("logprobs", True),
    ("response_format", {"type": "json_object"}),
    ("response_format", {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}),
    ("tool_choice", "required"),
    ("functions", [{"name": "f"}]),
    ("function_call", {"name": "f"}),
    ("store", True),
    ("service_tier", "priority"),
    ("modalities", ["text", "audio"]),
    ("audio", {"voice": "x"}),
    ("prediction", {"type": "content", "content": "x"}),
    ("verbosity", "low"),
    ("web_search_options", {}),
]


@pytest.mark.parametrize(("name", "value"), REFUSED)
@pytest.mark.parametrize("route", [None, Route.AGENT])
def test_what_cannot_be_done_is_refused_by_name(name: str, value: Any, route: Route | None) -> None:
    with pytest.raises(ApiError) as caught:
        check_served(read(**{name: value}), route)
    assert (caught.value.status, caught.value.param) == (400, name)
    assert name in caught.value.message


SERVED = [
    ("n", 1),
    ("logprobs", False),
    ("top_logprobs", 0),
    ("response_format", {"type": "text"}),
    ("tools", []),
    ("tool_choice", "auto"),
    ("store", False),
    ("service_tier", "default"),
    ("modalities", ["text"]),
    ("prompt_cache_key", "k"),
    ("parallel_tool_calls", True),
]


@pytest.mark.parametrize(("name", "value"), SERVED)
def test_what_asks_for_nothing_special_is_served(name: str, value: Any) -> None:
    check_served(read(**{name: value}), None)


def test_only_the_draft_returns_log_probs() -> None:
    check_served(read(logprobs=True, top_logprobs=5), Route.DRAFT)
    with pytest.raises(ApiError, match="speceyes/draft"):
        check_served(read(logprobs=True), None)
    with pytest.raises(ApiError, match="needs `logprobs`"):
        check_served(read(top_logprobs=5), Route.DRAFT)


def test_every_line_that_limits_values_is_tested_here() -> None:
    limited = {field.name for field in FIELDS if field.served is not None}
    assert limited <= {name for name, _ in REFUSED} | {"top_logprobs", "tools"}
