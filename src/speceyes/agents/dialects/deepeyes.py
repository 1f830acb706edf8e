"""The DeepEyes dialect: thoughts, one zoom call a turn as JSON in `<tool_call>`, results in a user message.

    <think>...</think>
    <tool_call>
    {"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [x1, y1, x2, y2], "label": "..."}}
    </tool_call>

Boxes are pixels of the resized image that the model saw. How a turn is read:

- What comes first counts, a call or an answer: with the stop strings obeyed, the rest would not have been
  written. Of several answers before any call, the last complete one counts; one without its closing tag
  counts where none is complete. An empty answer is none.
- Of several calls the first runs, and the model is told.
- Calls and answers inside `<think>` count only where the turn holds nothing else, not even plain text; such
  an answer is not `tagged`.
- Plain text with `\\boxed{}` is an answer in form; any other plain text is an answer that is not `tagged`.
- A turn that ran into its token limit is an answer only if the answer is complete.
- But before all these, a long answer (`reader`) counts: readers may have seen its begin already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from speceyes.agents.dialects.base import (
    Action,
    Call,
    Final,
    Malformed,
    Message,
    Prompts,
    image_part,
    opening_messages,
    text_part,
)
from speceyes.agents.dialects.calls import check_call, check_schemas
from speceyes.agents.dialects.literals import Unreadable, read_object
from speceyes.agents.dialects.reader import TurnReader
from speceyes.agents.dialects.tags import (
    WrittenAnswer,
    WrittenCall,
    WrittenTurn,
    boxed,
    clean_answer,
    read_turn,
)
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import QWEN2_5_VL, PixelLimits
from speceyes.imaging.view import View
from speceyes.tools.base import Tool, ToolResult
from speceyes.tools.zoom import ZoomTool
from speceyes.types import Completion, Delta, Query

PROMPTS = Prompts(
    system="You answer questions about images. A tool can show you a part of an image up close.",
    act="Think in <think> tags. Call the tool for what is too small to read. Then answer in <answer> tags.",
    screen="Would a closer look with the tool help here? Reply yes or no.",
    reminder="Here is the closer look. Think, then call the tool again or answer in <answer> tags.",
    closing="The tool is no longer at hand. Give the answer in <answer> tags now.",
)

_CUT = "That turn ran out of tokens before a call or an answer was complete. Be brief."
_EMPTY = "That turn holds neither a call nor an answer."
_SPECIAL_ENDS = ("<|im_end|>", "<|endoftext|>")


class DeepEyes:
    """DeepEyes-7B and models that were trained to speak as it does.

    Args:
        limits: Sizes of picture that the model takes: factor 28 for Qwen2.5-VL, 32 for Qwen3-VL.
        coordinates: What the numbers of a box mean.
        prompts: The words said to the model.
        toolbox: The tools. None: one zoom tool in these coordinates.
        zoom_context: Margin around each box, as a share of its side, for that zoom tool.
        aliases: Further field names to accept in a call's arguments, and what they stand for.
        extra: Further fields of each request. With `tool_choice: none` a server's chat template renders the
            tools, and the model's text comes back as it is.
        zoom_notes: Let that tool tell the model where a picture is not just what its box named.

    Raises:
        ConfigError: The toolbox or the aliases do not fit together.
    """

    name = "deepeyes"
    stop = ("</tool_call>", "</answer>")

    def __init__(
        self,
        *,
        limits: PixelLimits = QWEN2_5_VL,
        coordinates: Coordinates = Coordinates.RESIZED,
        prompts: Prompts = PROMPTS,
        toolbox: Sequence[Tool] | None = None,
        zoom_context: float = 0.0,
        aliases: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        zoom_notes: bool = True,
        max_turns: int = 6,
        max_tokens_per_turn: int = 1024,
    ) -> None:
        if toolbox is None:
            toolbox = [ZoomTool(coordinates=coordinates, context=zoom_context, notes=zoom_notes)]
        self.limits = limits
        self.coordinates = coordinates
        self.prompts = prompts
        self.toolbox: Mapping[str, Tool] = {tool.name: tool for tool in toolbox}
        self.tools: tuple[Mapping[str, Any], ...] = tuple(tool.schema for tool in toolbox)
        self.extra: Mapping[str, Any] = {"tool_choice": "none"} if extra is None else extra
        self.max_turns = max_turns
        self.max_tokens_per_turn = max_tokens_per_turn
        self._aliases = dict(aliases or {})
        check_schemas(self.tools, self._aliases)

    def opening_messages(self, query: Query, views: Sequence[View], *, screening: bool = False) -> tuple[Message, ...]:
        return opening_messages(query, views, self.prompts, screening=screening)

    def reader(self) -> TurnReader:
        return TurnReader()

    def parse(self, completion: Completion) -> Action:
        if long := self._long_answer(completion):
            return long
        cut = completion.finish_reason == "length"
        turn = read_turn(raw_text(completion))
        answers = _not_empty(turn.answers)
        if turn.calls and not (answers and answers[0].start < turn.calls[0].start):
            return self._call(turn.calls, cut)
        if answers:
            before = [a for a in answers if not turn.calls or a.start < turn.calls[0].start]
            return _final(before, cut) or Malformed(_CUT)
        if turn.plain and (inside := boxed(turn.plain)):
            return Final(inside)
        if bare := _bare_call(turn.plain):
            return self._call((bare,), cut)
        if cut:
            return Malformed(_CUT)
        if turn.plain:
            return Final(turn.plain, tagged=False)
        return self._from_thought(turn) or Malformed(_EMPTY)

    def written(self, completion: Completion) -> str:
        return raw_text(completion)

    def closing_answer(self, completion: Completion) -> Final:
        """A long answer, else the last one in tags or in a box, or in a thought, else the plain text without calls."""
        if long := self._long_answer(completion):
            return long
        turn = read_turn(raw_text(completion))
        cut = completion.finish_reason == "length"
        answers = _not_empty(turn.answers)
        if final := _final(answers, cut):
            return final
        if inside := boxed(turn.plain):
            return Final(inside)
        for kept in (answers, _not_empty(turn.thought_answers)):
            if kept:
                return Final(clean_answer(kept[-1].text), tagged=False, whole=kept[-1].closed or not cut)
        return Final("" if _bare_call(turn.plain) else turn.plain, tagged=False, whole=not cut)

    def assistant_messages(self, completion: Completion) -> tuple[Message, ...]:
        """The turn's raw text, without what was made up behind its calls; nothing for an empty turn."""
        turn = read_turn(raw_text(completion))
        text = turn.text
        if calls := turn.calls:
            last = calls[0]
            for call in calls[1:]:
                if text[last.end : call.start].strip():
                    break
                last = call
            text = text[: last.end] + ("" if last.closed else "</tool_call>")
        elif turn.thought_calls and not turn.thought_calls[-1].closed:
            text += "</tool_call>"
        elif turn.answers and not turn.answers[-1].closed:
            text += "</answer>"
        return ({"role": "assistant", "content": text},) if text.strip() else ()

    def observation_messages(self, result: ToolResult) -> tuple[Message, ...]:
        if result.error is not None:
            return self.notice_messages(f"{result.error}\n{self.prompts.retry}")
        said = f"{result.text}\n" if result.text else ""
        content = [
            text_part("<tool_response>\n"),
            *map(image_part, result.views),
            text_part(f"\n{said}{self.prompts.reminder}\n</tool_response>"),
        ]
        return ({"role": "user", "content": content},)

    def notice_messages(self, text: str) -> tuple[Message, ...]:
        return ({"role": "user", "content": [text_part(f"<tool_response>\n{text}\n</tool_response>")]},)

    def _long_answer(self, completion: Completion) -> Final | None:
        reader = self.reader()
        reader.feed(Delta(completion.text))
        reader.close()
        if reader.answer is None:
            return None
        return Final(reader.answer, whole=reader.whole or completion.finish_reason != "length")

    def _call(self, calls: Sequence[WrittenCall], cut: bool) -> Call | Malformed:
        first = calls[0]
        if first.value is None and cut and not first.closed:
            return Malformed(_CUT)
        checked = check_call(first, self.tools, self._aliases)
        if isinstance(checked, Call) and (len(calls) > 1 or first.more):
            note = "Only the first call of that turn was run. Make one call at a time."
            return Call(checked.name, checked.arguments, note, checked.repairs)
        return checked

    def _from_thought(self, turn: WrittenTurn) -> Action | None:
        answers = _not_empty(turn.thought_answers)
        calls = turn.thought_calls
        if calls and not (answers and answers[0].start < calls[0].start):
            return self._call(calls, cut=False)
        return Final(clean_answer(answers[-1].text), tagged=False) if answers else None


