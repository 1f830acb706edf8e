"""Decoding a chat request: what is taken, and errors that name the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gateway.wire.errors import ApiError
from speceyes.gateway.wire.requests import ChatBody, read_body, read_fields, read_tolerantly

HI: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]


def read(**fields: Any) -> ChatBody:
    return read_body(json.dumps({"model": "speceyes", "messages": HI} | fields).encode())


def refused(raw: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read_body(raw)
    assert caught.value.status == 400
    return caught.value


def test_what_clients_send_as_null_counts_as_not_given() -> None:
    names = [name for name in ChatBody.__struct_fields__ if name not in ("model", "messages")]
    body = read(**dict.fromkeys(names))
    assert all(getattr(body, name) is None for name in names)
    assert (body.options.trace, body.options.deadline_s, body.include_usage, body.stops) == (False, None, False, ())


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"foo": 1}, "foo"),
        ({"temprature": 0.5}, "temprature"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ["", "a"]}, "stop[...]"),
        ({"stop": 5}, "stop"),
        ({"messages": []}, "messages"),
        ({"messages": [{"content": "Hi"}]}, "messages[0]"),
        ({"messages": [*HI, {"role": 7}]}, "messages[1].role"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": {"a": 1}}]}, "messages[0].content"),
        ({"speceyes": {"trce": True}}, "speceyes.trce"),
        ({"speceyes": {"deadline_s": -1}}, "speceyes.deadline_s"),
        ({"stream_options": {"usage": True}}, "stream_options.usage"),
        ({"metadata": {"a": 1}}, "metadata[...]"),
    ],
)
def test_an_error_names_the_field(fields: dict[str, Any], param: str) -> None:
    error = refused(json.dumps({"model": "speceyes", "messages": HI} | fields).encode())
    # msgspec counts the elements of a list only where it knows which one is at fault.
    assert error.param is not None
    assert error.param.replace("[0]", "[...]") == param.replace("[0]", "[...]")
    assert error.param in error.message or "missing" in error.message


@pytest.mark.parametrize("raw", [b"", b"  ", b"{", b"[1]", b'"text"', b"\xff\xfe", b"null", b'{"model": "\xff"}'])
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    refused(raw)


def test_a_missing_field_is_named() -> None:
    assert "messages" in refused(b'{"model": "speceyes"}').message
    assert "model" in refused(b'{"messages": [{"role": "user"}]}').message


def test_messages_keep_what_other_servers_put_into_them() -> None:
    history = {"role": "assistant", "content": "8", "refusal": None, "annotations": [], "reasoning_content": "so"}
    part = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    body = read(messages=[*HI, history, {"role": "user", "name": "ann", "content": [part]}])
    assert [message.role for message in body.messages] == ["user", "assistant", "user"]


def test_a_tolerant_reader_leaves_unknown_fields_to_others_but_not_ours() -> None:
    raw = json.dumps({"model": "m", "messages": HI, "chat_template_kwargs": {"a": 1}}).encode()
    assert read_tolerantly(raw).model == "m"
    with pytest.raises(ApiError):
        read_tolerantly(json.dumps({"model": "m", "messages": HI, "speceyes": {"x": 1}}).encode())


def test_fields_are_kept_to_the_letter() -> None:
    fields = read_fields(b'{"model": "m", "messages": [ 1.50,  "\\u00e9" ]}')
    assert bytes(fields["messages"]) == b'[ 1.50,  "\\u00e9" ]'


def status_of(raw: bytes) -> int:
    try:
        read_body(raw)
    except ApiError as error:
        return error.status
    return 200


@given(st.binary(max_size=200))
def test_no_bytes_bring_the_reader_down(raw: bytes) -> None:
    assert status_of(raw) in (200, 400)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(ChatBody.__struct_fields__), JSON, max_size=6))
def test_no_json_brings_the_reader_down(fields: dict[str, Any]) -> None:
    assert status_of(json.dumps(fields).encode()) in (200, 400)
