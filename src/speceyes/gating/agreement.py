"""Whether two answers are the same, by a rule without guesses: both *state* a choice, and it is the same one.

An answer states its choice, and only one, where

- it is the choice and nothing else: "C", "(c)", "**C.**", "C. red", "red"; or
- after a cue, up to the end of the clause: "Based on the sign, the answer is C."; cues that disagree state nothing; or
- for yes and no, its first clause is the word: "Yes, there is no doubt." states yes, "I notice a dog" states nothing.

Case, surrounding punctuation and markdown do not count. A letter that contradicts the text behind it ("A. red" where
A is blue) states nothing.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

LETTERS = string.ascii_uppercase
"""Of answer options, in their order."""

_CUE = re.compile(
    r"\b(?:answer|option)\b(?:\s+is\b)?\s*:?\s*(?:option\s+)?(?P<said>(?:[^.,;\n]|[.,;](?!\s|$))+)", re.IGNORECASE
)
_LETTERED = re.compile(r"\(?(?P<letter>[A-Z])\)?(?:\s*[.:)]\s*|\s+|$)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_OPTION = re.compile(r"[ \t]*(?:\((?P<bracketed>[A-Z])\)|(?P<letter>[A-Z])[.):])[ \t]*(?P<text>\S.*)")
_MARKS = " \t\r\n*_`\"'“”‘’.,;:!?()[]{}"
_YES_NO = ("yes", "no")


def agree(draft: str, agent: str, options: Sequence[str] = ()) -> bool:
    """Whether two answers are the same: they state the same choice, or, where one states none, say the same words.

    Two answers that agree are both right or both wrong, whatever the gold choice is. So the share of disagreements is
    an upper bound of the share of drafts that lose against the agent.

    Args:
        draft: What the draft model said.
        agent: What the agent said.
        options: The options in the order shown.
    """
    first, second = stated(draft, options), stated(agent, options)
    if first is not None and second is not None:
        return first.casefold() == second.casefold()
    return draft.strip() != "" and draft.strip() == agent.strip()


def same_answer(draft: str, agent: str, question: str) -> bool:
    """`agree`, with the options that the question lists."""
    return agree(draft, agent, options_in(question))


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


def options_in(question: str) -> tuple[str, ...]:
    """The answer options that a question lists, one a line: "A. red", "(A) red", "A) red", from A on, two at least.

    Where several such lists stand in it, the last one counts; () where there is none.
    """
    found: list[str] = []
    for line in question.splitlines():
        match = _OPTION.fullmatch(line)
        letter = (match["letter"] or match["bracketed"]) if match else None
        if match is None or letter is None:
            continue
        if letter == "A":
            found = []
        if len(found) < len(LETTERS) and letter == LETTERS[len(found)]:
            found.append(match["text"].strip())
    return tuple(found) if len(found) > 1 else ()


def _choice(text: str, options: Sequence[str]) -> str | None:
    said = _bare(text)
    if not options:
        return said or None
    words = [_bare(option) for option in options[: len(LETTERS)]]
    if words.count(said) == 1:
        return LETTERS[words.index(said)]
    match = _LETTERED.fullmatch(text.strip(" \t\r\n*_`\"'"))
    if match is None or (place := LETTERS.find(match["letter"].upper())) not in range(len(words)):
        return None
    rest = _bare(match["rest"])
    return LETTERS[place] if rest in ("", words[place]) else None


def _bare(text: str) -> str:
    return text.strip(_MARKS).casefold()
