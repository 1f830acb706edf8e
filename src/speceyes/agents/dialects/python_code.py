"""Finding the Python code in a turn: where it ends, and what of the text is code. Nothing is run or compiled here.

The closing tag counts outside of strings only, so that code may print it. Strings are told by their quotes: one in
single quotes ends on its line, or it is no string; a `#` outside of strings runs to the end of the line. Where quotes
do not add up, the first closing tag ends the code.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from speceyes.agents.dialects.literals import Unreadable

MAX_CODE = 32_000
"""Characters. Longer code is refused unread."""

_BLOCK = re.compile(r"^[ \t]*```[ \t]*\w*[ \t]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_INLINE_FENCE = re.compile(r"```[ \t]*(?:(?:python|py)\b)?")
_LANGUAGE = re.compile(r"(?:python|py)\d?[ \t]*\n", re.IGNORECASE)
_SINGLE = {quote: re.compile(rf"[^{quote}\\\n]*+(?:\\.[^{quote}\\\n]*+)*+{quote}", re.DOTALL) for quote in "'\""}

_LEADING_LINES = re.compile(r"\A(?:[ \t]*\r?\n)+")

END_OF_BLOCK = re.compile(
    r"^[ \t]*```[ \t]*(?:python|py)\d?[ \t]*\n(?P<code>(?:(?!^[ \t]*```).)*)^[ \t]*```\s*\Z", re.MULTILINE | re.DOTALL
)
"""A text that ends with a block of Python."""


@dataclass(frozen=True, slots=True)
class Code:
    """Code as it was read.

    Attributes:
        code: The code, without fences and common indentation.
        end: The position in the text behind it, where the closing tag begins if there is one.
        repairs: What was mended.
        whole: It has a closing tag or a closing fence, so nothing of it is missing.
    """

    code: str
    end: int
    repairs: tuple[str, ...]
    whole: bool


def read_code(text: str, start: int, limit: int, tag: str = "code") -> Code:
    """Read the code that begins at `start`, behind its opening tag.

    Args:
        text: The whole text.
        start: Where the opening tag ends.
        limit: Where the code ends at the latest if its quotes do not add up.
        tag: The name of the tags.

    Raises:
        Unreadable: There is no code, or more than `MAX_CODE` characters of it.
    """
    stops = re.compile(rf"</{re.escape(tag)}>|<(?:{re.escape(tag)}|answer|tool_call)>", re.IGNORECASE)
    end = _end_outside_strings(text, start, stops)
    end = limit if end is None else end
    body = _LEADING_LINES.sub("", text[start:end].replace("\0", "")).rstrip()
    if len(body) > MAX_CODE:
        raise Unreadable(f"The code is longer than {MAX_CODE} characters.")
    code, repairs = _without_fences(body)
    if not code:
        raise Unreadable("There is no code in the tags.")
    fenced = body.lstrip().startswith("```") and body.endswith("```") and body.count("```") > 1
    return Code(code, end, repairs, whole=fenced or text.startswith("</", end))


def _end_outside_strings(text: str, start: int, stops: re.Pattern[str]) -> int | None:
    """Where the first of `stops` stands outside of strings, or the end of the text. None: quotes do not add up."""
    lexeme = re.compile(rf"\"\"\"|'''|[\"'#]|{stops.pattern}", re.IGNORECASE)
    unclosed = {"'": -1, '"': -1}  # up to there, no such quote closes: looked for once, not once a quote
    position = start
    while found := lexeme.search(text, position):
        mark, position = found.group(), found.end()
        if mark in ('"""', "'''"):
            closing = text.find(mark, position)
            if closing < 0:
                return None
            position = closing + len(mark)
        elif mark == "#":
            line_end = text.find("\n", position)
            line_end = len(text) if line_end < 0 else line_end
            if stop := stops.search(text, position, line_end):
                return stop.start()
            position = line_end
        elif mark in _SINGLE:
            if position <= unclosed[mark]:
                continue
            if string := _SINGLE[mark].match(text, position):
                position = string.end()
            else:
                line_end = text.find("\n", position)
                unclosed[mark] = len(text) if line_end < 0 else line_end
        else:
            return found.start()
    return len(text)


def _without_fences(body: str) -> tuple[str, tuple[str, ...]]:
    """The code of all fenced blocks, or of the whole body where there are none, and what was mended."""
    repairs: list[str] = []
    blocks = _BLOCK.findall(body)
    if blocks:
        code = "\n".join(block.rstrip().removesuffix("```") for block in blocks)
        if _BLOCK.sub("", body).strip():
            repairs.append("text around the code")
        if len(blocks) > 1:
            repairs.append("several blocks of code")
    else:
        code = body
        if fence := _INLINE_FENCE.match(body.lstrip()):
            code = body.lstrip()[fence.end() :]
        elif language := _LANGUAGE.match(body):
            code = body[language.end() :]
            repairs.append("the language's name before the code")
        code = code.removesuffix("```")
    code = textwrap.dedent(code.strip("\n")).rstrip()
    # A first line that is indented more than another is so by what stands before it: a tag, a fence.
    return code.lstrip(), tuple(repairs)
