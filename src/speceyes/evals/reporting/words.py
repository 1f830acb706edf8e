"""Figures as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from speceyes.evals.statistics.bootstrap import Estimate
from speceyes.evals.statistics.shares import Share

NONE: Final = "–"
TIMES: Final = "×"


@dataclass(frozen=True, slots=True)
class Ranged:
    """A figure with its 95 % interval, as it is shown; None where it is not defined.

    Attributes:
        value: The figure.
        low: Lower end of the interval.
        high: Upper end.
    """

    value: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, found: Estimate | Share) -> Self:
        """From a statistic. A share of nothing is no share."""
        if isinstance(found, Share):
            low, high = found.interval
            return cls(found.value, low, high) if found.n else cls(None)
        return cls(*(finite(value) for value in (found.value, found.low, found.high)))

    @classmethod
    def read(cls, found: object) -> Self:
        """From a summary's JSON; None of what is not there."""
        if not isinstance(found, Mapping):
            return cls(None)
        return cls(*(finite(found.get(name)) for name in ("value", "low", "high")))

    @property
    def known(self) -> bool:
        """Whether there is a figure."""
        return self.value is not None

    @property
    def bounded(self) -> bool:
        """Whether there is an interval."""
        return self.low is not None and self.high is not None

    def as_json(self) -> dict[str, float | None]:
        return {"value": self.value, "low": self.low, "high": self.high}


def percent(value: float | None, digits: int = 1) -> str:
    """0.8432 as "84.3"; the unit stands in the table's head."""
    return NONE if value is None else signed_zero(f"{100 * value:.{digits}f}")


def points(value: float | None) -> str:
    """A difference of shares in percentage points, with its sign: 0.012 as "+1.2"."""
    return NONE if value is None else signed_zero(f"{100 * value:+.1f}").replace("-", "−")


def times(value: float | None) -> str:
    """A speedup: 1.732 as "1.73×"."""
    return NONE if value is None else f"{value:.2f}{TIMES}"


def seconds(value: float | None) -> str:
    """A time: three digits that say something."""
    if value is None:
        return NONE
    digits = 3 if value < 1 else 2 if value < 100 else 0
    return f"{value:,.{digits}f} s"


def count(value: int | None) -> str:
    """A number of things."""
    return NONE if value is None else f"{value:,}"


def p_value(value: float | None) -> str:
    """0.0312 as "0.031", tiny ones as below 0.001."""
    if value is None:
        return NONE
    return "<\u00a00.001" if value < 0.001 else f"{value:.3f}"


def percent_range(estimate: Ranged) -> str:
    """The interval of a share: "79.1 to 88.2"."""
    return _range(percent(estimate.low), percent(estimate.high)) if estimate.bounded else ""


def points_range(estimate: Ranged) -> str:
    """The interval of a difference of shares."""
    return _range(points(estimate.low), points(estimate.high)) if estimate.bounded else ""


def times_range(estimate: Ranged) -> str:
    """The interval of a speedup: "1.61 to 1.86"."""
    if estimate.low is None or estimate.high is None:
        return ""
    return _range(f"{estimate.low:.2f}", f"{estimate.high:.2f}")


def finite(value: object) -> float | None:
    """The number, or None for what JSON and readers have no number for."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def signed_zero(text: str) -> str:
    """The text without its sign where it is zero."""
    return text.lstrip("+-") if not text.strip("+-0.") else text


def _range(low: str, high: str) -> str:
    return f"{low} to {high}"
