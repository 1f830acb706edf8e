"""Reading what a model wrote for JSON: mended where that is safe, refused where it is not, never run."""

import json
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.agents.dialects.literals import MAX_CHARS, Unreadable, read_nested, read_object

BOX = {"bbox_2d": [1, 2, 30, 40]}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(max_size=8), json_values, max_size=4)


@settings(max_examples=100)
@given(json_objects, st.text(max_size=10), st.text(max_size=10))
def test_strict_json_is_read_as_it_is_wherever_it_stands(value: dict, before: str, after: str) -> None:
    body = json.dumps(value)
    reading = read_object(before + body + after, len(before))
    assert reading.value == json.loads(body)
    assert reading.end == len(before) + len(body)
    assert reading.repairs == ()


@settings(max_examples=100)
@given(json_objects)
def test_python_literals_give_what_the_json_would(value: dict) -> None:
    assert read_object(repr(value), 0).value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"bbox_2d": [1, 2, 30, 40],}', BOX),
        ('{"bbox_2d": [1, 2, 30, 40,],}', BOX),
        ('{"bbox_2d": [1, 2, 30, 40] // here\n}', BOX),
        ('{"bbox_2d": [1, 2, 30, 40] /* here */}', BOX),
        ('{"bbox_2d": [1, 2, 30, 40] # here\n}', BOX),
        ("{'bbox_2d': [1, 2, 30, 40]}", BOX),
        ("{'bbox_2d': (1, 2, 30, 40)}", BOX),
        ("{'a': \"cat's ear\"}", {"a": "cat's ear"}),
        ("{'a': true, 'b': None, 'c': null, 'd': False}", {"a": True, "b": None, "c": None, "d": False}),
        ("{'a': 'true // not, a comment,}'}", {"a": "true // not, a comment,}"}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ("{'a': 'two\nlines'}", {"a": "two\nlines"}),
        (r"{'a': 'C:\dir', 'b': 'x\/y'}", {"a": "C:\\dir", "b": "x/y"}),
        ('{"a": {"b": [1, 2]}', {"a": {"b": [1, 2]}}),
        ('{"a": {"b": "c",', {"a": {"b": "c"}}),
        ('{"a": -1.5e3}', {"a": -1500.0}),
        ("{'a': -1.5e3}", {"a": -1500.0}),
        (r'{"a": "\ud800"}', {"a": "?"}),
    ],
)
def test_slips_are_mended(text: str, value: dict) -> None:
    assert read_object(text, 0).value == value


def test_each_mend_is_named() -> None:
    assert read_object("{'a': [1]", 0).repairs == ("missing braces", "Python literal for JSON")
    assert read_object('{"a": 1,}', 0).repairs == ("slips in the JSON",)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2, 3',  # 3 may be the head of 30
        '{"a": "cut he',
        '{"a": 1',
        '{"a": tr',
        "{1, 2}",
        "{'a': b'bytes'}",
        "{'a': 1 + 2j}",
        "{'a': 1 if 1 else 2}",
        "{'a': f'{1}'}",
        "{'a': [1] * 1000000000}",
        "{'a': 10**10**10}",
        "{[1]: 2}",
        "{1: 2}",
        "{'a': 0x" + "f" * 5000 + "}",
        '{"a": ' + "9" * 5000 + "}",
        '{"a": 99999999999999999999999}',
        '{"a": ' * 3000 + "1" + "}" * 3000,
        '{"a": ' + "[" * 900 + "]" * 900 + "}",
        "{'a': " + "-" * 5000 + "1}",
        '{"a": "' + "x" * MAX_CHARS + '"}',
        "{",
    ],
)
def test_the_rest_is_refused_with_one_line(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Unreadable) as caught:
            read_object(text, 0)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 100


def test_nothing_is_evaluated(tmp_path) -> None:
    target = tmp_path / "written"
    for text in (
        f"{{'a': open({str(target)!r}, 'w')}}",
        f"{{'a': __import__('pathlib').Path({str(target)!r}).touch()}}",
        f"{{**{{}}, 'a': [x for x in open({str(target)!r}, 'w')]}}",
    ):
        with pytest.raises(Unreadable):
            read_object(text, 0)
    assert not target.exists()


@pytest.mark.parametrize(
    ("value", "inner"),
    [
        (BOX, BOX),
        (json.dumps(BOX), BOX),
        (json.dumps(json.dumps(BOX)), BOX),
        (str(BOX), BOX),
        ("", {}),
        ("  ", {}),
        ("the cat", "the cat"),
        ([], []),
        (None, None),
        (json.dumps(json.dumps(json.dumps(BOX))), json.dumps(BOX)),
    ],
)
def test_double_encoding_is_undone_twice_at_most(value: object, inner: object) -> None:
    assert read_nested(value)[0] == inner


@settings(max_examples=150)
@given(st.text(alphabet="{}[](),:'\"\\ \n-+.e019truefalsnN#/*b", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        reading = read_object("{" + text, 0)
    except Unreadable:
        return
    assert isinstance(reading.value, dict)
    json.dumps(reading.value)
