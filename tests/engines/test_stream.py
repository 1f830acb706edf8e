"""Events and chunks put together: usage in all its places, tool calls in pieces, errors inside a 200."""

import json
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.engines import assembly as assembly_module
from speceyes.engines.assembly import Assembly, read_usage
from speceyes.engines.script import chunks, whole_reply
from speceyes.engines.scripted import Reply, token_reply
from speceyes.engines.sse import MAX_EVENT_BYTES, EventStream
from speceyes.errors import EngineProtocolError, EngineUnreachable
from speceyes.types import Completion, ToolCall, Usage


def assemble(events: Sequence[Mapping[str, Any]], k: int | None = None) -> Completion:
    assembly = Assembly("here", k=k, begin=time.perf_counter())
    for event in events:
        assembly.add_text(json.dumps(event))
    return assembly.completion(done=True)


def chunk(content: str | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    delta = {} if content is None else {"content": content}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields}


def test_time_to_the_first_token_is_not_time_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(assembly_module, "time", SimpleNamespace(perf_counter=lambda: now))
    assembly = Assembly("here", k=None, begin=now)
    for piece in (chunk(), chunk("A"), chunk(" cat"), chunk(finish="stop")):
        now += 1.0
        assembly.add_text(json.dumps(piece))
    completion = assembly.completion(done=True)
    assert (completion.first_token_s, completion.seconds) == (2.0, 4.0)


USAGE = {"prompt_tokens": 100, "completion_tokens": 3, "total_tokens": 103}
NO_CHOICE = {"choices": []}


# Events


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_events_do_not_depend_on_how_the_bytes_are_cut(data: st.DataObject) -> None:
    payloads = data.draw(st.lists(st.text(min_size=1).filter(lambda text: not set(text) & set("\r\n")), max_size=5))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    raw = "".join(f": ping{end}{end}event: x{end}data: {payload}{end}{end}" for payload in payloads).encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=8)))
    stream = EventStream()
    out = [payload for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True) for payload in stream.feed(raw[a:b])]
    assert out + stream.close() == payloads


def test_event_forms() -> None:
    stream = EventStream()
    assert stream.feed(b"data:a\n\ndata: b\ndata:  c\n\nretry: 5\ndata\n\n\n\n") == ["a", "b\n c"]
    assert stream.feed(b'error: {"code": 500}\n\n{"error": "bare"}\n') == [
        '{"code": 500}',
        '{"error": "bare"}',
    ]
    assert stream.feed(b"data: last") == []
    assert stream.close() == ["last"]
    assert stream.close() == []


def test_an_endless_event_is_refused() -> None:
    stream = EventStream()
    stream.feed(b"data: " + bytes(MAX_EVENT_BYTES - 100))
    with pytest.raises(EngineProtocolError, match="larger than"):
        stream.feed(bytes(200))


# Usage


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([chunk("A"), chunk(" cat", "stop"), {**NO_CHOICE, "usage": USAGE}], id="last, no choices"),
        pytest.param([chunk("A"), chunk(" cat", "stop", usage=USAGE)], id="last, with choice"),
        pytest.param(
            [
                chunk("A", usage={"prompt_tokens": 100, "completion_tokens": 1}),
                chunk(" cat", "stop", usage={"prompt_tokens": 100, "completion_tokens": 2}),
                {**NO_CHOICE, "usage": USAGE},
            ],
            id="on each, running total",
        ),
        pytest.param(
            [chunk("A cat", "stop"), {**NO_CHOICE, "usage": USAGE}, {**NO_CHOICE, "usage": USAGE}], id="twice"
        ),
        pytest.param(
            [
                {**NO_CHOICE, "usage": None},
                chunk("A cat"),
                chunk(None, "stop"),
                {**NO_CHOICE, "usage": USAGE},
            ],
            id="first chunk without choices",
        ),
        pytest.param(
            [chunk("A cat", "stop"), {"choices": [{"index": 0, "delta": {}, "usage": USAGE}]}],
            id="in the choice",
        ),
        pytest.param([chunk("A cat", "stop"), {"choices": None, "usage": USAGE}], id="choices null"),
        pytest.param([chunk("A cat", "stop"), {"usage": USAGE}], id="choices missing"),
    ],
)
def test_usage_wherever_it_comes(events: list[dict[str, Any]]) -> None:
    completion = assemble(events)
    assert completion.usage == Usage(100, 3, None, calls=1)
    assert (completion.text, completion.finish_reason) == ("A cat", "stop")


