"""A request's JSON with fields replaced: every other byte stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gateway.wire.splice import spliced

NEW = b'"NEW"'


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"model":"a","x":1}', b'{"model":"NEW","x":1}'),
        (b'\n{ "x" : [1, {"model": 2}] ,\t"model" : "a" }\n', b'\n{ "x" : [1, {"model": 2}] ,\t"model" : "NEW" }\n'),
        (b'{"x":"\\"model\\":","model":"a","y":1.0e0}', b'{"x":"\\"model\\":","model":"NEW","y":1.0e0}'),
        (b'{"mod\\u0065l":"a","y":"\xc3\xa9"}', b'{"mod\\u0065l":"NEW","y":"\xc3\xa9"}'),
        (b'{"speceyes":{"a":1}, "model":"a"}', b'{"model":"NEW"}'),
        (b'{"model":"a","speceyes":{"a":1}}', b'{"model":"NEW"}'),
        (b'{"x":1,"speceyes":null ,"model":"a"}', b'{"x":1 ,"model":"NEW"}'),
        (b'{"speceyes":1}', b"{}"),
        (b"{}", b"{}"),
    ],
)
def test_only_the_named_fields_change(raw: bytes, expected: bytes) -> None:
    for given_as in (raw, bytearray(raw)):
        assert spliced(given_as, {"model": NEW, "speceyes": None}) == expected


@pytest.mark.parametrize(
    "raw", [b'{"model":"a","model":"b"}', b'{"x":1,"model":"a","x":2}', b'{"model":"a","y":1,"speceyes":2,"model":"b"}']
)
def test_a_field_that_stands_there_twice_counts_once_as_readers_have_it(raw: bytes) -> None:
    wanted = json.loads(raw) | {"model": "NEW"}
    wanted.pop("speceyes", None)
    assert json.loads(spliced(raw, {"model": NEW, "speceyes": None})) == wanted


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["model", "speceyes", "x", "\n", '"', "é", "\\"]), _VALUES),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
)
def test_it_means_the_same_but_for_those_fields(body: dict[str, object], indent: int | None, ascii_only: bool) -> None:
    raw = json.dumps(body, indent=indent, ensure_ascii=ascii_only).encode()
    wanted = {name: "NEW" if name == "model" else value for name, value in body.items() if name != "speceyes"}
    written = spliced(raw, {"model": NEW, "speceyes": None})
    assert json.loads(written) == wanted
    if "model" not in body and "speceyes" not in body:
        assert written == raw
