"""Taking a turn apart: thoughts, tool calls and answers in tags, and the plain text between them.

The rules, for every dialect that writes `<think>`, a call tag with JSON inside, and `<answer>`:

- What stands in `<think>` is thought. A `<think>` that is never closed runs to the end; a `</think>` that was
  never opened (a chat template may have opened it) makes everything before it thought.
- A call's JSON is read by its brackets, so a tag inside a quoted label does not end it. The closing tag may
  be missing: a stop string takes it away.
- An answer runs to its closing tag, and where answers nest, the innermost counts. An answer without a closing
  tag runs to the end of the text, again because of stop strings. `<answer>` around a call is no answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from speceyes.agents.dialects.literals import Unreadable, read_object

MAX_CALLS = 16
"""A turn with more calls than this repeats itself; what follows them is not read."""

MAX_BOXES = 16

_HIDDEN = "\0"
_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)
_ANSWER_CLOSE = re.compile(r"</answer>", re.IGNORECASE)
_ANSWER_OPEN = re.compile(r"<answer>", re.IGNORECASE)
_SPECIAL = re.compile(r"<\|[a-z_]{1,32}\|>")
_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as it stands in the text, from `start` to `end`.

    Attributes:
        value: The object, or None where it cannot be read; then `problem` says why.
        problem: One line for the model.
        repairs: What was mended to read it.
        more: A second object follows inside the same tags.
        closed: The closing tag is there.
    """

    start: int
    end: int
    value: dict[str, Any] | None
    problem: str = ""
    repairs: tuple[str, ...] = ()
    more: bool = False
    closed: bool = True


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """An answer as it stands in the text. `closed` is False where the text ends before the closing tag."""

    start: int
    end: int
    text: str
    closed: bool = True


@dataclass(frozen=True, slots=True)
class WrittenTurn:
    """A turn in its parts. `plain` is what lies outside thoughts, calls and answers, without any tags."""

    text: str
    calls: tuple[WrittenCall, ...]
    answers: tuple[WrittenAnswer, ...]
    plain: str
    thought_calls: tuple[WrittenCall, ...]
    thought_answers: tuple[WrittenAnswer, ...]


def read_turn(text: str, call_tag: str = "tool_call") -> WrittenTurn:
    """Take one turn apart; `call_tag` is the dialect's tag for calls. Never raises."""
    thoughts = _thoughts(text)
    spoken, thought = _blank(text, thoughts), _blank(text, _between(thoughts, len(text)))
    calls, answers = _elements(spoken, call_tag)
    thought_calls, thought_answers = _elements(_THINK.sub(_hide, thought), call_tag)
    taken = sorted([(call.start, call.end) for call in calls] + [(a.start, a.end) for a in answers])
    return WrittenTurn(
        text, calls, answers, without_tags(_blank(spoken, taken), call_tag), thought_calls, thought_answers
    )


def without_tags(text: str, call_tag: str = "tool_call") -> str:
    """Text for people: no protocol tags, no special tokens of the chat template, no blank edges."""
    tags = rf"</?(?:think|answer|tool_response|{re.escape(call_tag)})>"
    visible = text.replace(_HIDDEN, "")
    return _SPECIAL.sub("", re.sub(tags, "", visible, flags=re.IGNORECASE)).strip()


def boxed(text: str) -> str | None:
    r"""What the last `\boxed{...}` with balanced braces holds, without `\text{}`; None if there is none."""
    position = len(text)
    for _ in range(MAX_BOXES):
        position = text.rfind(r"\boxed{", 0, position)
        if position < 0:
            break
        depth, begin = 1, position + len(r"\boxed{")
        for offset, char in enumerate(text[begin:]):
            depth += (char == "{") - (char == "}")
            if depth == 0:
                return _unwrapped(text[begin : begin + offset]).strip()
    return None


