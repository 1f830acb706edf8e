"""What a calibration promises, and the thresholds that carry it: the parts of its file that a test wrote."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0.0, le=1.0)]
OpenShare = Annotated[float, Field(gt=0.0, lt=1.0)]
Count = Annotated[int, Field(ge=0)]
# JSON knows no tuples
Interval = Annotated[tuple[Share, Share], Field(strict=False)]

_FROZEN = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Promise(BaseModel):
    """One risk and the most of it that is allowed: at most `alpha` of the accepted queries lose."""

    model_config = _FROZEN

    risk: Literal["excess", "disagreement", "error"]
    """`excess`: the draft is wrong and the agent right. `disagreement`: they state different answers. `error`: the
    draft is wrong."""
    alpha: OpenShare


class CertifiedThreshold(BaseModel):
    """A threshold that passed the test, and what it was found on. Tuples hold a value for each promise."""

    model_config = _FROZEN

    threshold: float
    accepted: Count
    """Records that it accepts."""
    losses: Annotated[tuple[Count, ...], Field(strict=False)]
    """How many of these lost."""
    bounds: Annotated[tuple[Share, ...], Field(strict=False)]
    """Upper confidence bounds of the risks, one at a time. What is promised of all is alpha."""
    intervals: Annotated[tuple[Interval, ...], Field(strict=False)]
    """Two-sided confidence intervals of the risks, one at a time."""

    def summary(self) -> dict[str, Any]:
        """The fields of a `Calibration` that say the same of the threshold in use, by the first promise."""
        return {
            "threshold": self.threshold,
            "accepted": self.accepted,
            "risk": self.losses[0] / self.accepted,
            "bound": self.bounds[0],
            "interval": self.intervals[0],
        }


class Traffic(BaseModel):
    """Counts over a calibration's `n` records, as `speceyes.gating.audit.Reference` takes them."""

    model_config = _FROZEN

    screened: Count
    """Records that phase I let through."""
    score_edges: Annotated[tuple[float, ...], Field(strict=False)]
    """Inner edges of the score's intervals, ascending."""
    score_counts: Annotated[tuple[Count, ...], Field(strict=False)]
    """Of the records that phase I let through, those in each interval, from low to high, then those without a score."""


def check_evidence(promises: Sequence[Promise], certified: Sequence[CertifiedThreshold]) -> None:
    """ValueError where the parts contradict each other."""
    if len({promise.risk for promise in promises}) != len(promises):
        raise ValueError("a risk is promised twice")
    if certified and not promises:
        raise ValueError("there are certified thresholds, but nothing that they promise")
    for passed in certified:
        if not len(passed.losses) == len(passed.bounds) == len(passed.intervals) == len(promises):
            raise ValueError(f"the certified threshold {passed.threshold} needs one value for each promise")
        if not passed.accepted >= max(passed.losses) or not passed.accepted:
            raise ValueError(f"the certified threshold {passed.threshold} loses more than it accepts, or accepts none")
    if not all(one.threshold > other.threshold for one, other in pairwise(certified)):
        raise ValueError("the certified thresholds must stand strictest first, each smaller than the one before")
