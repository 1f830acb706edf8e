r"""Which part of a model's whole reply is its answer.

- What stands in `<think>` is thought. A `<think>` that is never closed runs to the end; a `</think>` that was never
  opened (a chat template may have opened it) makes everything before it thought.
- The answer is what the last complete `<answer>` tag outside the thoughts holds, empty ones aside. Where none is
  complete, one that is open runs to the end: a stop string may have taken its closing tag away.
- Inside that, or in the whole text where there is no tag, the last `\boxed{}` with balanced braces counts.
- A reply with neither is an answer as a whole.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from enum import StrEnum

MAX_BOXES = 16
"""A text that opens more boxes than this repeats itself; only the last ones are looked at."""

LONGEST_BOX = 2_000
"""Characters of a box; a longer one is not read."""

_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)
_ANSWER = re.compile(r"<answer>((?:(?!</?answer>).)*+)</answer>", re.IGNORECASE | re.DOTALL)
_OPEN = re.compile(r"<answer>((?:(?!</?answer>).)*+)\Z", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?answer>", re.IGNORECASE)
_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")


class Form(StrEnum):
    """How a reply marks its answer."""

    TAG = "tag"
    OPEN_TAG = "open_tag"
    """An `<answer>` that is not closed: cut off, or closed by a stop string that the server took away."""
    BOX = "box"
    PLAIN = "plain"
    """Not at all."""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """The answer in a reply, without its tags, and how it was marked."""

    text: str
    form: Form


def answer_part(reply: str) -> AnswerPart:
    """The answer in a whole reply. Its text is empty where the reply is all thought."""
    text, form = _tagged(spoken(reply))
    inner = boxed(text)
    if inner is not None and form is Form.PLAIN:
        form = Form.BOX
    return AnswerPart(_TAG.sub(" ", text if inner is None else inner).strip(), form)


def spoken(reply: str) -> str:
    """A reply without its thoughts."""
    edges = [0, *itertools.chain.from_iterable(thoughts(reply)), len(reply)]
    return "\n".join(reply[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def thoughts(text: str) -> list[tuple[int, int]]:
    """(start, end) of everything that is thought, tags included, in order."""
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


def boxed(text: str) -> str | None:
    r"""What the last `\boxed{...}` with balanced braces holds, without `\text{}`; None if there is none."""
    position = len(text)
    for _ in range(MAX_BOXES):
        position = text.rfind(r"\boxed{", 0, position)
        if position < 0:
            break
        depth, begin = 1, position + len(r"\boxed{")
        for offset, char in enumerate(text[begin : begin + LONGEST_BOX]):
            depth += (char == "{") - (char == "}")
            if depth == 0:
                return _unwrapped(text[begin : begin + offset]).strip()
    return None


def _unwrapped(text: str) -> str:
    while (shorter := _WRAPPER.sub(r"\1", text)) != text:
        text = shorter
    return text


def _tagged(text: str) -> tuple[str, Form]:
    complete = _ANSWER.findall(text)
    if complete:
        return next((inside for inside in reversed(complete) if inside.strip()), ""), Form.TAG
    cut = _OPEN.search(text)
    return (cut[1], Form.OPEN_TAG) if cut else (text, Form.PLAIN)
