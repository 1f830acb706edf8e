"""Choices as lmms-eval reads them, in our own code. Its judge for HR-Bench is left out: what goes there is unparsed.

Described from lmms-eval's public tasks `vstar_bench`, `hrbench` and `pope`; what they do wrong is kept.

- *V\\**: the answer in capitals, and the first that fits: a leading A to D, whatever follows it; A to D behind
  "answer", "choice" or "option", an "is", and blanks or colons, wherever such a word stands and whatever follows;
  "(A)"; A to D before a full stop or closing bracket; A to D between blanks; the only A to D in the text. It does not
  look at the options: a letter that the question does not have is a wrong answer.
- *HR-Bench*: as VLMEvalKit, but the letter may stand anywhere, and the answer may be of any length.
- *POPE*: the whole answer in lower case is "yes" or "no", and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from speceyes.evals.scoring.vlmevalkit import Found, read_options
from speceyes.gating.stated import YES_NO

_VSTAR = (
    ("first_letter", re.compile(r"\A([A-D])")),
    ("cue", re.compile(r"(?:ANSWER|CHOICE|OPTION)(?:\s+IS)?[\s:]+([A-D])")),
    ("bracketed", re.compile(r"\(([A-D])\)")),
    ("closed", re.compile(r"([A-D])\s*[.)\]]")),
    ("letter", re.compile(r"(?<!\S)([A-D])(?!\S)")),
)
"""What is looked for, in this order; the first place counts."""


def read_vstar(answer: str) -> Found:
    """The letter, A to D, that the V* task takes, and which of its steps took it."""
    text = answer.strip().upper()
    for how, pattern in _VSTAR:
        if match := pattern.search(text):
            return match[1], how
    letters = re.findall(r"[A-D]", text)
    return (letters[0], "only_letter") if len(letters) == 1 else (None, "")


def read_hrbench(answer: str, options: Sequence[str]) -> Found:
    """The letter that the HR-Bench task takes without asking its judge."""
    return read_options(answer.strip(), options, last_words=None, guarded=False)


def read_pope(answer: str) -> Found:
    """Yes or no, where the POPE task takes the answer for one of them."""
    said = answer.lower().strip()
    return (said, "word") if said in YES_NO else (None, "")
