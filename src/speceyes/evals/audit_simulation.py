"""How soon would an audit notice? Many simulated streams of audited queries, with and without a fault.

For planning: the audit's share is a budget in agent runs, and this says what it buys. The monitors are those of
`speceyes.gating.audit`, for many streams at once. The arithmetic is not logarithmic here, as a stream ends at its
alarm before a number can overflow; a test holds that both give the same alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speceyes.errors import InputError
from speceyes.gating import wilson
from speceyes.gating.audit import AuditPlan, stakes

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEVER = -1
"""In the place of an alarm's time, where there was none."""
_TEST, _DETECTOR = 0, 1


@dataclass(frozen=True, slots=True)
class World:
    """What is simulated: the loss rate is `healthy` for the first `begins` audits, and `rate` from then on."""

    rate: float
    healthy: float
    begins: int = 0

    def __post_init__(self) -> None:
        if not (0.0 <= self.rate <= 1.0 and 0.0 <= self.healthy <= 1.0 and self.begins >= 0):
            raise InputError(f"A fault needs rates between 0 and 1, and begins at 0 or later; this is {self}.")


@dataclass(frozen=True, slots=True)
class Delay:
    """How long a fault went unnoticed, over the streams that had no alarm before it.

    Attributes:
        found: Share of these streams in which an alarm came within the horizon.
        median: Audits from the fault to the alarm; None where the horizon ended before half of the alarms.
        late: The same for the slowest tenth.
    """

    found: float
    median: float | None
    late: float | None


@dataclass(frozen=True, slots=True)
class Detection:
    """One fault, as found by either monitor, by the test alone and by the detector alone."""

    world: World
    either: Delay
    test: Delay
    detector: Delay


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """What the monitors do where nothing is wrong.

    Attributes:
        rate: The loss rate of all streams: at most alpha.
        test: Share of the streams in which the test raised an alarm at any time. (share, low, high) with Wilson's
            95 % interval.
        run_length: Audits for each alarm of the detector; None where it raised none.
        audits: Audits that the detector saw in all.
    """

    rate: float
    test: tuple[float, float, float]
    run_length: float | None
    audits: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """All that was simulated. `horizon`: audits in each stream without a fault, and after each fault."""

    plan: AuditPlan
    streams: int
    horizon: int
    seed: int
    false_alarms: tuple[FalseAlarms, ...]
    detections: tuple[Detection, ...]
    alarm_times: tuple[IntArray, ...]
    """For each detection: audits from the fault to the first alarm of either monitor, or `NEVER`; streams with an
    alarm before the fault are left out."""

    def as_json(self) -> dict[str, Any]:
        """All but the single alarm times."""
        plan = {name: getattr(self.plan, name) for name in ("alpha", "delta", "share", "mean_run")}
        return {
            "plan": {**plan, "thresholds": len(self.plan.thresholds)},
            "streams": self.streams,
            "horizon": self.horizon,
            "seed": self.seed,
            "false_alarms": [asdict(one) for one in self.false_alarms],
            "detections": [asdict(one) for one in self.detections],
        }


