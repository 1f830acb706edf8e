"""Shares with intervals: accuracy over all, and by category."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from speceyes.gating.intervals import wilson


@dataclass(frozen=True, slots=True)
class Share:
    """How many of how many.

    Attributes:
        successes: How many have it.
        n: Of how many.
    """

    successes: int
    n: int

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.successes / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval; it takes the trials for independent of one another."""
        return wilson(self.successes, self.n)

    def as_json(self) -> dict[str, Any]:
        """`value`, `low`, `high`, `successes`, `n`; null where there is nothing to take a share of."""
        low, high = self.interval if self.n else (None, None)
        return {"value": self.value, "low": low, "high": high, "successes": self.successes, "n": self.n}


def share(flags: Iterable[bool]) -> Share:
    """The share of true ones."""
    found = list(flags)
    return Share(sum(found), len(found))


def shares_by(pairs: Iterable[tuple[str, bool]]) -> dict[str, Share]:
    """The share of true ones under each name, names in the order of their first appearance."""
    groups: dict[str, list[bool]] = {}
    for name, flag in pairs:
        groups.setdefault(name, []).append(flag)
    return {name: share(flags) for name, flags in groups.items()}
