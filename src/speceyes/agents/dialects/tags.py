"""Taking a turn apart: thoughts, tool calls and answers in tags, and the plain text between them.

The rules, for every dialect that writes `<think>`, calls in tags, and `<answer>`:

- What stands in `<think>` is thought. A `<think>` that is never closed runs to the end; a `</think>` that was
  never opened (a chat template may have opened it) makes everything before it thought. One inside a complete call is
  text of that call.
- A call is read by what it holds, JSON by its brackets and code by its quotes, so a tag inside a string does not end
  it. The closing tag may be missing: a stop string takes it away.
- An answer runs to its closing tag, and where answers nest, the innermost counts. An answer without a closing
  tag runs to the end of the text, again because of stop strings. `<answer>` around a call is no answer.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from speceyes.agents.dialects.forms import TEXT_AROUND, CallForm, json_call
from speceyes.agents.dialects.literals import Unreadable
from speceyes.gating.reply import boxed, thoughts

MAX_CALLS = 16
"""A turn with more calls than this repeats itself; what follows them is not read."""

TOOL_CALL = json_call()
RESULT_TAGS = ("tool_response", "sandbox_output")
"""Tags around results, which models make up now and then."""

_HIDDEN = "\0"
_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)
_ANSWER_CLOSE = re.compile(r"</answer>", re.IGNORECASE)
_SPECIAL = re.compile(r"<\|[a-z_]{1,32}\|>")


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as it stands in the text, from `start` to `end`.

    Attributes:
        value: The object, or None where it cannot be read; then `problem` says why.
        problem: One line for the model.
        repairs: What was mended to read it.
        more: A second object follows inside the same tags.
        closed: The closing tag is there.
        whole: Nothing of it is missing, closing tag or not.
        tag: The name of its tags.
    """

    start: int
    end: int
    value: dict[str, Any] | None
    problem: str = ""
    repairs: tuple[str, ...] = ()
    more: bool = False
    closed: bool = True
    whole: bool = True
    tag: str = TOOL_CALL.tag


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


def read_turn(text: str, forms: Sequence[CallForm] = (TOOL_CALL,), *, calls_in_thought: bool = False) -> WrittenTurn:
    """Take one turn apart. Never raises.

    Args:
        text: The turn.
        forms: The dialect's ways to write a call.
        calls_in_thought: Calls in thoughts are calls as all others. But a tag that a thought just mentions is none:
            such a call must be complete, or end the turn.
    """
    calls, _ = _elements(text, forms)
    whole = [(call.start, call.end) for call in calls if call.value is not None and call.closed]
    thoughts, open_thought = _thoughts(_blank(text, whole))
    spoken, thought = _blank(text, thoughts), _blank(text, _between(thoughts, len(text)))
    calls, answers = _elements(spoken, forms)
    thought_calls, thought_answers = _elements(_THINK.sub(_hide, thought), forms)
    taken = sorted([(call.start, call.end) for call in calls] + [(a.start, a.end) for a in answers])
    plain = without_tags(_blank(spoken, taken), *(form.tag for form in forms))
    if calls_in_thought:
        meant = [call for call in thought_calls if call.value is not None and (call.closed or open_thought)]
        calls = tuple(sorted([*calls, *meant], key=lambda call: call.start))
    return WrittenTurn(text, calls, answers, plain, thought_calls, thought_answers)


def without_tags(text: str, *call_tags: str) -> str:
    """Text for people: no protocol tags, no special tokens of the chat template, no blank edges.

    Without `call_tags`, those of `TOOL_CALL` go.
    """
    tags = "|".join(map(re.escape, ("think", "answer", *RESULT_TAGS, *(call_tags or (TOOL_CALL.tag,)))))
    visible = text.replace(_HIDDEN, "")
    return _SPECIAL.sub("", re.sub(rf"</?(?:{tags})>", "", visible, flags=re.IGNORECASE)).strip()


