"""Turns as models write them when they get it wrong, and what must become of each.

`RUN`: the call is understood and run, mended if need be. `TOLD`: nothing is run, and the model reads why. `EITHER`:
one of the two, as the dialect's coordinates have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from speceyes.agents.dialects.conformance.stage import SIGN, Stage
from speceyes.types import Completion, ToolCall

RUN: Literal["run"] = "run"
TOLD: Literal["told"] = "told"
EITHER: Literal["either"] = "either"

_GIANT = 200_000


class WrongTurn(NamedTuple):
    """A turn, and what must become of it."""

    name: str
    turn: Completion
    becomes: Literal["run", "told", "either"]


def wrong_turns(stage: Stage) -> Iterator[WrongTurn]:
    """All that are written in the dialect's form, and those that are wrong in any."""
    bodies = _codes(stage) if stage.codes else _objects(stage)
    for name, body, becomes in bodies:
        yield WrongTurn(name, stage.writer.write_call(body), becomes)
    if not stage.codes:
        for name, box, becomes in _boxes(stage):
            yield WrongTurn(f"box: {name}", stage.call({**stage.arguments(), "bbox_2d": box}), becomes)
    yield from _whole_turns(stage)


def _objects(stage: Stage) -> Iterator[tuple[str, str, Literal["run", "told", "either"]]]:
    """JSON gone wrong, inside the tags or as the arguments of a native call."""
    arguments = stage.arguments()
    good = stage.writer.write_body(stage.tool, arguments).strip()
    value = json.loads(good)
    wrapped = "arguments" in value
    apostrophe = {**arguments, "label": "cat's ear"}

    def body(changed: dict[str, Any]) -> str:
        return stage.writer.write_body(stage.tool, changed).strip()

    yield "Python quotes", repr(json.loads(body(apostrophe))), RUN
    yield "a code fence", f"\n```json\n{good}\n```\n", RUN
    yield "extra braces", good + "}}", RUN
    yield "a trailing comma", good.replace("]", ",]", 1), RUN
    yield "a missing brace", good[:-1], EITHER if good[-2].isdigit() else RUN  # of a number, the end may be missing
    yield "words around it", f"Sure: {good}", RUN
    yield "a comment in it", good.replace("{", "{ // look\n", 1), RUN
    yield "in a list", f"[{good}]", RUN if wrapped else EITHER
    for tag in ("</tool_call>", "<answer>", "</think>"):
        yield f"{tag} in a string", body({**arguments, "label": f"a {tag} b"}), RUN
    yield "a tab and a line break in a string", body({**arguments, "label": "X"}).replace('"X"', '"a\tb\nc"'), RUN
    if wrapped:
        yield "arguments encoded twice", json.dumps({**value, "arguments": json.dumps(value["arguments"])}), RUN
        thrice = json.dumps(json.dumps(value["arguments"]))
        yield "arguments encoded three times", json.dumps({**value, "arguments": thrice}), RUN
        yield "arguments: a list", json.dumps({**value, "arguments": []}), TOLD
        yield "arguments: a number", json.dumps({**value, "arguments": 7}), TOLD
        yield "arguments: an empty string", json.dumps({**value, "arguments": ""}), TOLD
        yield "no name", json.dumps({"arguments": value["arguments"]}), TOLD
        yield "another tool's name", json.dumps({**value, "name": "teleport"}), TOLD
        yield "a name that is no text", json.dumps({**value, "name": [1]}), TOLD
    else:
        yield "the object encoded twice", json.dumps(good), EITHER
    yield "no box", body({key: entry for key, entry in arguments.items() if key != "bbox_2d"}), TOLD
    yield "the box under another name", body({"rectangle": arguments["bbox_2d"]}), TOLD
    yield "the box is null", body({**arguments, "bbox_2d": None}), TOLD
    yield "no object", "look at the sign", TOLD
    yield "nothing", "", TOLD
    yield "an expression", good.replace("[", "list(range(4)) + [", 1), TOLD
    yield "it breaks off in the box", good[: good.index("[") + 3], TOLD
    yield "a number of 400 digits", body({**arguments, "bbox_2d": [1, 2, 3, 10**400]}), TOLD
    yield "nested a thousand deep", good.replace("[", "[" * 1000, 1), TOLD


def _codes(stage: Stage) -> Iterator[tuple[str, str, Literal["run", "told", "either"]]]:
    """Code gone wrong."""
    good = str(stage.arguments()["code"])
    yield "no fence", f"\n{good}\n", RUN
    yield "no fence and no line breaks around it", good, RUN
    yield "a fence without a language", f"```\n{good}\n```", RUN
    yield "a fence that is not closed", f"```python\n{good}\n", RUN
    yield "the language without a fence", f"python\n{good}", RUN
    yield "indented with its fence", "\n".join(f"    {line}" for line in f"```python\n{good}\n```".split("\n")), RUN
    yield "two blocks", f"```python\nx = 1\n```\n```python\n{good}\n```", RUN
    yield "words around the block", f"Let me look:\n```python\n{good}\n```\nNow run it.", RUN
    for tag in ("</code>", "<answer>", "</think>"):
        yield f"{tag} in a string", f'```python\nsaid = "a {tag} b"\n{good}\n```', RUN
    yield "quotes in a comment", f"```python\n# it's the sign\n{good}\n```", RUN
    yield "nothing", "", TOLD
    yield "an empty fence", "```python\n```", TOLD
    yield "code that fails", '```python\nraise ValueError("no such sign")\n```', TOLD
    yield "code that shows nothing", "```python\nx = 1\n```", RUN
    yield "far too much code", "x = 1\n" * 20_000, TOLD


