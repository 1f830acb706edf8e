"""How many audits there may be: at a time, and in an hour."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

HOUR_S = 3600.0


class HourlyBudget:
    """At most so many in any hour, wherever the hour begins.

    Args:
        most: None: no limit.
        clock: Monotonic seconds.
    """

    def __init__(self, most: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._taken: deque[float] = deque()

    def take(self) -> bool:
        """Use one up, if there is one left."""
        if self._most is None:
            return True
        now = self._clock()
        while self._taken and now - self._taken[0] >= HOUR_S:
            self._taken.popleft()
        if len(self._taken) >= self._most:
            return False
        self._taken.append(now)
        return True
