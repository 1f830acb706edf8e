"""From messages to one question with its images: every shape that clients send, and nothing lost on the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gateway.wire.content import Conversation, read_conversation
from speceyes.gateway.wire.errors import ApiError
from speceyes.gateway.wire.requests import read_body

A, B, C = "data:image/png;base64,AAAA", "data:image/png;base64,BBBB", "https://example.com/c.png"


def read(*messages: dict[str, Any]) -> Conversation:
    return read_conversation(read_body(json.dumps({"model": "m", "messages": messages}).encode()).messages)


def refused(*messages: dict[str, Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        read(*messages)
    assert caught.value.status == 400
    return caught.value


def image(url: str = A) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def urls(found: Conversation) -> list[str]:
    return [part.url for part in found.images]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": A}},
        {"type": "image_url", "image_url": {"url": A, "detail": "high"}},
        {"type": "image_url", "image_url": A},
        {"type": "input_image", "image_url": A},
        {"type": "input_image", "image_url": {"url": A}, "detail": "auto"},
    ],
)
def test_an_image_is_found_in_each_of_its_shapes(part: dict[str, Any]) -> None:
    found = read(user(part, text("What?")))
    assert (urls(found), found.question) == ([A], "What?")


@pytest.mark.parametrize("part", [text("What?"), {"type": "input_text", "text": "What?"}, "What?"])
def test_so_is_a_text(part: Any) -> None:
    assert read(user(image(), part)).question == "What?"


def test_content_may_be_one_text() -> None:
    found = read({"role": "user", "content": "What?"})
    assert (found.question, found.images, found.system) == ("What?", (), None)


@pytest.mark.parametrize("empty", ["", None, []])
def test_an_empty_turn_says_nothing_and_breaks_nothing(empty: Any) -> None:
    found = read({"role": "assistant", "content": empty}, user(image(), text("What?")))
    assert (found.question, urls(found)) == ("What?", [A])


def test_an_image_by_itself_and_its_question_after_it_are_one_turn() -> None:
    found = read(user(image()), {"role": "user", "content": "What?"})
    assert (found.question, urls(found)) == ("What?", [A])


def test_an_image_with_a_task_in_the_system_prompt_is_a_question() -> None:
    found = read({"role": "system", "content": "Say cat or dog."}, user(image()))
    assert (found.question, found.system, urls(found)) == ("", "Say cat or dog.", [A])


def test_an_image_without_any_text_asks_nothing() -> None:
    assert refused(user(image())).param == "messages"


def test_all_system_and_developer_texts_reach_the_models() -> None:
    found = read(
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [text("Answer"), text("in French.")]},
        user(image(), text("What?")),
        {"role": "system", "content": "No jokes."},
    )
    assert found.system == "Be brief.\n\nAnswer\nin French.\n\nNo jokes."
    assert found.question == "What?"


def test_images_keep_their_order_and_their_places_among_the_texts() -> None:
    found = read(user(text("Is"), image(A), text("larger than"), image(B), text("?")))
    assert urls(found) == [A, B]
    assert found.question == "Is\n[image 1]\nlarger than\n[image 2]\n?"
    assert read(user(image(A), image(B), text("Which?"))).question == "Which?", "they stand where the models see them"
    assert read(user(text("Look:"), image(A), text("What?"))).question == "Look:\nWhat?", "one image needs no number"


def test_earlier_turns_stand_before_the_question() -> None:
    found = read(
        user(image(A), text("What colour is the car?")),
        {"role": "assistant", "content": "Red."},
        user(text("And the door?")),
    )
    assert urls(found) == [A], "the image that was shown last is still there"
    assert found.question == (
        "The conversation so far:\nUser: [image] What colour is the car?\nAssistant: Red.\n\nNow:\nAnd the door?"
    )
    assert found.left_out == 0


def test_a_new_image_takes_the_place_of_the_old_ones_and_that_is_counted() -> None:
    found = read(
        user(image(A), image(B), text("Which?")),
        {"role": "assistant", "content": "B"},
        user(image(C), text("And here?")),
    )
    assert (urls(found), found.left_out) == ([C], 2)
    assert "User: [image] [image] Which?" in found.question


def test_tool_calls_and_results_in_the_history_are_told() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "zoom", "arguments": '{"x": 1}'}}
    found = read(
        user(image(), text("What?")),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "nothing there"},
        user(text("Well?")),
    )
    assert 'Assistant: [tool call] zoom({"x": 1})\nTool: nothing there\n' in found.question


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([user(image(), {"type": "input_audio", "text": "x"})], "messages[0].content[1].type"),
        ([user({"type": "video_url", "video_url": {"url": A}}, text("?"))], "messages[0].content[0].type"),
        ([user({"type": "image_url"}, text("?"))], "messages[0].content[0].image_url"),
        ([user({"type": "input_image", "file_id": "f1"}, text("?"))], "messages[0].content[0].image_url"),
        ([user({"type": "text"})], "messages[0].content[0].text"),
        ([{"role": "critic", "content": "?"}], "messages[0].role"),
        ([user(text("?")), {"role": "assistant", "content": "The answer is"}], "messages[1].role"),
        ([{"role": "system", "content": "Be brief."}], "messages[0].role"),
        ([{"role": "system", "content": [image()]}, user(text("?"))], "messages[0].content[0].image_url.url"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_place(messages: list[dict[str, Any]], param: str) -> None:
    error = refused(*messages)
    assert error.param == param
    assert param in error.message


PARTS = st.lists(st.sampled_from(["t", "i"]), min_size=1, max_size=6)


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_no_text_and_no_image_of_the_last_turn_is_lost(shapes: list[list[str]]) -> None:
    """Whatever the messages look like: all words of all turns are there, and the images of the last turn in order."""
    messages: list[dict[str, Any]] = []
    words: list[str] = []
    for i, shape in enumerate(shapes):
        parts = [text(f"w{i}.{j}") if kind == "t" else image(f"data:,{i}.{j}") for j, kind in enumerate(shape)]
        words += [part["text"] for part in parts if part["type"] == "text"]
        messages += [user(*parts), {"role": "assistant", "content": f"a{i}"}]
        words.append(f"a{i}")
    messages.append(user(image("data:,last"), text("now?"), image("data:,end")))
    found = read(*messages)
    assert urls(found) == ["data:,last", "data:,end"]
    positions = [found.question.index(word) for word in [*words, "now?"]]
    assert positions == sorted(positions)
    assert found.left_out == sum(shape.count("i") for shape in shapes)
