"""Choices as VLMEvalKit reads them, in our own code. Its judge is left out: what would go there is unparsed.

Described from its public `can_infer` (multiple choice) and `YOrN_Extraction` (yes/no); what they do wrong is kept.

- *Multiple choice*: punctuation becomes blanks. Where exactly one option's letter, a capital, is a word of its own and
  stands among the last four words, it is taken. "Z", or a stock phrase of refusal, is a refusal. Otherwise the one
  option whose text occurs in the answer, whatever is around it, is taken, provided that the answer is at most twice as
  long as all options together.
- *Yes/no*: some punctuation goes, the rest stays with its word. One of the two words is there and the other is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from speceyes.evals.scoring.marks import REFUSAL
from speceyes.gating.stated import LETTERS

Found = tuple[str | None, str]
"""The choice, or None, and the step of the rule that found it, or that it is a refusal."""

LAST_WORDS: Final = 4

_NO_REPLY = "Failed to obtain answer via API"
_REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_BLANKED = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_LOOSE = ';/[]"{}()=+\\_-><@`,?!'
"""Marks that the yes/no rule takes out of a text."""
_FULL_STOP = re.compile(r"(?<!\d)\.(?!\d)")
_STOPS = 32
"""Full stops that it takes out: it hands a flag over where the count belongs."""


def read_options(
    answer: str, options: Sequence[str], *, last_words: int | None = LAST_WORDS, guarded: bool = True
) -> Found:
    """The option's letter that is taken without asking a judge.

    Args:
        answer: What the model said.
        options: In the order shown.
        last_words: Among how many words at the end the letter must stand; None for anywhere.
        guarded: Whether an answer may be too long for its options to be looked for.
    """
    letter, how = _read_letter(answer, LETTERS[: len(options)], last_words)
    if how:
        return letter, how
    said = answer.lower()
    if guarded and len(said) > 2 * sum(map(len, options)):
        return None, ""
    there = [letter for letter, option in zip(LETTERS, options, strict=False) if option.lower() in said]
    return (there[0], "option_text") if len(there) == 1 else (None, "")


def read_yes_no(answer: str) -> Found:
    """Yes or no, where exactly one of them is a word of the answer."""
    words = _without_marks(answer.lower()).split()
    said = [word for word in ("yes", "no") if word in words]
    return (said[0], "word") if len(said) == 1 else (None, "")


def _read_letter(answer: str, letters: str, last_words: int | None) -> Found:
    if _NO_REPLY in answer:
        return None, ""
    if any(phrase in answer for phrase in _REFUSALS):
        return None, REFUSAL
    words = answer.translate(_BLANKED).split()
    there = [letter for letter in letters if letter in words]
    if not there and "Z" in words:
        return None, REFUSAL
    if len(there) != 1:
        return None, ""
    behind = len(words) - words.index(there[0])
    return (there[0], "letter") if last_words is None or behind <= last_words else (None, "")


def _without_marks(text: str) -> str:
    """A mark is deleted if it has a blank beside it anywhere in the text, or if the text has a figure such as 1,000;
    else it becomes a blank."""
    thousands = re.search(r"\d,\d", text) is not None
    less = text
    for mark in _LOOSE:
        spaced = f"{mark} " in text or f" {mark}" in text
        less = less.replace(mark, "" if spaced or thousands else " ")
    return _FULL_STOP.sub("", less, count=_STOPS)