def test_usage_that_never_comes_is_unknown_not_zero() -> None:
    assert assemble([chunk("A", "stop")]).usage == Usage(None, None, None, calls=1)


@pytest.mark.parametrize(
    ("usage", "timings", "expected"),
    [
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 64}}, {}, Usage(100, 3, 64, 1)),
        ({**USAGE, "prompt_tokens_details": None}, {"cache_n": 90, "prompt_n": 10}, Usage(100, 3, 90, 1)),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 0}}, {"cache_n": 9}, Usage(100, 3, 0, 1)),
        ({}, {"cache_n": 90, "prompt_n": 10, "predicted_n": 4}, Usage(100, 4, 90, 1)),
        ({}, {"predicted_n": 4}, Usage(None, 4, None, 1)),
        ({"prompt_tokens": True, "completion_tokens": "3"}, {}, Usage(None, None, None, 1)),
        ({"prompt_tokens": -1, "completion_tokens": 3.0}, {}, Usage(None, 3, None, 1)),
    ],
)
def test_usage_forms(usage: dict[str, Any], timings: dict[str, Any], expected: Usage) -> None:
    assert read_usage(usage, timings) == expected


# Content, reasoning, log-probs, tool calls


def test_entries_are_appended_whatever_the_chunks_hold() -> None:
    def entries(*texts: str) -> dict[str, Any]:
        return {"content": [token_reply(text, k=3) for text in texts]}

    events = [chunk("a b c"), chunk(""), chunk(" d"), chunk(None), chunk(None, "stop")]
    for event, logprobs in zip(
        events, [entries("a", " b", " c"), entries(""), entries(" d"), None, {"content": None}], strict=True
    ):
        event["choices"][0]["logprobs"] = logprobs
    assert [token.text for token in assemble(events).tokens] == ["a", " b", " c", "", " d"]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_under_both_names(name: str) -> None:
    events = [{"choices": [{"delta": {name: part}}]} for part in ("I ", "see")]
    completion = assemble([*events, chunk("B", "stop")])
    assert (completion.reasoning, completion.text) == ("I see", "B")


def test_reasoning_under_both_names_at_once_is_one() -> None:
    delta = {"reasoning_content": "I see", "reasoning": "I see"}
    assert assemble([{"choices": [{"delta": delta}]}, chunk("B", "stop")]).reasoning == "I see"


def test_content_in_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "I see"}]},
        {"type": "text", "text": "B"},
        {"type": "image", "text": "no"},
    ]
    completion = assemble([{"choices": [{"delta": {"content": parts}, "finish_reason": "stop"}]}])
    assert (completion.reasoning, completion.text) == ("I see", "B")


def calls(*pieces: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    events = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    return assemble([*events, chunk(None, "tool_calls")]).tool_calls


def test_tool_calls_in_pieces() -> None:
    assert calls(
        {"index": 0, "id": "x", "function": {"name": "zoom", "arguments": ""}},
        {"index": 1, "id": "y", "function": {"name": "turn", "arguments": '{"by'}},
        {"index": 0, "function": {"arguments": '{"bbox'}},
        {"index": 1, "function": {"arguments": '": 90}'}},
        {"index": 0, "id": None, "function": {"name": "zoom", "arguments": '": []}'}},
    ) == (ToolCall("x", "zoom", '{"bbox": []}'), ToolCall("y", "turn", '{"by": 90}'))


def test_tool_calls_without_index_or_with_the_same_one() -> None:
    expected = (ToolCall("x", "zoom", "{}"), ToolCall("y", "turn", "{}"))
    for index in ({}, {"index": 0}):
        assert (
            calls(
                {**index, "id": "x", "function": {"name": "zoom", "arguments": "{"}},
                {**index, "function": {"arguments": "}"}},
                {**index, "id": "y", "function": {"name": "turn", "arguments": "{"}},
                {**index, "function": {"arguments": "}"}},
            )
            == expected
        )


def test_arguments_as_an_object_and_a_missing_id() -> None:
    (call,) = calls({"index": 0, "function": {"name": "zoom", "arguments": {"bbox_2d": [1, 2, 3, 4]}}})
    assert (call.id, call.name, json.loads(call.arguments)) == ("call_0", "zoom", {"bbox_2d": [1, 2, 3, 4]})


def test_only_the_first_of_several_choices_counts() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}]}
    completion = assemble([other, chunk("B", "stop"), other])
    assert (completion.text, completion.finish_reason) == ("B", "stop")


