"""A thousand calibrations in each of many worlds: how often does one promise what is not so?

Each world knows its true risk at every threshold. A calibration is broken where the true risk at *any* threshold that
it certified is above its limit. That may happen in a share delta of them, no more. The seeds are fixed, so a result
never changes; the tolerance is what 1,000 fair draws may exceed with chance 1 in 10,000.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from worlds import World, world

from speceyes.gating.certify import (
    Limit,
    Outcomes,
    Risk,
    ThresholdSequence,
    split_at_random,
    tail,
    thresholds_at,
    tuned,
    walk,
)

FloatArray = NDArray[np.float64]
Limits = list[Limit]

RUNS, DELTA = 1000, 0.1
MOST = int(binom.ppf(0.9999, RUNS, DELTA))
CELLS = np.arange(12)
FALLING = 0.3 * 0.55**CELLS
"""A risk that falls by nearly half from each cell to the next surer one."""

WORLDS = [
    world("surer is better", 300, np.ones(12), FALLING, FALLING / 2),
    world("one score for all", 300, [1], [0.051], tied=True),
    world("ties", 300, [2, 1, 4], [0.3, 0.06, 0.01], [0.1, 0.05, 0.0], tied=True),
    world("surest is worst", 300, np.ones(12), np.where(CELLS >= 10, 0.2, 0.02), 0.02),
    world("up and down", 300, np.ones(12), np.where(CELLS % 3 == 0, 0.15, 0.0)),
    world("tiny n", 64, np.ones(12), FALLING, FALLING / 2),
    world("tiny n, ties", 80, [1, 5], [0.4, 0.06], tied=True),
    world("never wrong", 100, np.ones(12), 0.0),
    world("perfect gate", 300, np.ones(12), np.where(CELLS >= 6, 0.0, 1.0)),
    world("always wrong", 100, np.ones(12), 1.0),
    world("just too bad everywhere", 300, np.ones(12), 0.0501),
    world("just too bad everywhere, by error only", 300, np.ones(12), 0.03, 0.0201),
    world("just too bad and tied", 300, [1, 1, 1], 0.0501, tied=True),
]
ALPHA = 0.05
TOGETHER = [Limit(Risk.EXCESS, ALPHA), Limit(Risk.ERROR, 0.08), Limit(Risk.DISAGREEMENT, 0.06)]

# the strictest accepts enough in the worlds of 300 queries; in the tiny ones hardly any
GRID = ThresholdSequence.from_start(np.arange(8.0, -1.0, -0.5))
STARTS = ThresholdSequence(GRID.thresholds, np.where(np.arange(len(GRID.thresholds)) % 6 == 0, 1 / 3, 0.0))


def fixed(outcomes: Outcomes, limits: Limits, run: int) -> FloatArray:
    return certified(outcomes, GRID, limits)


def starts(outcomes: Outcomes, limits: Limits, run: int) -> FloatArray:
    return certified(outcomes, STARTS, limits)


def split(outcomes: Outcomes, limits: Limits, run: int) -> FloatArray:
    tuning = split_at_random(len(outcomes), 0.25, seed=str(run))
    sequence = tuned(outcomes.part(tuning), limits, DELTA, ratio=3.0)
    return certified(outcomes.part(~tuning), sequence, limits)


def certified(outcomes: Outcomes, sequence: ThresholdSequence, limits: Limits) -> FloatArray:
    return sequence.thresholds[walk(outcomes, sequence, limits, DELTA).passed]


METHODS = {"fixed": fixed, "starts": starts, "split": split}


def broken(thresholds: FloatArray, limits: Limits, where: World) -> bool:
    return any((where.true_risk(thresholds, limit.risk) > limit.alpha).any() for limit in limits)


# a split takes ten times as long, so it visits every second world only: each kind is among them
CASES = [(where, method) for method in METHODS for where in (WORLDS[::2] if method == "split" else WORLDS)]


@pytest.mark.parametrize(("where", "method"), CASES, ids=lambda value: value if isinstance(value, str) else value.name)
def test_promises_are_kept(where: World, method: str) -> None:
    """Each risk by itself, and all of them at once. Where the truth is too bad everywhere, any threshold is broken."""
    rng = np.random.default_rng(20)
    violations = dict.fromkeys([*Risk, "all"], 0)
    for run in range(RUNS):
        outcomes = where.draw(rng, tuple(limit.risk for limit in TOGETHER))
        for i, limit in enumerate(TOGETHER):
            one, alone = Outcomes(outcomes.scores, outcomes.losses[i : i + 1]), [Limit(limit.risk, ALPHA)]
            violations[limit.risk] += broken(METHODS[method](one, alone, run), alone, where)
        violations["all"] += broken(METHODS[method](outcomes, TOGETHER, run), TOGETHER, where)
    assert max(violations.values()) <= MOST, violations


@pytest.mark.parametrize("method", METHODS)
def test_an_easy_world_is_recognised(method: str) -> None:
    """A test that always says no would pass all of the above."""
    easy = world("perfect gate", 600, np.ones(12), np.where(CELLS >= 6, 0.0, 1.0))
    rng = np.random.default_rng(23)
    found = [METHODS[method](easy.draw(rng, (Risk.EXCESS,)), [Limit(Risk.EXCESS, ALPHA)], run) for run in range(200)]
    assert np.mean([len(thresholds) > 0 for thresholds in found]) >= 0.9
    # ... and used: what could be accepted is, nearly all of it
    assert np.mean([thresholds.min(initial=12.0) for thresholds in found]) < 7.0


def test_the_budget_is_used_where_the_truth_is_at_the_limit() -> None:
    """At a risk just above its limit, a sharp test errs nearly as often as it may."""
    rng = np.random.default_rng(24)
    edge = world("edge", 2500, [1], 0.0501, tied=True)
    sequence = ThresholdSequence.from_start([0.0])
    limits = [Limit(Risk.EXCESS, ALPHA)]
    wrong = sum(len(certified(edge.draw(rng, (Risk.EXCESS,)), sequence, limits)) for _ in range(RUNS))
    assert 0.06 * RUNS <= wrong <= MOST


def test_a_careless_method_is_caught() -> None:
    """Choosing the best-looking threshold by its own records breaks the promise: this is what the worlds would show."""
    rng = np.random.default_rng(25)
    where = world("just too bad everywhere", 300, np.ones(12), 0.0501)
    wrong = 0
    for _ in range(RUNS):
        outcomes = where.draw(rng, (Risk.EXCESS,))
        accepted, lost = outcomes.count(thresholds_at(outcomes.candidates, np.arange(0.05, 1.01, 0.05)))
        wrong += bool((tail(lost[0], accepted, ALPHA) <= DELTA).any())
    assert wrong > MOST
