"""Finding code in a turn: its end, its fences, its indentation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.agents.dialects.forms import code_call
from speceyes.agents.dialects.literals import Unreadable
from speceyes.agents.dialects.python_code import MAX_CODE, Code, read_code
from speceyes.agents.dialects.tags import TOOL_CALL, read_turn

FORMS = (code_call(), TOOL_CALL)


def read(body: str, behind: str = "</code>") -> Code:
    text = f"<code>{body}{behind}"
    plain = text.find("</code>")
    return read_code(text, len("<code>"), plain if plain >= 0 else len(text))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("\n```python\nx = 1\nprint(x)\n```\n", "x = 1\nprint(x)"),
        ("```py\nx = 1\n```", "x = 1"),
        ("```\nx = 1\n```", "x = 1"),
        ("```python\nx = 1", "x = 1"),
        ("```python\nx = 1```", "x = 1"),
        ("```python x = 1```", "x = 1"),
        ("x = 1", "x = 1"),
        (" x = 1 ", "x = 1"),
        ("\n    x = 1\n    if x:\n        y = 2\n", "x = 1\nif x:\n    y = 2"),
        ("\n    ```python\n    x = 1\n    y = 2\n    ```\n", "x = 1\ny = 2"),
        (" x = 1\ny = 2", "x = 1\ny = 2"),
        ("python\nx = 1", "x = 1"),
        ("Look:\n```python\nx = 1\n```\nNow run it.", "x = 1"),
        ("```python\nx = 1\n```\nand\n```python\ny = x\n```", "x = 1\ny = x"),
        ("\r\n```python\r\nx = 1\r\n```\r\n", "x = 1"),
        ("print('</code>')", "print('</code>')"),
        ('print("a </code> b")', 'print("a </code> b")'),
        ('s = """\n</code>\n"""\nprint(s)', 's = """\n</code>\n"""\nprint(s)'),
        (r"print('it\'s </code>')", r"print('it\'s </code>')"),
        ("# it's a sign\nx = 1", "# it's a sign\nx = 1"),
        ("x = 1  # done", "x = 1  # done"),
        ("print('<answer>')", "print('<answer>')"),
    ],
)
def test_code(body: str, code: str) -> None:
    found = read(body)
    assert found.code.replace("\r", "") == code
    assert found.whole


@pytest.mark.parametrize(
    ("body", "repairs"),
    [
        ("```python\nx = 1\n```", ()),
        ("x = 1", ()),
        ("Look:\n```python\nx = 1\n```", ("text around the code",)),
        ("```python\nx = 1\n```\n```python\ny = 1\n```", ("several blocks of code",)),
        ("python\nx = 1", ("the language's name before the code",)),
    ],
)
def test_what_was_mended_is_named(body: str, repairs: tuple[str, ...]) -> None:
    assert read(body).repairs == repairs


def test_a_quote_that_never_closes_ends_on_its_line() -> None:
    assert read("print('oh)\nx = 1").code == "print('oh)\nx = 1"
    assert read('s = """never closed').code == 's = """never closed'


def test_code_whose_tag_is_missing_is_whole_only_in_a_closed_fence() -> None:
    assert read("```python\nx = 1\n```", behind="").whole
    assert not read("```python\nx = 1", behind="").whole
    assert not read("x = 1", behind="").whole


@pytest.mark.parametrize("body", ["", "  \n ", "```python\n```", "```", "``` ```"])
def test_no_code(body: str) -> None:
    with pytest.raises(Unreadable, match="no code"):
        read(body)


def test_too_much_code() -> None:
    assert len(read("x" * MAX_CODE).code) == MAX_CODE
    with pytest.raises(Unreadable, match="longer than 32000"):
        read("x" * (MAX_CODE + 1))


def test_code_ends_where_an_answer_begins() -> None:
    turn = read_turn("<code>x = 1\n<answer>7</answer>", FORMS)
    assert turn.calls[0].value == {"name": "python", "arguments": {"code": "x = 1"}}
    assert (turn.calls[0].closed, turn.calls[0].whole) == (False, False)
    assert [answer.text for answer in turn.answers] == ["7"]


def test_two_pieces_of_code_are_two_calls() -> None:
    turn = read_turn("<code>x = 1</code> and <code>y = 2</code>", FORMS)
    assert [call.value["arguments"]["code"] for call in turn.calls if call.value] == ["x = 1", "y = 2"]
    assert turn.plain == "and"


def test_a_thought_that_mentions_the_tags_calls_nothing() -> None:
    turn = read_turn("<think>I could use <code> here.</think><answer>7</answer>", FORMS, calls_in_thought=True)
    assert turn.calls == ()
    turn = read_turn("<think>Use <code></code> tags.</think><answer>7</answer>", FORMS, calls_in_thought=True)
    assert turn.calls == ()
    turn = read_turn("<think>So <code>x = 1</code> and</think><answer>7</answer>", FORMS, calls_in_thought=True)
    assert len(turn.calls) == 1
    turn = read_turn("<think>So <code>x = 1", FORMS, calls_in_thought=True)
    assert len(turn.calls) == 1


@given(
    st.lists(
        st.sampled_from(["x = 1", "print('a')", '"b"', "# c", "", "    y = 2", "z = '''d'''", "if x:"]), min_size=1
    )
)
def test_code_comes_out_as_it_went_in(lines: list[str]) -> None:
    code = "\n".join(["a = 0", *lines, "b = 1"])
    form = code_call()
    written = form.write("python", {"code": code})
    assert read(written).code == code
    assert read(written).repairs == ()


@given(st.text(alphabet="x'\"#\\\n `</code>", max_size=80))
def test_any_body_is_code_or_unreadable(body: str) -> None:
    try:
        found = read(body)
    except Unreadable:
        return
    assert found.code.strip()
    assert len("<code>") <= found.end <= len(f"<code>{body}</code>")
