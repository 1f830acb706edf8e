"""Whether an answer to a made question is right, by a rule without guesses.

An answer must *state* its choice, and only one:

- It is the choice and nothing else: "C", "(c)", "**C.**", "C. red", "red"; or
- after a cue, up to the end of the clause: "Based on the sign, the answer is C."; cues that disagree state nothing; or
- for yes and no, its first clause is the word: "Yes, there is no doubt." states yes, "I notice a dog" states nothing.

Case, surrounding punctuation and markdown do not count. A letter that contradicts the text behind it ("A. red" where
A is blue) states nothing. What states nothing is not right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from speceyes.evals.datasets.questions import LETTERS

_CUE = re.compile(
    r"\b(?:answer|option)\b(?:\s+is\b)?\s*:?\s*(?:option\s+)?(?P<said>(?:[^.,;\n]|[.,;](?!\s|$))+)", re.IGNORECASE
)
_LETTERED = re.compile(rf"\(?(?P<letter>[{LETTERS}])\)?(?:\s*[.:)]\s*|\s+|$)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_MARKS = " \t\r\n*_`\"'“”‘’.,;:!?()[]{}"
_YES_NO = ("yes", "no")


def is_right(answer: str, gold: str, options: Sequence[str] = ()) -> bool:
    """Whether the answer states the gold choice.

    Args:
        answer: What the model said.
        gold: The right option's letter, or the right word where there are no options.
        options: The options in the order shown.
    """
    said = stated(answer, options)
    return said is not None and said.casefold() == gold.strip().casefold()


def stated(answer: str, options: Sequence[str] = ()) -> str | None:
    """The choice that an answer states: an option's letter, or a word in lower case; None where it states none."""
    plain = _bare(answer)
    if not plain:
        return None
    cued = {_choice(match["said"], options) for match in _CUE.finditer(answer)}
    if cued:
        return cued.pop() if len(cued) == 1 else None
    if not options and (first := _bare(re.split(r"[.,;!?\n]", plain, maxsplit=1)[0])) in _YES_NO:
        return first
    return _choice(plain, options)


def _choice(text: str, options: Sequence[str]) -> str | None:
    said = _bare(text)
    if not options:
        return said or None
    words = [_bare(option) for option in options]
    if words.count(said) == 1:
        return LETTERS[words.index(said)]
    match = _LETTERED.fullmatch(text.strip(" \t\r\n*_`\"'"))
    if match is None or (place := LETTERS.index(match["letter"].upper())) >= len(options):
        return None
    rest = _bare(match["rest"])
    return LETTERS[place] if rest in ("", words[place]) else None


def _bare(text: str) -> str:
    return text.strip(_MARKS).casefold()
