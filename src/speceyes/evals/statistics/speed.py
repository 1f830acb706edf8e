"""How many times as fast, from the wall times of blocks that both systems answered, and what a curve of load says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from speceyes.errors import InputError
from speceyes.evals.statistics.bootstrap import Estimate, resamples
from speceyes.evals.statistics.paired import CONFIDENCE, REPLICATES
from speceyes.gating.separability import FloatArray


@dataclass(frozen=True, slots=True)
class Speedup:
    """How many times as fast as another system.

    Attributes:
        times: The ratio of the wall times, with an interval over blocks.
        blocks: Blocks that it stands on.
    """

    times: Estimate
    blocks: int

    def as_json(self) -> dict[str, Any]:
        """`value`, `low`, `high`, `blocks`."""
        return {**self.times.as_json(), "blocks": self.blocks}


def speedup(slow: Mapping[int, float], fast: Mapping[int, float], *, seed: int = 0) -> Speedup:
    """The slow one's wall time over the fast one's, over the blocks that both have.

    The sums are divided, not the ratios averaged, so a long block counts for more than a short one. The interval is
    from resampled blocks, each with both of its times: what slows the machine down for a while slows both.

    Args:
        slow: Seconds by block.
        fast: Seconds by block.
        seed: The same seed gives the same interval.
    """
    blocks = sorted(slow.keys() & fast.keys())
    if not blocks:
        return Speedup(Estimate(math.nan), 0)
    above, below = (np.array([laps[block] for block in blocks]) for laps in (slow, fast))
    drawn = [(weights @ above) / (weights @ below) for weights in resamples(np.arange(len(blocks)), REPLICATES, seed)]
    value = float(above.sum() / below.sum())
    return Speedup(Estimate.of(value, np.concatenate(drawn) if drawn else np.array([]), CONFIDENCE), len(blocks))


def seconds_a_query(seconds: FloatArray, queries: FloatArray, *, seed: int = 0) -> Estimate:
    """Wall time of one query at some load, with an interval from resampled blocks.

    Args:
        seconds: Wall time of each block. Shape (B,).
        queries: Queries in each. Shape (B,).
        seed: The same seed gives the same interval.

    Raises:
        InputError: Lengths differ.
    """
    if seconds.shape != queries.shape:
        raise InputError(f"{seconds.size} times do not belong to {queries.size} blocks.")
    if not queries.sum():
        return Estimate(math.nan)
    drawn = [
        (weights @ seconds) / (weights @ queries) for weights in resamples(np.arange(seconds.size), REPLICATES, seed)
    ]
    value = float(seconds.sum() / queries.sum())
    return Estimate.of(value, np.concatenate(drawn) if drawn else np.array([]), CONFIDENCE)
