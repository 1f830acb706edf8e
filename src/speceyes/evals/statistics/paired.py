"""Two systems on the same questions: who is right where the other is wrong, and how far apart that puts them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from speceyes.errors import InputError
from speceyes.evals.statistics.bootstrap import Estimate, resamples
from speceyes.gating.answers import BoolArray
from speceyes.gating.separability import IntArray

REPLICATES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Discordance:
    """A two-by-two table of right answers.

    Attributes:
        both: Questions that both answer right.
        first: That only the first does.
        second: That only the second does.
        neither: That none does.
    """

    both: int
    first: int
    second: int
    neither: int

    @property
    def p(self) -> float:
        """McNemar's exact p-value: whether one is better than the other."""
        return mcnemar(self.first, self.second)


def discordance(first: BoolArray, second: BoolArray) -> Discordance:
    """The table of two systems' right answers to the same questions.

    Args:
        first: Where the first is right. Shape (N,).
        second: Where the second is. Shape (N,).

    Raises:
        InputError: Their lengths differ.
    """
    if first.shape != second.shape:
        raise InputError(f"A paired test needs the same questions on both sides, not {first.size} and {second.size}.")
    return Discordance(
        int((first & second).sum()),
        int((first & ~second).sum()),
        int((~first & second).sum()),
        int((~first & ~second).sum()),
    )


def mcnemar(first: int, second: int) -> float:
    """Two-sided exact p-value that questions on which two systems differ fall to either side like a fair coin.

        p = min(1, 2 * sum over i = 0..min(b, c) of C(b + c, i) / 2^(b + c))

    Questions on which both are right or both are wrong say nothing and do not count. It takes the questions for
    independent; where several are about one picture it is a little too sure.

    Args:
        first: Questions that only the first answers right, b.
        second: Questions that only the second answers right, c.

    Source: McNemar, "Note on the sampling error of the difference between correlated proportions or percentages",
    1947, with the binomial in place of its approximation. Integers, so exact however many there are.

    Raises:
        InputError: A count is negative.
    """
    if min(first, second) < 0:
        raise InputError(f"{first} and {second} are no counts.")
    n = first + second
    term, tail = 1, 0
    for i in range(min(first, second) + 1):
        tail += term
        term = term * (n - i) // (i + 1)
    return 1.0 if 2 * tail >= 1 << n else 2 * tail / (1 << n)


def accuracy_differences(
    first: BoolArray,
    second: BoolArray,
    groups: IntArray,
    *,
    replicates: int = REPLICATES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> list[Estimate]:
    """The second's accuracy minus the first's, with intervals from resampled questions, for several pairs at once.

    All pairs see the same draws.

    Args:
        first: Where the first of each pair is right. Shape (P, N).
        second: Where the second is. Shape (P, N).
        groups: Which questions are drawn together, numbered from 0: those about one picture. Shape (N,).
        replicates: Resamples.
        confidence: Of the intervals.
        seed: The same seed gives the same intervals.

    Raises:
        InputError: Lengths differ.
    """
    if first.shape != second.shape or first.shape[-1:] != groups.shape:
        raise InputError("A paired interval needs the same questions on both sides, and a group for each.")
    if not groups.size:
        return [Estimate(math.nan) for _ in first]
    steps = second.astype(np.float64) - first.astype(np.float64)
    drawn = [weights @ steps.T / weights.sum(axis=-1)[:, None] for weights in resamples(groups, replicates, seed)]
    found = np.concatenate(drawn) if drawn else np.empty((0, len(steps)))
    return [Estimate.of(float(row.mean()), found[:, place], confidence) for place, row in enumerate(steps)]


def numbered(names: Sequence[Hashable]) -> IntArray:
    """Groups as numbers from 0, in the order of their first appearance. Shape (N,)."""
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(name, len(places)) for name in names], dtype=np.int64)
