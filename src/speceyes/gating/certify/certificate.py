"""The whole test: from outcomes and a sequence of thresholds to those that carry the guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speceyes.errors import ConfigError, InputError
from speceyes.gating.certify.binomial import interval, tail, upper_bound
from speceyes.gating.certify.outcomes import Outcomes
from speceyes.gating.certify.risks import Limit
from speceyes.gating.certify.sequence import ThresholdSequence
from speceyes.gating.certify.testing import run_sequence

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Step:
    """One threshold of the sequence, as it was found on the certifying records. Tuples hold a value a risk.

    Attributes:
        threshold: A draft passes where its score is at least this.
        accepted: Records that pass.
        losses: How many of these lose.
        bounds: Upper bounds of the risks, each wrong with chance `level` at most (delta, where it was not tested).
        intervals: Two-sided intervals of the risks, confidence 1 - delta each.
        p_value: Of "some risk is above its limit".
        level: What the p-value had to stay under; 0 where the threshold was not tested.
        passed: Whether it did: this threshold is certified.
    """

    threshold: float
    accepted: int
    losses: tuple[int, ...]
    bounds: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]
    p_value: float
    level: float
    passed: bool

    @property
    def tested(self) -> bool:
        return self.level > 0.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the test found.

    Attributes:
        limits: The risks, and the most of each that is allowed.
        delta: The greatest chance of any false promise, over all thresholds and risks together.
        n: Certifying records.
        steps: The sequence, strictest threshold first.
    """

    limits: tuple[Limit, ...]
    delta: float
    n: int
    steps: tuple[Step, ...]

    @property
    def certified(self) -> tuple[Step, ...]:
        """The thresholds that passed, strictest first. All of them hold at once, with confidence 1 - delta.

        Left out are those that accept no more records than a stricter one: nothing was seen where they differ.
        """
        passed = [step for step in self.steps if step.passed]
        return tuple(step for i, step in enumerate(passed) if i == 0 or step.accepted > passed[i - 1].accepted)

    @property
    def chosen(self) -> Step | None:
        """The loosest of these, which accepts the most. None: infeasible, and the gate must accept nothing."""
        return self.certified[-1] if self.certified else None


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The bare test, as arrays over the M thresholds of the sequence: see `Step`.

    Attributes:
        accepted: (M,).
        losses: By each risk. (R, M).
        p_values: The largest of the risks' p-values. (M,).
        levels: (M,).
        passed: (M,).
    """

    accepted: IntArray
    losses: IntArray
    p_values: FloatArray
    levels: FloatArray
    passed: BoolArray


def walk(outcomes: Outcomes, sequence: ThresholdSequence, limits: Sequence[Limit], delta: float) -> Walk:
    """Test the sequence on these records: `certify` without what it reports beside.

    Several risks must *all* keep their limits. A threshold's null hypothesis is then "at least one does not", and its
    p-value is the largest of the risks' p-values. No correction is due for their number: if the null hypothesis is
    true, some risk r really is above its limit, and the largest p-value is no smaller than the one of r, which alone is
    u or less with chance u at most. So each risk is tested with the whole delta, and delta covers all of them together.
    Source: Berger, "Multiparameter Hypothesis Testing and Acceptance Sampling", 1982 (the intersection-union test).

    Raises: as `certify`.
    """
    if not 0.0 < delta < 1.0:
        raise ConfigError(f"delta is {delta}; it must lie between 0 and 1 (both excluded).")
    if not limits or len(limits) != len(outcomes.losses):
        raise InputError(f"There are {len(outcomes.losses)} risks and {len(limits)} limits; each needs one.")
    accepted, lost = outcomes.count(sequence.thresholds)
    alphas = np.array([limit.alpha for limit in limits])[:, None]
    p_values: FloatArray = tail(lost, accepted, alphas).max(axis=0)
    levels, passed = run_sequence(p_values, sequence.weights, delta)
    return Walk(accepted, lost, p_values, levels, passed)


def certify(outcomes: Outcomes, sequence: ThresholdSequence, limits: Sequence[Limit], delta: float) -> Certificate:
    """Find the thresholds of a sequence at which these records prove that every risk keeps its limit.

    What is promised is that the risks keep their *limits*. A step's bounds and intervals hold one at a time; they say
    how much room there was, and choosing the best-looking of many would void them.

    Args:
        outcomes: The certifying records. The sequence must not have been chosen by looking at them.
        sequence: The thresholds to be tested.
        limits: One for each row of `outcomes.losses`, in the same order.
        delta: The greatest chance of a false promise.

    Raises:
        ConfigError: Delta is not between 0 and 1.
        InputError: There is not one limit for each risk, or none at all.
    """
    found = walk(outcomes, sequence, limits, delta)
    bounds = upper_bound(found.losses, found.accepted, np.where(found.levels > 0.0, found.levels, delta))
    low, high = interval(found.losses, found.accepted, 1.0 - delta)
    steps = tuple(
        Step(
            threshold=threshold,
            accepted=int(found.accepted[i]),
            losses=tuple(found.losses[:, i].tolist()),
            bounds=tuple(bounds[:, i].tolist()),
            intervals=tuple(zip(low[:, i].tolist(), high[:, i].tolist(), strict=True)),
            p_value=float(found.p_values[i]),
            level=float(found.levels[i]),
            passed=bool(found.passed[i]),
        )
        for i, threshold in enumerate(sequence.thresholds.tolist())
    )
    return Certificate(tuple(limits), delta, len(outcomes), steps)
