"""Which gates are swept: every score with each of its aggregates, at several K."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from speceyes.errors import ConfigError
from speceyes.evals.records import RecordTable
from speceyes.gating import SCORES

DEFAULT_KS = (3, 5, 10, 20, 40, 64)
LEARNED = "learned"
"""The gate that is trained on the record itself (`speceyes.evals.sweeps.learned`)."""


@dataclass(frozen=True, slots=True, order=True)
class GateSetting:
    """A way to score drafts: everything that a threshold is bound to, but the threshold.

    Attributes:
        score: A key of `speceyes.gating.SCORES`, or `learned`.
        aggregate: One of the score's aggregates; "" for the learned gate.
        k: Log-probs of each token that it reads.
    """

    score: str
    aggregate: str
    k: int

    @property
    def name(self) -> str:
        """For people, without K: `separability, min`."""
        return f"{self.score}, {self.aggregate}" if self.aggregate else self.score


REFERENCE = ("separability", "min")
"""The default gate, which the others are compared with."""


def gate_grid(ks: Sequence[int]) -> list[GateSetting]:
    """Every score of the gate with each of its aggregates at each K that it is defined for, the default gate first."""
    return [
        GateSetting(score.name, aggregate, k)
        for score in SCORES.values()
        for aggregate in score.aggregates
        for k in ks
        if k >= score.min_k
    ]


def recorded_k(table: RecordTable) -> int:
    """The largest K that any token of the run has log-probs for; 0 without any."""
    width = np.flatnonzero((~np.isnan(table.answers.logprobs)).any(axis=0))
    return int(width[-1]) + 1 if width.size else 0


def default_ks(most: int) -> tuple[int, ...]:
    """A handful of K up to what was recorded, that itself among them."""
    return tuple(sorted({*(k for k in DEFAULT_KS if k <= most), most}))


def parse_ks(text: str, most: int) -> tuple[int, ...]:
    """Read a choice of K.

    Args:
        text: Numbers and ranges with commas between them: `5,10,20`, `3-64`.
        most: The largest K that was recorded.

    Raises:
        ConfigError: It cannot be read, or asks for more than was recorded.
    """
    chosen: set[int] = set()
    for part in text.split(","):
        if not (found := re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part)):
            raise ConfigError(
                f"--k {text}: {part.strip()!r} is neither a number nor a range; write --k 5,10 or --k 3-64"
            )
        low, high = int(found[1]), int(found[2] or found[1])
        if low > high or low < 1:
            raise ConfigError(f"--k {text}: {part.strip()!r} names no K; a range goes upwards and K is at least 1")
        if high > most:
            raise ConfigError(f"--k {text}: the run holds {most} log-probs a token at most, so K cannot be {high}")
        chosen.update(range(low, high + 1))
    return tuple(sorted(chosen))
