"""Where a final answer ends: at a stop string of the caller, or at the length that the caller allows.

Both are matters of the visible answer, so they are applied here, to its text, and not by the server, to a turn. No
tokenizer is at hand for that. Length is counted in `PIECE`s, which are about as long as the longest common tokens of
current vocabularies, so an answer that keeps within the limit by its model's own count is hardly ever cut.
"""

from __future__ import annotations

import re
from typing import Literal

from speceyes.types import Sampling

PIECE = re.compile(r"\s*(?:[\u3040-\u9fff\uac00-\ud7a3]{1,4}|[^\W\d]{1,16}|\d{1,3}|[^\w\s]{1,16})")
"""What counts as one token, with the white space before it: up to 4 ideographs, kana or Korean syllables, 16 letters,
3 digits, or 16 marks."""


class Ending:
    """Takes an answer's text in pieces, however they are cut, and gives out what belongs to the final answer.

    What it gives out, joined, has no white space at its ends. It holds back what may yet be left out: the begin of a
    stop string, and white space.

    Attributes:
        finish: "length" where the limit has cut the text, else "stop".
        over: Nothing more will be given out.
    """

    def __init__(self, sampling: Sampling) -> None:
        self.finish: Literal["stop", "length"] = "stop"
        self.over = False
        self._stop = [text for text in sampling.stop if text]
        self._most = sampling.max_answer_tokens
        self._text = ""
        self._given = 0
        self._pieces = 0
        self._last_piece = 0

    def feed(self, text: str) -> str:
        """Take more of the answer; return what can be shown by now."""
        if self.over:
            return ""
        self._text += text if self._text else text.lstrip()
        stop, limit = self._stopped(), self._limited()
        if stop is not None and (limit is None or stop[0] <= limit[1]):
            self.over = True
            return self._give(stop[1])
        if limit is not None:
            self.over, self.finish = True, "length"
            return self._give(limit[0])
        return self._give(self._undecided())

    def close(self) -> str:
        """The answer is complete: return the rest of it."""
        if self.over:
            return ""
        self.over = True
        return self._give(len(self._text))

    def _stopped(self) -> tuple[int, int] | None:
        """(end, start) of the stop string that was complete first, as a server would have met it."""
        found = ((self._text.find(stop), len(stop)) for stop in self._stop)
        return min(((start + length, start) for start, length in found if start >= 0), default=None)

    def _limited(self) -> tuple[int, int] | None:
        """Once the text is longer than the limit: where its last piece ends, and where the first one too many begins.

        Only the last piece so far can still grow, so counting goes on from there.
        """
        if self._most is None:
            return None
        before, end = self._pieces, self._last_piece
        for piece in PIECE.finditer(self._text, self._last_piece):
            if before == self._most:
                return end, piece.end() - len(piece.group().lstrip())
            self._pieces, self._last_piece = before, piece.start()
            before, end = before + 1, piece.end()
        return None

    def _undecided(self) -> int:
        """Where what may be the begin of a stop string begins."""
        longest = max(map(len, self._stop), default=1) - 1
        for at in range(max(self._given, len(self._text) - longest), len(self._text)):
            if any(stop.startswith(self._text[at:]) for stop in self._stop):
                return at
        return len(self._text)

    def _give(self, end: int) -> str:
        shown = self._text[self._given : end].rstrip() if self._given < end else ""
        self._given += len(shown)
        return shown


def end_answer(text: str, sampling: Sampling) -> tuple[str, Literal["stop", "length"]]:
    """A whole answer, cut where the caller wants it, and why it ends."""
    ending = Ending(sampling)
    return ending.feed(text) + ending.close(), ending.finish
