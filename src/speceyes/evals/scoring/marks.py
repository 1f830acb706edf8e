"""What scoring says of an answer, and what an answer is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self

from speceyes.errors import InputError
from speceyes.gating.stated import LETTERS, YES_NO, How, bare

UNPARSED = How.NOTHING.value
"""`Mark.how` of an answer in which the rule found no choice."""

ERROR = "error"
"""`Mark.how` of a question to which there is no answer, because something failed."""

JUDGE = "judge"
"""`Mark.how` where a model decided, since the rule found nothing."""

REFUSAL = "refusal"
"""`Mark.how` where a rule took an answer for a refusal: it states no choice, and that is certain."""


class Rule(StrEnum):
    """How a choice is read from an answer."""

    STRICT = "strict"
    """Our own: one stated choice, or none (`speceyes.gating.stated`)."""
    LMMS = "lmms"
    """As lmms-eval reads V*, HR-Bench and POPE, without its judge."""
    VLMEVALKIT = "vlmevalkit"
    """As VLMEvalKit reads multiple choice and yes/no, without its judge."""
    POPE = "pope"
    """As POPE's own evaluation script reads yes/no."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a rule makes of one answer.

    Attributes:
        parsed: The choice that was found: an option's letter, or a word in lower case. None where there is none, and
            where a judge only said that an answer is wrong.
        right: Whether that is the right one. False where nothing was found; None where the right one is not known.
        how: What found it: `cue`, `letter`, `option_text`, `word`, a name that only the rule uses, `judge`,
            `refusal`, `unparsed` or `error`.
        form: How the reply marked its answer: `tag`, `open_tag`, `box` or `plain`. Rules other than strict read the
            whole reply and say `plain`.
    """

    parsed: str | None
    right: bool | None
    how: str
    form: str = "plain"

    @property
    def unparsed(self) -> bool:
        """The rule found no choice, and no judge did."""
        return self.how == UNPARSED

    @property
    def failed(self) -> bool:
        """There was no answer to read."""
        return self.how == ERROR


class Asked(Protocol):
    """A question as scoring needs it: an `Item` is one."""

    @property
    def options(self) -> Sequence[str]:
        """In the order shown; empty for a question without options."""

    @property
    def gold(self) -> str | None:
        """The right option's letter, or the right word; None where it is not known."""


class Placed(Protocol):
    """A question as figures need it: an `Item` is one."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def category(self) -> str:
        """What kind of question it is."""

    @property
    def group(self) -> str:
        """What the turns of one question share."""

    @property
    def gold(self) -> str | None:
        """The right answer; None where it is not known."""


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """What answers to one question are held against. Make it with `of`.

    Attributes:
        gold: An option's letter, or a word in lower case; None where it is not known.
        options: In the order shown.
    """

    gold: str | None
    options: tuple[str, ...] = ()

    @classmethod
    def of(cls, asked: Asked | tuple[str | None, Sequence[str]]) -> Self:
        """Of a question, or of its right answer and its options. The right answer may be an option's text, too.

        Raises:
            InputError: The right answer is none of the options, or there are more than 26.
        """
        gold, options = asked if isinstance(asked, tuple) else (asked.gold, asked.options)
        shown = tuple(options)
        if gold is not None and not gold.strip():
            raise InputError("the right answer is empty; leave it out where it is not known")
        if len(shown) > len(LETTERS):
            raise InputError(f"{len(shown)} options: at most {len(LETTERS)} have a letter")
        if gold is None or not shown:
            return cls(None if gold is None else bare(gold) or gold.strip().casefold(), shown)
        letters, words = LETTERS[: len(shown)], [bare(option) for option in shown]
        if gold.strip().upper() in list(letters):
            return cls(gold.strip().upper(), shown)
        if words.count(bare(gold)) == 1:
            return cls(letters[words.index(bare(gold))], shown)
        raise InputError(f"the right answer {gold!r} is none of the options {letters[0]} to {letters[-1]}")

    @property
    def yes_no(self) -> bool:
        """Whether it is a question without options whose right answer is yes or no."""
        return not self.options and self.gold in YES_NO

    def mark(self, parsed: str | None, how: str, form: str = "plain") -> Mark:
        """The mark of an answer in which this choice was found."""
        how = UNPARSED if parsed is None and how != REFUSAL else how
        return Mark(parsed, None if self.gold is None else parsed == self.gold, how, form)


def failed(gold: str | None) -> Mark:
    """The mark of a question to which there is no answer: it counts as wrong, and is listed apart."""
    return Mark(None, None if gold is None else False, ERROR)