def _unwrapped(text: str) -> str:
    while (shorter := _WRAPPER.sub(r"\1", text)) != text:
        text = shorter
    return text


def clean_answer(text: str, call_tag: str = "tool_call") -> str:
    r"""An answer's text for people: the `\boxed{}` inside it where there is one, without tags."""
    plain = without_tags(text, call_tag)
    inner = boxed(plain)
    return plain if inner is None else inner


def _thoughts(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    done, opened = 0, None
    for tag in _THINK.finditer(text):
        if not tag.group(1):
            opened = tag.start() if opened is None else opened
            continue
        spans.append((done if opened is None else opened, tag.end()))
        done, opened = tag.end(), None
    if opened is not None:
        spans.append((opened, len(text)))
    return spans


def _between(spans: list[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    edges = [0, *(edge for span in spans for edge in span), length]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _blank(text: str, spans: list[tuple[int, int]]) -> str:
    """Overwrite the spans, so that positions stay as they are."""
    pieces, done = [], 0
    for start, end in spans:
        pieces += [text[done:start], _HIDDEN * (end - start)]
        done = end
    return "".join([*pieces, text[done:]])


def _hide(found: re.Match[str]) -> str:
    return _HIDDEN * len(found.group())


def _elements(text: str, call_tag: str) -> tuple[tuple[WrittenCall, ...], tuple[WrittenAnswer, ...]]:
    """The calls and answers of `text`, each kind in order."""
    tag = re.escape(call_tag)
    opening = re.compile(rf"<(?:{tag}|answer)>", re.IGNORECASE)
    closing = re.compile(rf"</{tag}>", re.IGNORECASE)
    calls: list[WrittenCall] = []
    answers: list[WrittenAnswer] = []
    position = 0
    while found := opening.search(text, position):
        following = opening.search(text, found.end())
        border = following.start() if following else len(text)
        if not _ANSWER_OPEN.fullmatch(found.group()):
            if len(calls) == MAX_CALLS:
                calls.append(WrittenCall(found.start(), len(text), None, "There are too many calls."))
                break
            calls.append(_call(text, found, closing, border))
            position = calls[-1].end
            continue
        close = _ANSWER_CLOSE.search(text, found.end())
        position = found.end()
        if close and close.start() < border:
            answers.append(WrittenAnswer(found.start(), close.end(), text[found.end() : close.start()]))
            position = close.end()
        elif not following:
            answers.append(WrittenAnswer(found.start(), len(text), text[found.end() :], closed=False))
            position = len(text)
    return tuple(calls), tuple(answers)


def _call(text: str, tag: re.Match[str], closing: re.Pattern[str], border: int) -> WrittenCall:
    """Read the call that `tag` opens. Unclosed, it ends at `border`, where the next element begins."""
    first_close = closing.search(text, tag.end())
    closed = first_close is not None and first_close.start() < border
    limit, end = first_close.span() if first_close and closed else (border, border)
    brace = text.find("{", tag.end(), limit)
    try:
        if brace < 0:
            raise Unreadable("The call holds no JSON object.")
        reading = read_object(text, brace, limit)
    except Unreadable as error:
        return WrittenCall(tag.start(), end, None, str(error), closed=closed)
    # What looked like the border may have been a label's text, so look again behind the object.
    following, close = tag.re.search(text, reading.end), closing.search(text, reading.end)
    closed = close is not None and (following is None or close.start() < following.start())
    behind = reading.end + len(text[reading.end :]) - len(text[reading.end :].lstrip())
    rest_end, end = close.span() if close and closed else (behind, behind)
    rest = text[reading.end : rest_end]
    more = "{" in rest or text.startswith("{", behind)
    around = (text[tag.end() : brace] + rest).strip("` \n\t\r")
    repairs = (*reading.repairs, *(("text around the call",) if around not in ("", "json") else ()))
    return WrittenCall(tag.start(), end, reading.value, "", repairs, more=more, closed=closed)