def _boxes(stage: Stage) -> Iterator[tuple[str, object, Literal["run", "told", "either"]]]:
    left, top, right, bottom = (round(edge, 4) for edge in stage.box(SIGN).as_tuple())
    far = max(right, bottom)
    yield "corners reversed", [right, bottom, left, top], RUN
    yield "numbers as strings", [str(edge) for edge in (left, top, right, bottom)], RUN
    yield "one string", f"[{left}, {top}, {right}, {bottom}]", RUN
    yield "thinner than a patch", [left, top, left + (right - left) / 100, bottom], RUN
    yield "a few pixels", [left, top, left + (right - left) / 200, top + (bottom - top) / 200], RUN
    yield "over the edge", [left, top, far * 2, far * 2], EITHER
    yield "outside the picture", [far * 10, far * 10, far * 20, far * 20], TOLD
    yield "no area", [left, top, left, bottom], TOLD
    yield "a point", [left, top, left, top], TOLD
    yield "two numbers", [left, top], TOLD
    yield "five numbers", [left, top, right, bottom, 0], TOLD
    yield "not a number", [float("nan"), top, right, bottom], TOLD
    yield "infinite", [left, top, 1e308 * 10, bottom], TOLD
    yield "huge", [left, top, 1e308, bottom], TOLD
    yield "words", "the sign", TOLD
    yield "true", [True, top, right, bottom], TOLD


def _whole_turns(stage: Stage) -> Iterator[WrongTurn]:
    """Whole turns gone wrong."""
    good = stage.call()
    text = good.text
    if good.tool_calls:
        call = good.tool_calls[0]
        other = ToolCall("call_2", call.name, call.arguments.replace("[", "[ "))
        yield WrongTurn("two calls", replace(good, tool_calls=(call, other)), RUN)
        yield WrongTurn("another tool", replace(good, tool_calls=(replace(call, name="teleport"),)), TOLD)
        yield WrongTurn("no tool's name", replace(good, tool_calls=(replace(call, name=""),)), TOLD)
        yield WrongTurn("a call without an id", replace(good, tool_calls=(replace(call, id=""),)), RUN)
        written = json.dumps({"name": call.name, "arguments": json.loads(call.arguments)})
        yield WrongTurn("a call in the text", Completion(f"<tool_call>{written}</tool_call>", "stop"), RUN)
    else:
        yield WrongTurn("two calls", replace(good, text=f"{text}\n{text}"), RUN)
        within = text.index("crop((" if stage.codes else "[") + 3
        yield WrongTurn("a call that is cut", replace(good, text=text[:within], finish_reason="length"), TOLD)
        native = ToolCall("1", stage.tool, json.dumps(stage.arguments()))
        yield WrongTurn("a native call", Completion("", "tool_calls", tool_calls=(native,)), RUN)
    wrong = '<tool_call>{"name": "teleport", "arguments": {}}</tool_call>'
    yield WrongTurn("a tool that there is not", Completion(wrong, "stop"), TOLD)
    yield WrongTurn("a call in a thought", replace(good, text=f"<think>Look: {text}"), RUN)
    yield WrongTurn(
        "a result made up behind it", replace(good, text=f"{text}\n<tool_response>red</tool_response>"), RUN
    )
    yield WrongTurn("an empty turn", Completion("", "stop"), TOLD)
    yield WrongTurn("white space", Completion(" \n\t ", "stop"), TOLD)
    yield WrongTurn("a thought alone", Completion("<think>Hm.</think>", "stop"), TOLD)
    yield WrongTurn("a thought that never ends", Completion("<think>" + "Hm. " * 1000, "length"), TOLD)
    yield WrongTurn("an empty answer", Completion("<answer></answer>", "stop"), TOLD)
    yield WrongTurn("the end of the turn alone", Completion("<|im_end|>", "stop"), TOLD)
    yield WrongTurn("half a character", replace(good, text=f"\ud800{text}"), RUN)
    yield WrongTurn("a null character", replace(good, text=f"\0{text}"), RUN)
    for name, piece in (("tags", "<answer><think><tool_call><code>"), ("brackets", "{["), ("quotes", "<code>'\"\\")):
        giant = (piece * _GIANT)[:_GIANT]
        yield WrongTurn(f"a giant turn of {name}", Completion(giant, "length"), TOLD)
