"""Whether two answers are the same: both *state* a choice (`speceyes.gating.stated`), and it is the same one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from speceyes.gating.stated import LETTERS as LETTERS
from speceyes.gating.stated import read_statement

_OPTION = re.compile(r"[ \t]*(?:\((?P<bracketed>[A-Z])\)|(?P<letter>[A-Z])[.):])[ \t]*(?P<text>\S.*)")


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
    return read_statement(answer, options).choice


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
