"""What a call costs the others at its server: how many are there, and how much longer each takes for it.

A phase's seconds under load hold waits, and which plan has caused them they do not say. So what is learned of a phase
is kept together with how many calls were at its server meanwhile (`engines.server_clock`). By

    seconds = seconds alone * calls ^ elasticity

it is what the phase would take now, or alone. An elasticity of 1 is a server that does one call's work at a time, as
llama.cpp on a processor; 0 is one with room for all. It is found as the slope of ln(seconds) on ln(calls), each from
its mean over phases of the same name and kind, and is 1 as long as little is known: a crowded server that is taken for
a roomy one is the dearer mistake.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

from speceyes.scheduling.decayed import Decayed

RECENT = 30.0
"""Memory, in queries, of how crowded a server is."""
KEPT = 300.0
"""Memory, in phases, of its elasticity."""
DOUBT = 1.0
"""Sum of squares of ln(calls), from their means, at which the slope counts half and the value above half."""
MOST = 256
"""Kinds of phase that are kept apart; what is new then counts as one."""


@dataclass(slots=True)
class Crowding:
    """One server."""

    _now: int = 0
    _lately: Decayed = field(default_factory=lambda: Decayed(RECENT))
    _means: dict[Hashable, tuple[Decayed, Decayed]] = field(default_factory=dict)
    _squares: Decayed = field(default_factory=lambda: Decayed(KEPT))
    _products: Decayed = field(default_factory=lambda: Decayed(KEPT))

    @property
    def calls(self) -> float | None:
        """How many calls there are with one more: between those of this moment and those that queries have found
        lately. The first alone would be too restless, the second too late. None: none has ever been seen."""
        if not self._means:
            return None
        return 1.0 + (self._now + (self._lately.mean() or 0.0)) / 2.0

    @property
    def elasticity(self) -> float:
        """By what power of the calls there each of them takes longer; see above."""
        return min(1.0, max(0.0, (self._products.total + DOUBT) / (self._squares.total + DOUBT)))

    def found(self, calls: int) -> None:
        """A query comes, and so many calls are there."""
        self._now = calls
        self._lately.add(calls)

    def add(self, like: Hashable, seconds: float, calls: float) -> None:
        """A phase is over.

        Args:
            like: What phases take about as long alone.
            seconds: What it took.
            calls: How many were there meanwhile, itself included.
        """
        if seconds <= 0.0:
            return
        if like not in self._means and len(self._means) >= MOST:
            like = None
        logs = math.log(calls), math.log(seconds)
        means = self._means.setdefault(like, (Decayed(), Decayed()))
        known = [mean.mean() for mean in means]
        if known[0] is not None and known[1] is not None:
            off = logs[0] - known[0]
            self._squares.add(off * off)
            self._products.add(off * (logs[1] - known[1]))
        for mean, value in zip(means, logs, strict=True):
            mean.add(value)

    def stretch(self, log_calls: float, now: float | None) -> float:
        """How many times as long as it did a phase takes beside others.

        Args:
            log_calls: ln of the calls that were there.
            now: The calls that are there. None: as many.
        """
        return 1.0 if now is None else math.exp(self.elasticity * (math.log(now) - log_calls))

    @property
    def one_more(self) -> float:
        """By what share one more call slows those that are there. 0 as long as nobody has been there."""
        return 0.0 if self.calls is None else self.elasticity / self.calls

    def load(self, otherwise: float) -> float:
        """What a second there takes from the others, in seconds: each of n - 1 is slowed by elasticity / n.

        Args:
            otherwise: What to say as long as nobody has been there.
        """
        return otherwise if self.calls is None else self.elasticity * (1.0 - 1.0 / self.calls)
