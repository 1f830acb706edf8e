"""Which choice an answer states: one rule without guesses, for records, gateway and scoring alike.

It looks for one thing after the other, and the first that is there decides:

1. *A cue*: "the answer is C", "Answer: C", "option C", "C is correct", up to the end of the clause. Cues that
   disagree, or say nothing clear, state nothing; nothing else is looked for then.
2. *A letter*: the answer is an option's letter, alone or with that option's text behind it ("(c)", "C.", "C. red"); or
   a running text names one option's letter and no other, in brackets or where a clause ends ("Considering the sign,
   D"). The article in "A dog" is no letter. A letter that stands beside another option's text, or behind a "not",
   states nothing.
3. *An option's text*: the answer is the text of one option and nothing else ("red"). Where it is one option's text and
   another one's letter, it states nothing.

Without options, an answer states yes or no where its first clause is that word, or begins with it so that it cannot
mean anything else ("Yes there is"; not "No doubt"), and no other clause is the other word. Any other answer states its
own words.

Case, surrounding punctuation and markdown do not count. Only the part of a reply that is its answer is read
(`speceyes.gating.reply`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from speceyes.gating.reply import Form, answer_part

LETTERS = string.ascii_uppercase
"""Of answer options, in their order."""

MOST = 4_000
"""Of a longer answer only the begin and the end are searched, half of it each."""

YES_NO = ("yes", "no")


class How(StrEnum):
    """What in an answer told its choice."""

    CUE = "cue"
    LETTER = "letter"
    OPTION_TEXT = "option_text"
    WORD = "word"
    """Yes or no, or where there are no options the answer's own words."""
    NOTHING = "unparsed"


@dataclass(frozen=True, slots=True)
class Statement:
    """What an answer states.

    Attributes:
        choice: An option's letter, or a word in lower case; None where it states none.
        how: What told it; `NOTHING` exactly where there is no choice.
        form: How the reply marked its answer.
    """

    choice: str | None
    how: How
    form: Form = Form.PLAIN


_MARKS = " \t\r\n*_`\"'“”‘’.,;:!?()[]{}"
_CLAUSE = r"(?:[^.,;\n]|[.,;](?!\s|$))+"
_CUE = re.compile(
    rf"\b(?:answer|option)\b(?:\s+(?:is|was|(?:would|should|must|will)\s+be)\b)?\s*[:=]?\s*(?:option\s+)?(?P<said>{_CLAUSE})",
    re.IGNORECASE,
)
_AFFIRMED = re.compile(r"(?<![\w.'’-])\(?(?P<letter>[A-Z])\)?\s+is\s+(?:the\s+)?(?:correct|right)\b")
_REST = re.compile(r"\s(?:because|since|due\s+to|is\s+(?:the\s+)?(?:correct|right))\b.*", re.IGNORECASE | re.DOTALL)
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|`{1,3}|\${1,2})(?=\S)(.{1,200}?)(?<=\S)\1(?!\w)")
_HEADING = re.compile(r"^\s{0,3}(?:#{1,6}|>)\s+", re.MULTILINE)
_LETTERED = re.compile(
    r"\(?(?P<letter>[A-Z])\)?(?:\s*[.:)]\s*|\s+|$)(?:[-–—]\s*)?(?P<rest>.*)", re.IGNORECASE | re.DOTALL
)
_NAMED = re.compile(r"\((?P<bracketed>[A-Za-z])\)|(?<![\w.'’-])(?P<letter>[A-Z])(?![\w'’-]|\.\w)")
_ARTICLE = re.compile(r"\s+(?!(?:or|and|nor|vs|but|is)\b)\w", re.IGNORECASE)
_CLAUSE_ENDS = re.compile(r"\s*(?:[.,;:!?)\]\"'”’*_`–—\n]|$)|\s+(?:because|since|due\s+to)\b", re.IGNORECASE)
_DENIED = re.compile(r"\b(?:not|never|neither|nor|cannot|except|wrong|incorrect|unlike)\b|n['’]t\b", re.IGNORECASE)
_SAID_NO = frozenset(
    ("there", "it", "i", "he", "she", "they", "we", "you", "this", "that", "these", "those", "the", "a", "an", "its")
)
"""Words that cannot follow the "no" of "no dog", so a "no" before them is a whole answer."""


