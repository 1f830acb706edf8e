"""What a history holds, and what is done with a request: the table of `turns`, line by line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from gateway_server import ZOOM, image_part, text_part, user

from speceyes.agents import make_dialect
from speceyes.gateway.client_words import draft_question, screening_request
from speceyes.gateway.conversation import answers_plainly, read_history
from speceyes.gateway.templates import TextForm
from speceyes.gateway.turns import why_pass
from speceyes.gateway.wire.requests import read_tolerantly
from speceyes.types import Reason

SYSTEM = {"role": "system", "content": "Answer in French."}
ASKED = user(image_part(), text_part("What digit is on the red sign?"))
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": f"c{i}", "type": "function", "function": {"name": "zoom", "arguments": "{}"}} for i in range(2)
    ],
}
RESULTS = [{"role": "tool", "tool_call_id": f"c{i}", "content": "cropped"} for i in range(2)]
CROP = user(text_part("The crop:"), image_part())
ANSWER = {"role": "assistant", "content": "It is 7."}
PLAIN = {"role": "user", "content": "And the blue one?"}
TEXT = TextForm(make_dialect("deepeyes"))
TASK = "Think in <think> tags. Call the tool for what is too small to read. Then answer in <answer> tags."


def say(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def decide(messages: list[dict[str, Any]], form: TextForm | None = None, **fields: Any) -> Reason | None:
    """As `transparent` decides it, from the request's JSON."""
    raw = msgspec.json.encode({"model": "speceyes", "messages": messages, "tools": [{}], **fields})
    history = read_history(messages, form.answers if form else answers_plainly)
    passed = why_pass(read_tolerantly(raw), msgspec.json.decode(raw).keys(), history, ("known_elsewhere",))
    if passed is not None:
        return passed.reason
    return None if draft_question(history, form, system=True).images else Reason.NO_IMAGE


NATIVE = {
    "a first question": ([SYSTEM, ASKED], None),
    "in several messages": ([ASKED, PLAIN], None),
    "a call": ([ASKED, CALLS], Reason.LATER_TURN),
    "one result of two": ([ASKED, CALLS, RESULTS[0]], Reason.LATER_TURN),
    "all results": ([ASKED, CALLS, *RESULTS], Reason.LATER_TURN),
    "a picture behind them": ([ASKED, CALLS, *RESULTS, CROP], Reason.LATER_TURN),
    "a word in between": ([ASKED, CALLS, PLAIN], Reason.LATER_TURN),
    "the second call": ([ASKED, CALLS, *RESULTS, CROP, CALLS, *RESULTS], Reason.LATER_TURN),
    "an old form of call": ([ASKED, {"role": "assistant", "function_call": {"name": "z"}}], Reason.LATER_TURN),
    "its result": ([ASKED, {"role": "function", "name": "z", "content": "x"}], Reason.LATER_TURN),
    "an empty answer": ([ASKED, say(""), PLAIN], Reason.LATER_TURN),
    "a question after a run": ([ASKED, CALLS, *RESULTS, ANSWER, PLAIN], None),
    "with an image of its own": ([ASKED, CALLS, *RESULTS, CROP, ANSWER, ASKED], None),
    "after an answer without a run": ([ASKED, ANSWER, PLAIN], None),
    "a run after that": ([ASKED, ANSWER, PLAIN, CALLS, *RESULTS], Reason.LATER_TURN),
    "no image": ([PLAIN], Reason.NO_IMAGE),
    "images in results only": ([PLAIN, CALLS, *RESULTS, CROP, ANSWER, PLAIN], Reason.NO_IMAGE),
    "an answer to be continued": ([ASKED, say("It is")], Reason.NEEDS_AGENT),
    "a prompt at the end": ([ASKED, SYSTEM], None),
    "only a prompt": ([SYSTEM], Reason.NEEDS_AGENT),
}


@pytest.mark.parametrize("name", NATIVE)
def test_the_history_decides(name: str) -> None:
    messages, reason = NATIVE[name]
    assert decide(messages) is reason


IN_TEXT = {
    "a first question": ([ASKED], None),
    "a call": ([ASKED, say(f"<think>Small.</think>{ZOOM}")], Reason.LATER_TURN),
    "cut off by its stop string": ([ASKED, say(ZOOM.removesuffix("</tool_call>")), CROP], Reason.LATER_TURN),
    "a crop": ([ASKED, say(ZOOM), CROP], Reason.LATER_TURN),
    "neither call nor answer": ([ASKED, say("Hm."), PLAIN], Reason.LATER_TURN),
    "an answer": ([ASKED, say("<think>I see.</think><answer>7</answer>"), PLAIN], None),
    "without its end": ([ASKED, say(ZOOM), CROP, say("<answer>7"), PLAIN], None),
    "an answer to be continued": ([ASKED, say("<think>")], Reason.LATER_TURN),
}


