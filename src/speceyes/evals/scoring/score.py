"""One answer, one rule, one mark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from speceyes.errors import ConfigError, InputError
from speceyes.evals.scoring import lmms, pope, vlmevalkit
from speceyes.evals.scoring.marks import UNPARSED, AnswerKey, Asked, Mark, Rule
from speceyes.gating.stated import YES_NO, read_statement

KINDS = ("vstar", "hrbench", "mcq", "pope", "nano")
"""Kinds of data sets. Only lmms-eval reads them in different ways: HR-Bench and `mcq` unlike V* and all others."""

MOST_WORDS = 6
"""An answer to an open question states nothing if it has more words than this and than the right answer."""


def score_answer(
    text: str,
    asked: Asked | tuple[str | None, Sequence[str]],
    rule: Rule = Rule.STRICT,
    *,
    kind: str = "vstar",
) -> Mark:
    """Read the choice from an answer, and say whether it is right.

    What a model wrote is never an error: in the worst case the mark says `unparsed`.

    Args:
        text: The answer, or a whole reply.
        asked: The question, or its right answer and its options.
        rule: How to read.
        kind: Whose question it is, one of `KINDS`; only `Rule.LMMS` asks.

    Raises:
        InputError: The right answer is none of the options, or the rule does not cover such a question.
    """
    key = AnswerKey.of(asked)
    if rule is Rule.STRICT:
        return _strict(text, key)
    if rule is Rule.POPE if key.options else key.gold not in (None, *YES_NO):
        raise InputError(f"the rule {rule} does not cover this question: {_unlike(key)}")
    if rule is Rule.POPE:
        return key.mark(pope.read_original(text), pope.ORIGINAL)
    if rule is Rule.VLMEVALKIT:
        found = vlmevalkit.read_options(text, key.options) if key.options else vlmevalkit.read_yes_no(text)
    elif not key.options:
        found = lmms.read_pope(text)
    else:
        found = lmms.read_hrbench(text, key.options) if kind in ("hrbench", "mcq") else lmms.read_vstar(text)
    return key.mark(*found)


def find_rule(name: str, questions: Iterable[Asked] = ()) -> Rule:
    """A rule by its name, if it covers the questions.

    Raises:
        ConfigError: There is no such rule, or it does not cover one of them.
    """
    if name not in list(Rule):
        raise ConfigError(f"there is no scoring rule {name!r}; there are {', '.join(Rule)}")
    rule = Rule(name)
    for question in questions:
        try:
            score_answer("", question, rule)
        except InputError as error:
            raise ConfigError(f"{getattr(question, 'id', 'a question')}: {error}. Score these with strict.") from error
    return rule


def _strict(text: str, key: AnswerKey) -> Mark:
    said = read_statement(text, key.options)
    choice = said.choice
    if choice is not None and not key.options:
        most = max(MOST_WORDS, len((key.gold or "").split()))
        if (key.yes_no and choice not in YES_NO) or len(choice.split()) > most:
            choice = None
    return key.mark(choice, said.how.value if choice is not None else UNPARSED, said.form.value)


def _unlike(key: AnswerKey) -> str:
    if key.options:
        return "it has options, and the rule reads yes and no"
    return f"its right answer {key.gold!r} is neither an option nor yes or no"