def simulate(
    plan: AuditPlan,
    worlds: Sequence[World],
    *,
    healthy: float,
    streams: int = 1000,
    horizon: int = 20_000,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> Simulation:
    """Simulate false alarms (at alpha, where they are most likely, and at `healthy`) and each world's delays.

    Args:
        plan: Its alpha, delta, number of thresholds and run length. Both monitors alarm, whatever it says.
        worlds: The faults.
        healthy: A loss rate, at most alpha, to count false alarms at besides alpha.
        streams: Independent streams for each.
        horizon: Audits in each stream without a fault, and after each fault.
        seed: Of the random numbers.
        advance: Is called after each part; 2 + len(worlds) times at most.

    Raises:
        InputError: `healthy` is above alpha, or a count is not positive.
    """
    if not 0.0 <= healthy <= plan.alpha:
        raise InputError(f"A healthy rate of {healthy} is not between 0 and alpha ({plan.alpha}).")
    if streams < 1 or horizon < 1:
        raise InputError("A simulation needs at least one stream and one audit.")
    rngs = iter(np.random.default_rng(seed).spawn(2 + len(worlds)))
    false_alarms = []
    for rate in dict.fromkeys((plan.alpha, healthy)):
        world = World(rate, rate)
        false_alarms.append(_false_alarms(rate, alarm_times(plan, world, streams, horizon, next(rngs)), horizon))
        advance()
    detections, delays = [], []
    for world in worlds:
        times = alarm_times(plan, world, streams, world.begins + horizon, next(rngs))
        either = np.where(times == NEVER, np.iinfo(np.int64).max, times).min(axis=0)
        either[either == np.iinfo(np.int64).max] = NEVER
        since = _since(either, world.begins)
        delays.append(since)
        one = (delay(_since(times[_TEST], world.begins)), delay(_since(times[_DETECTOR], world.begins)))
        detections.append(Detection(world, delay(since), *one))
        advance()
    return Simulation(plan, streams, horizon, seed, tuple(false_alarms), tuple(detections), tuple(delays))


def alarm_times(plan: AuditPlan, world: World, streams: int, audits: int, rng: np.random.Generator) -> IntArray:
    """When each monitor first raises its alarm: test and detector, in audits from 1, or `NEVER`. Shape (2, streams).

    Capital grows at a loss only, so the streams go from loss to loss. What lies on the bets of a stream that has lost
    nothing is the same for all streams and stands in a table; each stream keeps what it owns beyond that.
    """
    lambdas = stakes(plan.alpha)
    miss, hit = 1.0 - lambdas * plan.alpha, 1.0 + lambdas * (1.0 - plan.alpha)
    lossless, fresh = _without_losses(plan.alpha, audits)
    line = np.array([math.exp(plan.log_alarm), float(plan.mean_run)])
    times = np.full((2, streams), NEVER, dtype=np.int64)
    alive, now = np.arange(streams), np.zeros(streams, dtype=np.int64)
    beyond = np.zeros((streams, 2, len(lambdas)))
    while True:
        then = _next_loss(now, world, rng)
        going = (then <= audits) & (times[:, alive] == NEVER).any(axis=0)
        if not going.any():
            return times
        alive, beyond, now, then = alive[going], beyond[going], now[going], then[going]
        before = lossless[then - 1] + beyond * miss ** (then - 1 - now)[:, None, None]
        own = (before + fresh[then][..., None]) * hit
        wealth = own.sum(axis=-1)
        wealth[:, _TEST] += _held_back(then)
        for monitor, alarmed in enumerate((wealth >= line).T):
            first = alive[alarmed]
            times[monitor, first] = np.where(times[monitor, first] == NEVER, then[alarmed], times[monitor, first])
        # After its alarm a capital is read no more, and must not grow without end
        beyond, now = np.minimum(own - lossless[then], 1e100), then


@lru_cache(maxsize=8)
def _without_losses(alpha: float, audits: int) -> tuple[FloatArray, FloatArray]:
    """What lies on each bet after 0..`audits` audits without a loss, (audits + 1, test and detector, bets), and what
    is added to each bet before each of them, (audits + 1, test and detector)."""
    miss = 1.0 - stakes(alpha) * alpha
    kept = _held_back(np.arange(audits + 1))
    fresh = np.ones((audits + 1, 2)) / len(miss)
    fresh[1:, _TEST] *= kept[:-1] - kept[1:]
    own = np.zeros((audits + 1, 2, len(miss)))
    for step in range(1, audits + 1):
        own[step] = (own[step - 1] + fresh[step][:, None]) * miss
    return own, fresh


def _held_back(steps: IntArray) -> FloatArray:
    kept: FloatArray = 1.0 / (1.0 + np.log1p(steps))
    return kept


def _next_loss(now: IntArray, world: World, rng: np.random.Generator) -> IntArray:
    """The audit that is lost next in each stream; far beyond every horizon where none ever is."""

    def after(start: IntArray, rate: float) -> IntArray:
        if rate == 0.0:
            return np.full(start.shape, np.iinfo(np.int64).max // 2)
        return start + np.minimum(rng.geometric(rate, start.shape), np.iinfo(np.int64).max // 2)

    healthy = after(now, world.healthy)
    return np.where(healthy <= world.begins, healthy, after(np.maximum(now, world.begins), world.rate))


def delay(since: IntArray) -> Delay:
    """Delays as three numbers. A stream without an alarm counts as slower than all others."""
    if not len(since):
        return Delay(0.0, None, None)
    found = float((since != NEVER).mean())
    slow = np.sort(np.where(since == NEVER, np.inf, since.astype(np.float64)))

    def quantile(share: float) -> float | None:
        value = float(slow[math.ceil(share * len(slow)) - 1])
        return value if math.isfinite(value) else None

    return Delay(found, quantile(0.5), quantile(0.9))


def _since(times: IntArray, begins: int) -> IntArray:
    open_then = times[(times == NEVER) | (times > begins)]
    return np.where(open_then == NEVER, NEVER, open_then - begins)


def _false_alarms(rate: float, times: IntArray, horizon: int) -> FalseAlarms:
    alarms = int((times[_TEST] != NEVER).sum())
    detected = times[_DETECTOR]
    audits = int(np.where(detected == NEVER, horizon, detected).sum())
    count = int((detected != NEVER).sum())
    share = (alarms / times.shape[1], *wilson(alarms, times.shape[1]))
    return FalseAlarms(rate, share, audits / count if count else None, audits)