def raw_text(completion: Completion) -> str:
    """The turn as the model wrote it, with the reasoning and the native calls that a server took out."""
    text = completion.text
    if completion.reasoning.strip() and "</think>" not in text:
        text = f"<think>{completion.reasoning}</think>\n{text.lstrip()}"
    if "<tool_call>" not in completion.text:
        for call in completion.tool_calls:
            body = f'{{"name": {json.dumps(call.name)}, "arguments": {_embedded(call.arguments)}}}'
            text = f"{text.rstrip()}\n<tool_call>\n{body}\n</tool_call>".lstrip()
    while text.rstrip().endswith(_SPECIAL_ENDS):
        text = text.rstrip()[: text.rstrip().rindex("<|")]
    # Half a surrogate pair could not be sent back to the server.
    return text.encode("utf-8", "replace").decode("utf-8")


def _embedded(arguments: str) -> str:
    """Arguments as they were written if they are JSON, else as a JSON string, which the reader unpacks."""
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return json.dumps(arguments, ensure_ascii=False)
    return arguments


def _bare_call(plain: str) -> WrittenCall | None:
    """A call without its tags: the whole text is one object with a name and arguments, fenced or not."""
    body = plain.strip().removeprefix("```json").strip("` \n")
    if not body.startswith("{"):
        return None
    try:
        reading = read_object(body, 0)
    except Unreadable:
        return None
    if body[reading.end :].strip("` \n") or not {"name", "arguments"} <= reading.value.keys():
        return None
    return WrittenCall(0, len(plain), reading.value, repairs=(*reading.repairs, "no tags around the call"))


def _not_empty(answers: Sequence[WrittenAnswer]) -> list[WrittenAnswer]:
    return [answer for answer in answers if clean_answer(answer.text)]


def _final(answers: Sequence[WrittenAnswer], cut: bool) -> Final | None:
    """The last complete answer, else the one that a stop string, not the token limit, left open."""
    complete = [answer for answer in answers if answer.closed] or ([] if cut else answers)
    return Final(clean_answer(complete[-1].text)) if complete else None