def clean_answer(text: str, *call_tags: str) -> str:
    r"""An answer's text for people: the `\boxed{}` inside it where there is one, without tags."""
    plain = without_tags(text, *call_tags)
    inner = boxed(plain)
    return plain if inner is None else inner


def _thoughts(text: str) -> tuple[list[tuple[int, int]], bool]:
    """The spans of thoughts, and whether the last one is never closed."""
    spans = thoughts(text)
    return spans, bool(spans) and not text[: spans[-1][1]].lower().endswith("</think>")


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


class _Marks:
    """Where a pattern stands in a text, found once for all questions: turns may be long and full of tags."""

    def __init__(self, pattern: str, text: str) -> None:
        self._found = list(re.finditer(pattern, text, re.IGNORECASE))
        self._starts = [found.start() for found in self._found]

    def after(self, position: int) -> re.Match[str] | None:
        """The first one that begins there or later."""
        index = bisect_left(self._starts, position)
        return self._found[index] if index < len(self._found) else None


def _elements(text: str, forms: Sequence[CallForm]) -> tuple[tuple[WrittenCall, ...], tuple[WrittenAnswer, ...]]:
    """The calls and answers of `text`, each kind in order."""
    by_tag = {form.tag.lower(): form for form in forms}
    opening = _Marks(f"<({'|'.join(map(re.escape, by_tag))}|answer)>", text)
    answer_close = _Marks(_ANSWER_CLOSE.pattern, text)
    closings = {tag: _Marks(f"</{re.escape(tag)}>", text) for tag in by_tag}
    calls: list[WrittenCall] = []
    answers: list[WrittenAnswer] = []
    position = 0
    while found := opening.after(position):
        following = opening.after(found.end())
        border = following.start() if following else len(text)
        tag = found.group(1).lower()
        if tag != "answer":
            if len(calls) == MAX_CALLS:
                calls.append(WrittenCall(found.start(), len(text), None, "There are too many calls.", tag=tag))
                break
            calls.append(_call(text, found, by_tag[tag], opening, closings[tag], border))
            position = calls[-1].end
            continue
        close = answer_close.after(found.end())
        position = found.end()
        if close and close.start() < border:
            answers.append(WrittenAnswer(found.start(), close.end(), text[found.end() : close.start()]))
            position = close.end()
        elif not following:
            answers.append(WrittenAnswer(found.start(), len(text), text[found.end() :], closed=False))
            position = len(text)
    return tuple(calls), tuple(answers)


def _call(
    text: str, opened: re.Match[str], form: CallForm, opening: _Marks, closing: _Marks, border: int
) -> WrittenCall:
    """Read the call that a tag opens. Unclosed, it ends at `border`, where the next element begins."""
    first_close = closing.after(opened.end())
    closed = first_close is not None and first_close.start() < border
    limit, end = first_close.span() if first_close and closed else (border, border)
    try:
        reading = form.read(text, opened.end(), limit)
    except Unreadable as error:
        return WrittenCall(opened.start(), end, None, str(error), closed=closed, tag=form.tag)
    # What looked like the border may have been a string's text, so look again behind the call.
    following, close = opening.after(reading.end), closing.after(reading.end)
    closed = close is not None and (following is None or close.start() < following.start())
    behind = reading.end + len(text[reading.end :]) - len(text[reading.end :].lstrip())
    rest_end, end = close.span() if close and closed else (behind, behind)
    rest = text[reading.end : rest_end]
    more = "{" in rest or text.startswith("{", behind)
    repairs = reading.repairs if rest.strip("` \n\t\r") in ("", "json") else (*reading.repairs, *TEXT_AROUND)
    return WrittenCall(
        opened.start(),
        end,
        reading.value,
        "",
        tuple(dict.fromkeys(repairs)),
        more=more,
        closed=closed,
        whole=reading.whole,
        tag=form.tag,
    )
