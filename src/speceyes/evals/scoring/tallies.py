"""From marks to figures: how many are right, what was not parsed, what failed, and by which step answers were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from speceyes.evals.scoring.marks import Mark, Placed
from speceyes.evals.statistics.shares import Share

MOST_ERRORS = 0.05
"""Share of failed questions above which there is no headline figure."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The marks of some questions. Those whose right answer is not known are in no share.

    Attributes:
        rows: All questions: as many come out as went in.
        accuracy: Right answers among all questions; unparsed answers and errors are wrong.
        accuracy_answered: The same among the questions that have an answer.
        unparsed: Names of the questions in whose answers no choice was found.
        errors: Names of the questions without an answer.
        unknown: Names of the questions whose right answer is not known.
        how: How many answers were read by which step, most frequent first.
        forms: How many replies marked their answers how.
    """

    rows: int
    accuracy: Share
    accuracy_answered: Share
    unparsed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    how: Mapping[str, int] = field(default_factory=dict)
    forms: Mapping[str, int] = field(default_factory=dict)

    def headline(self, most_errors: float = MOST_ERRORS) -> float | None:
        """Accuracy over all rows; None where more than this share of them failed, for then it measures the failures."""
        return None if len(self.errors) > most_errors * self.rows else self.accuracy.value

    def as_json(self) -> dict[str, Any]:
        """All of it, with intervals."""
        return {
            "rows": self.rows,
            "headline": self.headline(),
            "accuracy": self.accuracy.as_json(),
            "accuracy_answered": self.accuracy_answered.as_json(),
            "unparsed": list(self.unparsed),
            "errors": list(self.errors),
            "unknown": list(self.unknown),
            "how": dict(self.how),
            "forms": dict(self.forms),
        }


def tally(rows: Iterable[tuple[Placed, Mark]]) -> Tally:
    """Count marks."""
    pairs = list(rows)
    known = [mark for _, mark in pairs if mark.right is not None]
    right = sum(mark.right is True for mark in known)
    answered = sum(not mark.failed for mark in known)
    return Tally(
        rows=len(pairs),
        accuracy=Share(right, len(known)),
        accuracy_answered=Share(right, answered),
        unparsed=tuple(item.id for item, mark in pairs if mark.unparsed),
        errors=tuple(item.id for item, mark in pairs if mark.failed),
        unknown=tuple(item.id for item, mark in pairs if mark.right is None),
        how=dict(Counter(mark.how for _, mark in pairs).most_common()),
        forms=dict(Counter(mark.form for _, mark in pairs if not mark.failed).most_common()),
    )


def tally_by_category(rows: Iterable[tuple[Placed, Mark]]) -> Mapping[str, Tally]:
    """Count marks, category by category, in the order of the alphabet."""
    found: dict[str, list[tuple[Placed, Mark]]] = {}
    for item, mark in rows:
        found.setdefault(item.category, []).append((item, mark))
    return {name: tally(found[name]) for name in sorted(found)}
