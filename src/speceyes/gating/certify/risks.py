"""What counts as a loss, and how much of it is allowed.

Every risk is a share *of the accepted queries*: of those that the draft answers, how many lose? That is the stricter
reading. Over all queries the share is smaller, by the acceptance rate: a risk of 2 % among the accepted, with half of
the queries accepted, costs one query in a hundred. And it does not change when screening lets fewer queries through.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from speceyes.errors import ConfigError

BoolArray = NDArray[np.bool_]


class Risk(StrEnum):
    """What it means that an accepted draft loses."""

    EXCESS = "excess"
    """The draft is wrong and the agent is right: what SpecEyes costs against the agent alone. Needs labels."""
    DISAGREEMENT = "disagreement"
    """Draft and agent state different answers. Needs no labels. Where one is wrong and the other right they differ,
    so this risk is never below the excess, and a bound on it bounds the excess too."""
    ERROR = "error"
    """The draft is wrong, whatever the agent says. Needs labels. No smaller than the excess either: what both get
    wrong counts here."""

    @property
    def needs_labels(self) -> bool:
        return self is not Risk.DISAGREEMENT


@dataclass(frozen=True, slots=True)
class Limit:
    """A risk and the most of it that is allowed, between 0 and 1 (both excluded). ConfigError for anything else."""

    risk: Risk
    alpha: float

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise ConfigError(f"The limit of the risk {self.risk} is {self.alpha}; it must lie between 0 and 1.")

    @classmethod
    def parse(cls, text: str, default: float) -> Limit:
        """`excess`, with the default limit, or `excess:0.02`. ConfigError where it is neither."""
        name, colon, limit = text.partition(":")
        if name not in tuple(Risk):
            raise ConfigError(f"There is no risk {name!r}. Choose one of: {', '.join(Risk)}.")
        try:
            return cls(Risk(name), float(limit) if colon else default)
        except ValueError:
            raise ConfigError(f"The risk {text!r} has no number behind its colon. Write, say, {name}:0.02.") from None


def losses_of(risk: Risk, *, draft_right: BoolArray, agent_right: BoolArray, agrees: BoolArray) -> BoolArray:
    """For each query, whether accepting its draft loses. All shapes (N,).

    Args:
        risk: What counts as a loss.
        draft_right: Whether the draft is right.
        agent_right: Whether the agent is right.
        agrees: Whether both state the same answer.
    """
    match risk:
        case Risk.EXCESS:
            return ~draft_right & agent_right
        case Risk.DISAGREEMENT:
            return ~agrees
        case Risk.ERROR:
            return ~draft_right