def read_statement(reply: str, options: Sequence[str] = ()) -> Statement:
    """The choice that a reply states.

    Args:
        reply: What a model wrote: an answer, or a whole reply with thoughts and tags.
        options: The options in the order shown; those beyond the 26th have no letter.
    """
    part = answer_part(reply)
    shown = tuple(options)[: len(LETTERS)]
    choice, how = _stated(part.text, shown) if bare(part.text) else (None, How.NOTHING)
    return Statement(choice, how if choice is not None else How.NOTHING, part.form)


def _stated(answer: str, options: tuple[str, ...]) -> tuple[str | None, How]:
    text = _plain(answer if len(answer) <= MOST else f"{answer[: MOST // 2]}\n{answer[-MOST // 2 :]}")
    cued = _cued(text, options)
    if cued:
        return cued.pop() if len(cued) == 1 else None, How.CUE
    if not options:
        return _word(text) or bare(text if len(answer) <= MOST else answer) or None, How.WORD
    whole, how = _choice(text, options)
    if how is not How.NOTHING:
        return whole, how
    return _named(text, options), How.LETTER


def _cued(text: str, options: tuple[str, ...]) -> set[str | None]:
    found: set[str | None] = set()
    for match in _CUE.finditer(text):
        said = _REST.sub("", " " + match["said"])
        if not bare(said):
            continue
        if not options:
            found.add(_word(said) or bare(said))
            continue
        choice, how = _choice(said, options)
        found.add(choice if how is not How.NOTHING else _named(said, options))
    for match in _AFFIRMED.finditer(text):
        if match["letter"] in LETTERS[: len(options)]:
            found.add(match["letter"])
    return found


def _choice(text: str, options: tuple[str, ...]) -> tuple[str | None, How]:
    """The choice of a text that is a choice and nothing else. `NOTHING` where it is not: then look further."""
    said, words = bare(text), [bare(_plain(option)) for option in options]
    by_text = LETTERS[words.index(said)] if words.count(said) == 1 else None
    if by_text is None and sorted(words) == sorted(YES_NO) and (word := _word(text)):
        by_text = LETTERS[words.index(word)]
    match = _LETTERED.fullmatch(text.strip(_MARKS))
    letter = match["letter"].upper() if match else ""
    if match is None or letter not in LETTERS[: len(options)]:
        return by_text, How.OPTION_TEXT if by_text else How.NOTHING
    rest = bare(match["rest"])
    if rest == "":
        return (None if by_text not in (None, letter) else letter), How.LETTER
    if rest == words[LETTERS.index(letter)]:
        return letter, How.LETTER
    return by_text, How.OPTION_TEXT if by_text else How.NOTHING


def _named(text: str, options: tuple[str, ...]) -> str | None:
    """The one letter that a running text names, if it is clear that the letter is the answer."""
    letters = set(LETTERS[: len(options)])
    found: dict[str, bool] = {}
    for match in _NAMED.finditer(text):
        letter = (match["bracketed"] or match["letter"]).upper()
        article = match["letter"] in ("A", "I") and _ARTICLE.match(text, match.end())
        if letter not in letters or article:
            continue
        ends = bool(match["bracketed"] or _CLAUSE_ENDS.match(text, match.end()))
        found[letter] = found.get(letter, False) or (ends and not _denied(text, match.start()))
    if len(found) != 1 or not all(found.values()):
        return None
    (letter,) = found
    said = text.casefold()
    others = (word for place, option in enumerate(options) if LETTERS[place] != letter and (word := bare(option)))
    return None if any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", said) for word in others) else letter


def _denied(text: str, before: int) -> bool:
    """Whether the clause that leads up to a place says no to it."""
    clause = re.split(r"[.,;:!?\n]\s", text[max(0, before - 200) : before])[-1]
    return _DENIED.search(clause) is not None


def _word(text: str) -> str | None:
    """Yes or no, where the first clause of a text says one of them and no other clause is the other one."""
    first, *others = (bare(clause) for clause in re.split(r"[.,;!?\n]", text.strip(_MARKS)))
    words: list[str] = re.findall(r"[\w'’]+", first)
    if not words or words[0] not in YES_NO:
        return None
    said, other = words[0], YES_NO[words[0] == "yes"]
    if other in others or other in words:
        return None
    if first == said or (said == "yes" and not _DENIED.search(first)):
        return said
    return said if said == "no" and words[1] in _SAID_NO else None


def _plain(text: str) -> str:
    """Without markdown: emphasis, code marks, headings."""
    text = _HEADING.sub("", text)
    for _ in range(3):
        text = _EMPHASIS.sub(r"\2", text)
    return text


def bare(text: str) -> str:
    """In lower case, without punctuation and markdown at its ends."""
    return text.strip(_MARKS).casefold()
