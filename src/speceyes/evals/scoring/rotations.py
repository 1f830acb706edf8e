"""Averages over questions that are asked several times with their options rotated, as HR-Bench asks each four times.

Two averages go by the same name elsewhere and lie ten points apart, so here each has its own:

- *each rotation*: every asking counts. A model that is right in three of four has 0.75. lmms-eval and VLMEvalKit report
  this one (they average within each rotation first, which is the same where every question has all of them).
- *all rotations*: a question counts if every asking was right, so the same model has 0. Guessing one of four options
  gives 0.25 by the first and 0.004 by this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from speceyes.errors import InputError
from speceyes.evals.scoring.marks import Mark, Placed
from speceyes.evals.statistics.shares import Share


@dataclass(frozen=True, slots=True)
class RotationAverages:
    """Both averages. An unparsed answer or an error is not right.

    Attributes:
        each_rotation: Right askings among all.
        all_rotations: Questions that were right in every asking, among those that were asked in all rotations.
        rotations: How often a question is asked.
        incomplete: Names of the groups that were asked less often; they are not in `all_rotations`.
        unparsed: Names of the askings in whose answers no choice was found.
        errors: Names of the askings without an answer.
        categories: The same by category (`single`, `cross`).
    """

    each_rotation: Share
    all_rotations: Share
    rotations: int
    incomplete: tuple[str, ...] = ()
    unparsed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    categories: Mapping[str, RotationAverages] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """All of it, with intervals. (Those of single askings take them for independent, which they are not.)"""
        return {
            "each_rotation": self.each_rotation.as_json(),
            "all_rotations": self.all_rotations.as_json(),
            "rotations": self.rotations,
            "incomplete": list(self.incomplete),
            "unparsed": list(self.unparsed),
            "errors": list(self.errors),
            "categories": {name: found.as_json() for name, found in self.categories.items()},
        }


def averages(rows: Iterable[tuple[Placed, Mark]], rotations: int | None = None) -> RotationAverages:
    """Both averages of questions and marks, over all and by category.

    Args:
        rows: Askings; those of one question share a `group`. Those without a known right answer are left out.
        rotations: How often a question is asked; by default as often as the one that is asked most.

    Raises:
        InputError: An asking has no group, a group has two categories, or was asked more often than that.
    """
    known = [(item, mark) for item, mark in rows if mark.right is not None]
    groups: dict[str, list[tuple[Placed, Mark]]] = {}
    for item, mark in known:
        if not item.group:
            raise InputError(f"{item.id} belongs to no group: it is no asking of a question with rotated options")
        groups.setdefault(item.group, []).append((item, mark))
    for name, askings in groups.items():
        if len({item.category for item, _ in askings}) > 1:
            raise InputError(f"the askings of {name} have more than one category")
    most = max(map(len, groups.values()), default=0)
    if rotations is not None and most > rotations:
        raise InputError(f"a question was asked {most} times, with only {rotations} rotations of its options")
    wanted = most if rotations is None else rotations
    categories = sorted({item.category for item, _ in known})
    parts = {
        category: {name: found for name, found in groups.items() if found[0][0].category == category}
        for category in categories
    }
    return _of(groups, wanted, {name: _of(part, wanted, {}) for name, part in parts.items()})


def _of(
    groups: Mapping[str, list[tuple[Placed, Mark]]], rotations: int, categories: Mapping[str, RotationAverages]
) -> RotationAverages:
    askings = [pair for group in groups.values() for pair in group]
    whole = [group for group in groups.values() if len(group) == rotations]
    return RotationAverages(
        each_rotation=Share(sum(mark.right is True for _, mark in askings), len(askings)),
        all_rotations=Share(sum(all(mark.right for _, mark in group) for group in whole), len(whole)),
        rotations=rotations,
        incomplete=tuple(name for name, group in groups.items() if len(group) < rotations),
        unparsed=tuple(item.id for item, mark in askings if mark.unparsed),
        errors=tuple(item.id for item, mark in askings if mark.failed),
        categories=categories,
    )
