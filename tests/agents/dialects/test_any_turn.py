"""Whatever a model writes, in every dialect: nothing raises, no tag reaches the user, nothing shown is taken back."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from speceyes.agents.dialects import DIALECTS, Call, Dialect, Final, Malformed, Occasion
from speceyes.agents.dialects.conformance import dialect_to_check
from speceyes.agents.dialects.conformance.stage import check_history
from speceyes.tools import ToolResult
from speceyes.types import ChatRequest, Completion, Delta, ToolCall

MADE = {name: dialect_to_check(name) for name in DIALECTS}
DIALECT = st.sampled_from(sorted(MADE)).map(MADE.__getitem__)
LONG = "The small sign on the left, half behind the tree, says that parking is free on Sundays and on all holidays."
ARGUMENTS = {"bbox_2d": [0.1, 0.2, 0.3, 0.4], "code": "x = '</code>'"}
CALLS = [
    dialect.write_call(dialect.write_body(next(iter(dialect.toolbox)), ARGUMENTS)).text  # type: ignore[attr-defined]
    for dialect in MADE.values()
]
TAG_NAMES = "think answer tool_call code grounding sandbox_output tool_response".split()  # noqa: SIM905
SHARDS = "<|im_end|> <|begin_of_box|> <|end_of_box|> ```python ``` { } [ ' \" # \\ < </ 7 red".split()  # noqa: SIM905
MORE = ["\n", "\0", "\ud83d", r"\boxed{", r"\boxed{C}", '{"bbox_2d": [1, 2]}', '"""', "x = 1", "print('</code>')"]
TAGGED = [f"<{end}{name}>" for name in TAG_NAMES for end in ("", "/")]
fragments = st.sampled_from([*TAGGED, *SHARDS, *CALLS, *MORE, LONG, LONG[:79]])
texts = st.one_of(st.lists(fragments, max_size=10).map("".join), st.text(max_size=60))
calls = st.builds(
    ToolCall,
    st.sampled_from(["", "1"]),
    st.sampled_from(["", "python", "zoom", "image_zoom_in_tool"]),
    st.one_of(texts, st.sampled_from(['{"bbox_2d": [1, 2, 3, 4]}', '{"bbox_2d": [NaN, 1e999]}'])),
)
completions = st.builds(
    Completion,
    texts,
    st.sampled_from(["stop", "length", "tool_calls", "content_filter"]),
    reasoning=st.one_of(st.just(""), texts),
    tool_calls=st.lists(calls, max_size=2).map(tuple),
)
slow = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TAGS = ("<think>", "</think>", "<answer>", "</answer>", "<tool_call>", "</tool_call>", "<|im_end|>")


@slow
@given(DIALECT, completions)
@example(MADE["thyme"], Completion("<think>a <code>x = '</think>'</code> b</think><answer>7</answer>", "stop"))
@example(MADE["native"], Completion("", "tool_calls", tool_calls=(ToolCall("1", "image_zoom_in_tool", "[" * 9999),)))
def test_nothing_raises_and_everything_can_be_sent_on(dialect: Dialect, completion: Completion) -> None:
    action, closing = dialect.parse(completion), dialect.closing_answer(completion)
    assert dialect.parse(completion) == action
    for final in (action, closing):
        if isinstance(final, Final):
            assert not [tag for tag in TAGS if tag in final.text]
    if isinstance(action, Call):
        assert action.name in dialect.toolbox
        assert isinstance(action.identity, str)
    elif isinstance(action, Final):
        assert action.text
    else:
        assert action.message.strip()
    occasion = Occasion(completion)
    result = ToolResult(error=action.message) if isinstance(action, Malformed) else ToolResult("seen")
    told = (*dialect.observation_messages(result, occasion), *dialect.notice_messages("Again?", occasion))
    history = (*dialect.assistant_messages(completion), told[0])
    for message in (*history, *told, {"content": dialect.written(completion)}):
        json.dumps(message["content"]).encode()
    check_history([ChatRequest(({"role": "user", "content": "Q"}, *history), 9)])


@slow
@given(DIALECT, texts, st.lists(st.integers(0, 400), max_size=20), st.sampled_from(["stop", "length"]))
def test_readers_and_parsers_agree_however_a_turn_is_cut(
    dialect: Dialect, text: str, at: list[int], finish: str
) -> None:
    whole = shown(dialect, text)
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in at)})
    assert shown(dialect, *(text[a:b] for a, b in pairwise(edges))) == whole
    if answer := whole["answer"]:
        for final in (dialect.parse(Completion(text, finish)), dialect.closing_answer(Completion(text, finish))):
            assert isinstance(final, Final)
            assert final.text == answer


@slow
@given(DIALECT, st.lists(st.sampled_from(["<think>", "</think>", "7", "\n"]), max_size=5).map("".join))
def test_no_character_of_a_call_is_shown(dialect: Dialect, before: str) -> None:
    tool = next(iter(dialect.toolbox))
    body = dialect.write_body(tool, {"bbox_2d": [0.1, 0.2, 0.3, 0.4], "code": "secret_0 = 0.1"})  # type: ignore[attr-defined]
    told = shown(dialect, before + dialect.write_call(body).text * 2)  # type: ignore[attr-defined]
    assert "secret_0" not in told["thought"] + told["answer"]
    assert "0.2" not in told["thought"] + told["answer"]


def shown(dialect: Dialect, *texts: str) -> dict[str, str]:
    reader = dialect.reader()
    pieces = [piece for text in texts for piece in reader.feed(Delta(text))]
    pieces += reader.close()
    return {kind: "".join(p.text for p in pieces if p.kind == kind) for kind in ("thought", "answer")}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(
    "text", ["<answer>" * 20_000, "<think>" * 20_000, "<code>'" * 20_000, "<tool_call>{" * 20_000, r"\text{" * 20_000,
             "<code>" + r"\'" * 60_000, "<code>" + '"""' * 40_001, r"\boxed{" * 20_000, "<" * 100_000]
)  # fmt: skip
def test_long_nonsense_is_read_all_the_same(name: str, text: str) -> None:
    """A parser that looks at the whole rest for every tag would take minutes here."""
    dialect = MADE[name]
    for finish in ("stop", "length"):
        assert dialect.parse(Completion(text, finish)) is not None
        assert dialect.closing_answer(Completion(text, finish)) is not None
