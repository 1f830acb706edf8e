"""What the dialects share whose turns are thoughts, calls and answers in tags.

How a turn is read:

- What comes first counts, a call or an answer: with the stop strings obeyed, the rest would not have been
  written. Of several answers before any call, the last complete one counts; one without its closing tag
  counts where none is complete. An empty answer is none.
- Of several calls the first runs, and the model is told.
- Calls and answers inside `<think>` count only where the turn holds nothing else, not even plain text; such
  an answer is not `tagged`. Dialects with `calls_in_thought` write their calls there: to them they are like others.
- Plain text with `\\boxed{}` is an answer in form; any other plain text is an answer that is not `tagged`.
- A turn that ran into its token limit is an answer only if the answer is complete.
- But before all these, a long answer (`reader`) counts: readers may have seen its begin already.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from speceyes.agents.dialects.base import (
    ALONE,
    Action,
    Call,
    Final,
    Malformed,
    Message,
    Occasion,
    Prompts,
    image_part,
    opening_messages,
    text_part,
)
from speceyes.agents.dialects.calls import check_call, check_schemas
from speceyes.agents.dialects.forms import CallForm
from speceyes.agents.dialects.literals import Unreadable
from speceyes.agents.dialects.reader import TurnReader
from speceyes.agents.dialects.tags import (
    TOOL_CALL,
    WrittenAnswer,
    WrittenCall,
    WrittenTurn,
    clean_answer,
    read_turn,
)
from speceyes.gating.reply import boxed
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import QWEN2_5_VL, PixelLimits
from speceyes.imaging.view import View
from speceyes.tools.base import Tool, ToolResult
from speceyes.types import Completion, Delta, Query

_CUT = "That turn ran out of tokens before a call or an answer was complete. Be brief."
_EMPTY = "That turn holds neither a call nor an answer."
_SPECIAL_ENDS = ("<|im_end|>", "<|endoftext|>")


class Tagged:
    """A dialect in tags. What a family's file states stands in these class attributes; options stand above them.

    Attributes:
        name: The dialect's name.
        models: The models that speak it, for people.
        syntax: How a call looks, in a few words for people.
        native_calls: Its calls come as the API's `tool_calls`, so the server has to parse them.
        needs_sandbox: Its models write code, so that somebody has to give it a tool that runs code.
        forms: Ways to write a call, the trained one first. All dialects read `TOOL_CALL` too.
        form: How a call is written, in a sentence for a model that got it wrong. Empty: taken from the tools' schemas.
        forgiven: Fields that a call may lack although its tool's schema requires them.
        calls_in_thought: Calls stand in thoughts.
        described: The tools that the prompts tell of. All others go into the request's `tools`, and the server's chat
            template shows them to the model.
        result_tag: The tag around a tool's result. None: no tag.
        words_first: A result's words come before its pictures.
    """

    name: str = ""
    models: ClassVar[str] = ""
    syntax: ClassVar[str] = "JSON in <tool_call>"
    native_calls: ClassVar[bool] = False
    needs_sandbox: ClassVar[bool] = False
    limits: PixelLimits = QWEN2_5_VL
    coordinates: Coordinates = Coordinates.RESIZED
    prompts: Prompts
    stop: tuple[str, ...] = ("</tool_call>", "</answer>")
    forms: ClassVar[tuple[CallForm, ...]] = (TOOL_CALL,)
    form: ClassVar[str] = ""
    forgiven: ClassVar[tuple[str, ...]] = ()
    calls_in_thought: ClassVar[bool] = False
    described: ClassVar[tuple[str, ...]] = ()
    result_tag: ClassVar[str | None] = "tool_response"
    words_first: ClassVar[bool] = False
    note: str = ""
    max_turns: int = 6
    max_tokens_per_turn: int = 1024

    def __init__(
        self,
        toolbox: Sequence[Tool],
        *,
        limits: PixelLimits | None,
        prompts: Prompts | None,
        aliases: Mapping[str, str] | None,
        extra: Mapping[str, Any] | None,
        max_turns: int | None,
        max_tokens_per_turn: int | None,
    ) -> None:
        self.limits = limits or self.limits
        self.prompts = prompts or self.prompts
        self.max_turns = max_turns or self.max_turns
        self.max_tokens_per_turn = max_tokens_per_turn or self.max_tokens_per_turn
        self.toolbox: Mapping[str, Tool] = {tool.name: tool for tool in toolbox}
        self.tools: tuple[Mapping[str, Any], ...] = tuple(
            tool.schema for tool in toolbox if tool.name not in self.described
        )
        # The template renders the tools, and the model's text comes back as it is: no server's parser comes between.
        self.extra: Mapping[str, Any] = ({"tool_choice": "none"} if self.tools else {}) if extra is None else extra
        self._schemas = tuple(tool.schema for tool in toolbox)
        self._aliases = dict(aliases or {})
        check_schemas(self._schemas, self._aliases)

    def opening_messages(self, query: Query, views: Sequence[View], *, screening: bool = False) -> tuple[Message, ...]:
        return opening_messages(query, views, self.prompts, screening=screening)

    def reader(self) -> TurnReader:
        return TurnReader([form.tag for form in self.forms], calls_in_thought=self.calls_in_thought)

    def parse(self, completion: Completion) -> Action:
        if long := self._long_answer(completion):
            return long
        cut = completion.finish_reason == "length"
        turn = self._read(completion)
        answers = self._not_empty(turn.answers)
        if turn.calls and not (answers and answers[0].start < turn.calls[0].start):
            return self._call(turn.calls, cut)
        if answers:
            before = [a for a in answers if not turn.calls or a.start < turn.calls[0].start]
            return self._final(before, cut) or Malformed(_CUT)
        if turn.plain and (inside := boxed(turn.plain)):
            return Final(inside)
        if bare := self._bare_call(turn.plain):
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
        turn = self._read(completion)
        cut = completion.finish_reason == "length"
        answers = self._not_empty(turn.answers)
        if final := self._final(answers, cut):
            return final
        if inside := boxed(turn.plain):
            return Final(inside)
        for kept in (answers, self._not_empty(turn.thought_answers)):
            if kept:
                return Final(self._clean(kept[-1]), tagged=False, whole=kept[-1].closed or not cut)
        return Final("" if self._bare_call(turn.plain) else turn.plain, tagged=False, whole=not cut)

    def assistant_messages(self, completion: Completion) -> tuple[Message, ...]:
        """The turn's raw text, without what was made up behind its calls; nothing for an empty turn."""
        turn = self._read(completion)
        text = turn.text
        if calls := turn.calls:
            last = calls[0]
            for call in calls[1:]:
                if text[last.end : call.start].strip():
                    break
                last = call
            text = text[: last.end] + ("" if last.closed else f"</{last.tag}>")
        elif turn.thought_calls and not turn.thought_calls[-1].closed:
            text += f"</{turn.thought_calls[-1].tag}>"
        elif turn.answers and not turn.answers[-1].closed:
            text += "</answer>"
        return ({"role": "assistant", "content": text},) if text.strip() else ()

    def observation_messages(self, result: ToolResult, occasion: Occasion = ALONE) -> tuple[Message, ...]:
        if result.error is not None and not result.views:
            return self.notice_messages(f"{result.error}\n{self.prompts.retry}", occasion)
        return ({"role": "user", "content": self.result_parts(result, occasion)},)

    def notice_messages(self, text: str, occasion: Occasion = ALONE) -> tuple[Message, ...]:
        return ({"role": "user", "content": [text_part(self._in_tag(text))]},)

    def result_parts(self, result: ToolResult, occasion: Occasion) -> list[dict[str, Any]]:
        """What a tool shows as content parts: words, pictures, words, in the dialect's tag."""
        before, after, said = occasion.fill(self.prompts.result), occasion.fill(self.prompts.reminder), result.text
        if result.error is not None:
            said, after = result.error, self.prompts.retry
        if self.words_first:
            before = _lines(before, said)
        else:
            after = _lines(said, after)
        if not result.views:
            return [text_part(self._in_tag(_lines(before, after)))]
        head, _, tail = self._in_tag("\0").partition("\0")
        return [
            *([text_part(f"{head}{before}\n" if before else head)] if head or before else []),
            *map(image_part, result.views),
            *([text_part(f"\n{after}{tail}" if after else tail)] if after or tail else []),
        ]

    # How a model of the family writes: the inverse of reading, for tests and examples.

    def write_body(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What stands inside the tags of a call."""
        return self.forms[0].write(tool, arguments)

    def write_call(self, body: str, tool: str = "") -> Completion:
        """The turn with this inside the call's tags. `tool` matters only where the body does not name it."""
        tag = self.forms[0].tag
        return Completion(f"<think>I look closer.</think>\n<{tag}>{body}</{tag}>", "stop")

    def write_answer(self, text: str) -> Completion:
        """The turn that answers."""
        return Completion(f"<think>Now I see it.</think>\n<answer>{text}</answer>", "stop")

    def _in_tag(self, text: str) -> str:
        return text if self.result_tag is None else f"<{self.result_tag}>\n{text}\n</{self.result_tag}>"

    def _read(self, completion: Completion) -> WrittenTurn:
        return read_turn(self._raw(completion), self.forms, calls_in_thought=self.calls_in_thought)

    def _raw(self, completion: Completion) -> str:
        return raw_text(completion)

    def _long_answer(self, completion: Completion) -> Final | None:
        reader = self.reader()
        reader.feed(Delta(completion.text))
        reader.close()
        if reader.answer is None:
            return None
        return Final(reader.answer, whole=reader.whole or completion.finish_reason != "length")

    def _call(self, calls: Sequence[WrittenCall], cut: bool) -> Call | Malformed:
        first = calls[0]
        if cut and not first.closed and (first.value is None or not first.whole):
            return Malformed(_CUT)
        checked = check_call(first, self._schemas, self._aliases, self.form, self.forgiven)
        if isinstance(checked, Call) and (len(calls) > 1 or first.more):
            return replace(checked, note="Only the first call of that turn was run. Make one call at a time.")
        return checked

    def _bare_call(self, plain: str) -> WrittenCall | None:
        """A call without its tags."""
        for form in self.forms if plain else ():
            try:
                reading = form.bare(plain)
            except Unreadable:
                continue
            if reading is not None:
                repairs = (*reading.repairs, "no tags around the call")
                return WrittenCall(0, len(plain), reading.value, repairs=repairs, tag=form.tag)
        return None

    def _from_thought(self, turn: WrittenTurn) -> Action | None:
        answers = self._not_empty(turn.thought_answers)
        calls = turn.thought_calls
        if calls and not (answers and answers[0].start < calls[0].start):
            return self._call(calls, cut=False)
        return Final(self._clean(answers[-1]), tagged=False) if answers else None

    def _clean(self, answer: WrittenAnswer) -> str:
        return clean_answer(answer.text, *(form.tag for form in self.forms))

    def _not_empty(self, answers: Sequence[WrittenAnswer]) -> list[WrittenAnswer]:
        return [answer for answer in answers if self._clean(answer)]

    def _final(self, answers: Sequence[WrittenAnswer], cut: bool) -> Final | None:
        """The last complete answer, else the one that a stop string, not the token limit, left open."""
        complete = [answer for answer in answers if answer.closed] or ([] if cut else answers)
        return Final(self._clean(complete[-1])) if complete else None


def raw_text(completion: Completion, *, open_thought: bool = False) -> str:
    """The turn as the model wrote it, with the reasoning and the native calls that a server took out.

    With `open_thought` a turn that is nothing but reasoning is one whose thought has not ended.
    """
    text = completion.text
    if completion.reasoning.strip() and "</think>" not in text:
        closing = "" if open_thought and not text.strip() and not completion.tool_calls else "</think>\n"
        text = f"<think>{completion.reasoning}{closing}{text.lstrip()}"
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


def _lines(*texts: str) -> str:
    return "\n".join(text for text in texts if text)