@pytest.mark.parametrize("name", IN_TEXT)
def test_so_in_a_text_dialect(name: str) -> None:
    messages, reason = IN_TEXT[name]
    assert decide(messages, TEXT) is reason


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("tool_choice", "auto", None),
        ("tool_choice", "none", None),
        ("tool_choice", None, None),
        ("tool_choice", "required", Reason.NEEDS_AGENT),
        ("tool_choice", {"type": "function", "function": {"name": "zoom"}}, Reason.NEEDS_AGENT),
        ("parallel_tool_calls", False, None),
        ("n", 1, None),
        ("n", 2, Reason.NEEDS_AGENT),
        ("logprobs", False, None),
        ("logprobs", True, Reason.NEEDS_AGENT),
        ("response_format", {"type": "text"}, None),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "a"}}, Reason.NEEDS_AGENT),
        ("store", False, None),
        ("store", True, Reason.NEEDS_AGENT),
        ("foo", 1, Reason.NEEDS_AGENT),
        ("known_elsewhere", 1, None),
        ("temperature", 0.7, None),
        ("stop", ["\n"], None),
        ("seed", 7, None),
        ("max_tokens", 16, None),
    ],
)
def test_the_fields_decide(field: str, value: Any, reason: Reason | None) -> None:
    """CASES: whatever a draft cannot give goes to the server that can; nothing is dropped."""
    assert decide([ASKED], **{field: value}) is reason


def test_the_draft_hears_questions_and_answers_but_not_the_runs() -> None:
    history = read_history([SYSTEM, ASKED, CALLS, *RESULTS, CROP, ANSWER, PLAIN], answers_plainly)
    asked = draft_question(history, None, system=False)
    assert len(asked.images) == 1
    assert asked.system is None
    assert "crop" not in asked.question
    assert asked.question.endswith("And the blue one?")
    assert "It is 7." in asked.question
    assert draft_question(history, None, system=True).system == "Answer in French."


def test_the_draft_does_not_hear_how_the_agent_is_to_write() -> None:
    run = [say(f"<think>Small.</think>{ZOOM}"), CROP, say("<think>I see.</think><answer>8</answer>")]
    first = user(image_part(), text_part(f"What digit?\nA: 7\nB: 8\n\n{TASK}"))
    assert draft_question(read_history([first], TEXT.answers), TEXT, system=False).question == "What digit?\nA: 7\nB: 8"
    split = user(image_part(), text_part("What digit?"), text_part(TASK))
    assert draft_question(read_history([split], TEXT.answers), TEXT, system=False).question == "What digit?"
    follow_up = {"role": "user", "content": f"And blue?\n{TASK}"}
    asked = draft_question(read_history([first, *run, follow_up], TEXT.answers), TEXT, system=False)
    assert "<" not in asked.question
    assert "Assistant: 8" in asked.question
    assert len(asked.images) == 1


def test_a_text_of_instructions_only_stays_as_it_is() -> None:
    only = user(image_part(), text_part("Say <answer>yes</answer> or <answer>no</answer>: is it red?"))
    assert "is it red?" in draft_question(read_history([only], TEXT.answers), TEXT, system=False).question


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("What?", "What?\n\nScreen."),
        ("", "Screen."),
        (None, "Screen."),
        (["What?"], ["What?\n\nScreen."]),
        ([text_part("What?")], [text_part("What?\n\nScreen.")]),
        (
            [text_part("What?"), {"type": "image_url"}],
            [text_part("What?"), {"type": "image_url"}, text_part("Screen.")],
        ),
        ([], [text_part("Screen.")]),
    ],
)
def test_the_screening_is_the_clients_request_with_one_instruction(content: Any, expected: Any) -> None:
    before = [SYSTEM, {"role": "user", "content": "x", "name": "ann"}]
    raw = msgspec.json.encode({"model": "m", "messages": [PLAIN], "tools": [{"a": 1}], "seed": 3})
    history = read_history([*before, {"role": "user", "content": content, "x": 1}], answers_plainly)
    request = screening_request(history, None, "Screen.", read_tolerantly(raw), {"reasoning_effort": "low"})
    assert request.messages == (*before, {"role": "user", "content": expected, "x": 1})
    assert (request.max_tokens, request.temperature, request.top_logprobs, request.seed) == (1, 0.0, 19, 3)
    assert request.tools == ({"a": 1},)
    assert request.extra == {"reasoning_effort": "low", "tool_choice": "none"}


def test_in_the_dialects_own_words_it_is_the_gateways_own_screening() -> None:
    """So the calibration of the gateway's loop holds for such a client as it stands."""
    prompts = make_dialect("deepeyes").prompts
    asked = user({"type": "image_url"}, text_part(f"What digit?\n\n{prompts.act}"))
    raw = msgspec.json.encode({"model": "m", "messages": [PLAIN]})
    history = read_history([asked], TEXT.answers)
    (message,) = screening_request(history, TEXT, prompts.screen, read_tolerantly(raw), {}).messages
    assert message["content"] == [{"type": "image_url"}, text_part(f"What digit?\n\n{prompts.screen}")]