@pytest.mark.parametrize(
    "junk",
    [{"choices": [None]}, {"choices": [{"delta": None}]}, {"choices": [{"delta": {"content": 5}}]}, {}],
)
def test_chunks_without_use_are_passed_over(junk: dict[str, Any]) -> None:
    assert assemble([junk, chunk("B", "stop"), junk]).text == "B"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(max_size=5), max_size=8),
    st.integers(1, 4),
    st.text(max_size=5),
    st.lists(
        st.builds(ToolCall, st.text(min_size=1, max_size=3), st.text(max_size=4), st.text(max_size=9)),
        max_size=3,
        unique_by=lambda call: call.id,
    ),
)
def test_a_stream_and_a_whole_reply_say_the_same(
    texts: list[str], per_chunk: int, reasoning: str, tool_calls: list[ToolCall]
) -> None:
    reply = Reply(tokens=texts, per_chunk=per_chunk, reasoning=reasoning, tool_calls=tool_calls)
    request = {"model": "m", "logprobs": True, "top_logprobs": 4, "stream_options": {"include_usage": True}}
    streamed = assemble(list(chunks(reply, request)), k=3)
    whole = Assembly("here", k=3, begin=time.perf_counter()).whole(json.dumps(whole_reply(reply, request)))
    for name in ("text", "finish_reason", "tokens", "usage", "reasoning", "tool_calls", "model"):
        assert getattr(streamed, name) == getattr(whole, name), name
    assert [len(token.top_logprobs) for token in whole.tokens] == [3] * len(texts)


# What is wrong


@pytest.mark.parametrize("payload", ['{"choices": [', "[]", "null", "5", "[" * 100_000, '{"choices": "B"}'])
def test_a_broken_event_is_a_protocol_error(payload: str) -> None:
    with pytest.raises(EngineProtocolError, match=r"^here: "):
        Assembly("here", k=None, begin=0).add_text(payload)


@pytest.mark.parametrize(
    ("payload", "retryable"),
    [
        ({"error": {"message": "out of memory", "code": 500}}, True),
        ({"error": {"message": "out of memory", "type": "x", "code": "oom"}}, True),
        ({"error": "out of memory"}, True),
        ({"error": {"message": "out of memory", "code": 400}}, False),
        ({"error": {"message": "out of memory", "code": 429}, "choices": []}, True),
    ],
)
def test_an_error_object_in_the_stream_keeps_its_message(payload: dict[str, Any], retryable: bool) -> None:
    assembly = Assembly("here", k=None, begin=0)
    assembly.add_text(json.dumps(chunk("A")))
    with pytest.raises(EngineProtocolError, match=r"^here: .*out of memory$") as caught:
        assembly.add_text(json.dumps(payload))
    assert caught.value.retryable is retryable


def test_an_end_without_a_reason() -> None:
    assembly = Assembly("here", k=None, begin=0)
    assembly.add_text(json.dumps(chunk("A")))
    with pytest.raises(EngineUnreachable, match="broke off"):
        assembly.completion(done=False)
    with pytest.raises(EngineProtocolError, match="no finish_reason"):
        assembly.completion(done=True)
