"""Reading a turn while it is written: what can be shown of it at once, as a thought or as the answer.

A turn says only at its end what it is: a later answer may replace a short one, a box inside may be the real answer, a
stray `</think>` may make all of it thought, a token limit may leave it incomplete. What is shown cannot be taken back.
So one rule is made for the reader, and parsing keeps to it, streamed or not:

    An answer whose tag opens a turn, or stands right behind a thought, is a *long answer* once `LEAD` characters of
    it are there and no box among them. A long answer counts, whatever comes behind it.

Everything else is held back until the turn is over, and decided by the dialect's `parse`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from speceyes.agents.dialects.tags import RESULT_TAGS, TOOL_CALL
from speceyes.types import Delta

LEAD = 80
"""A shorter answer is shown when its turn is over, which is a token or two later."""

_BOX = "\\boxed{"
_SPECIAL = r"<\|[a-z_]{1,32}\|>"
_OPEN_SPECIAL = re.compile(r"<\|[a-z_]{0,32}\|?")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a turn that can be shown."""

    kind: Literal["thought", "answer"]
    text: str


class TurnReader:
    """Reads one turn in the tags `<think>`, `<answer>` and a call's. How the turn is cut into deltas changes nothing.

    Args:
        call_tags: The dialect's tags for calls.
        calls_in_thought: Calls in thoughts are meant: what follows a complete one is not shown before its turn is read.

    Attributes:
        answer: The long answer so far, without white space at its ends; None where there is none.
        whole: The long answer has been closed.
    """

    def __init__(self, call_tags: Sequence[str] = (TOOL_CALL.tag,), *, calls_in_thought: bool = False) -> None:
        self.answer: str | None = None
        self.whole = False
        self._state: Literal["plain", "thought", "call in thought", "answer", "long", "silent"] = "plain"
        self._calls = frozenset(tag.lower() for tag in call_tags)
        self._calls_in_thought = calls_in_thought
        names = ("think", "answer", *RESULT_TAGS, *sorted(self._calls))
        self._tags = [f"<{end}{name}>" for name in names for end in ("", "/")]
        self._tag = re.compile(f"(?i:{'|'.join(map(re.escape, self._tags))})|{_SPECIAL}")
        self._rest = ""
        self._held = ""
        self._pieces: list[Piece] = []

    def feed(self, delta: Delta) -> list[Piece]:
        """Take the next piece of the turn; return what can be shown by now."""
        if delta.reasoning:
            self._say("thought", delta.reasoning)
        self._rest += delta.text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
        done, text_end = 0, self._open_tag()
        for found in self._tag.finditer(self._rest):
            self._text(self._rest[done : found.start()])
            self._turn_to(found.group().lower())
            done = found.end()
        self._text(self._rest[done:text_end])
        self._rest = self._rest[text_end:]
        return self._taken()

    def close(self) -> list[Piece]:
        """The turn is over: return what was held back as the begin of a tag and was none."""
        self._text(self._rest)
        self._rest = ""
        return self._taken()

    def _taken(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _open_tag(self) -> int:
        """Where the begin of a tag stands at the end of the text; the text's length where none does."""
        at = self._rest.rfind("<")
        tail = self._rest[at:].lower()
        if at >= 0 and (_OPEN_SPECIAL.fullmatch(self._rest, at) or any(tag.startswith(tail) for tag in self._tags)):
            return at
        return len(self._rest)

    def _text(self, text: str) -> None:
        """Text between two tags."""
        if self._state == "thought":
            self._say("thought", text)
        elif self._state == "plain":
            self._held += text
        elif self._state == "answer":
            self._held = (self._held + text).lstrip()
            if len(self._held) >= LEAD:
                if _BOX in self._held[:LEAD]:
                    self._enter("silent")
                    return
                self._state, self.answer = "long", ""
                text, self._held = self._held, ""
        if self._state == "long":
            self._tell_answer(text)

    def _tell_answer(self, text: str) -> None:
        """Show more of the long answer, but for white space that may be its end."""
        known = self._held + text
        shown = known.rstrip()
        self._held = known[len(shown) :] if shown else known
        if shown:
            self.answer = (self.answer or "") + shown
            self._say("answer", shown)

    def _turn_to(self, tag: str) -> None:
        """A tag: what follows is something else."""
        name, closes = tag.strip("</>"), tag.startswith("</")
        name = "call" if name in self._calls else name
        match self._state, name, closes:
            case "plain", "think", False:
                self._enter("thought")
            case "plain" | "answer", "think", True:  # the template has opened the thought that ends here
                self._say("thought", self._held)
                self._enter("plain")
            case "plain", "answer", False:
                self._enter("silent" if self._held.strip() else "answer")
            case "plain" | "answer", "call", False:
                self._enter("silent")
            case "thought" | "call in thought", "think", True:
                self._enter("plain")
            case "thought", "call", False:
                self._enter("call in thought")
            case "call in thought", "call", True:
                self._enter("silent" if self._calls_in_thought else "thought")
            case "answer", "answer", True:
                self._enter("silent" if self._held else "plain")
            case "answer", "answer", False:
                self._enter("answer")
            case "answer", "think", False:
                self._enter("silent")
            case "long", "answer" | "think", _:
                self.whole = closes and name == "answer"
                self._enter("silent")
            case "long", "call", False:
                self._enter("silent")

    def _enter(self, state: Literal["plain", "thought", "call in thought", "answer", "silent"]) -> None:
        self._state, self._held = state, ""

    def _say(self, kind: Literal["thought", "answer"], text: str) -> None:
        if text:
            self._pieces.append(Piece(kind, text))
