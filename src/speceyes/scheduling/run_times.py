"""How long an agent run will take, by the runs so far: what a query stands in line with."""

from __future__ import annotations

import math
from collections.abc import Hashable

from speceyes.scheduling.decayed import Decayed

MOST = 512
"""Kinds that are kept apart; what is new then counts with all others."""


class RunTimes:
    """Decayed means of the seconds of agent runs. What is rare leans on what it is part of.

    A query for which screening says that a tool would help has more turns before it than one whose draft was refused.
    So means are kept by kind of query and by why the agent is asked, over them by kind, and over those for all.
    """

    def __init__(self) -> None:
        self._means: dict[tuple[Hashable, ...], Decayed] = {}

    def add(self, kind: Hashable, why: Hashable, seconds: float) -> None:
        """A run is over."""
        for name in ((), (kind,), (kind, why)):
            if name in self._means or len(self._means) < MOST:
                self._means.setdefault(name, Decayed()).add(seconds)

    def expected(self, kind: Hashable, why: Hashable) -> float | None:
        """Seconds, waiting for a place left out, about. None as long as no run has been seen.

        A mean is never quite the same twice, and queries that are alike are to keep their order. So what is told is
        the mean of all runs to the nearest power of two, times the nearest power of two by which these differ from it.
        """
        if () not in self._means:
            return None
        total = mean = self._means[()].mean() or 0.0
        for name in ((kind,), (kind, why)):
            if name in self._means:
                mean = self._means[name].mean(mean) or 0.0
        if not total > 0 or not mean > 0:
            return mean
        return 2.0 ** (round(math.log2(total)) + round(math.log2(mean / total)))
