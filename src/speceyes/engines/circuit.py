"""When to stop asking a server that fails, and when to try again: a state machine that knows no server and no clock.

    closed     every call goes through; after so many failures in a row it opens
    open       no call goes through for a while
    half-open  the while is over: one call goes through as a trial; it closes the circuit or opens it again

The pattern is Michael Nygard's (Release It!, 2007).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from speceyes.errors import ConfigError

State = Literal["closed", "open", "half_open"]


class Circuit:
    """One server's circuit.

    Args:
        failures: Failures in a row that open it.
        pause_s: Seconds that it stays open the first time. It doubles with each trial that fails.
        max_pause_s: The longest pause.
        clock: Monotonic seconds.

    Raises:
        ConfigError: No failure, or no pause, is allowed for.
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        pause_s: float = 10.0,
        max_pause_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if failures < 1 or not pause_s > 0:
            raise ConfigError(f"a circuit needs failures >= 1 and pause_s > 0, not {failures} and {pause_s}")
        self._state: State = "closed"
        self._allowed = failures
        self._first_pause_s, self._max_pause_s = pause_s, max(pause_s, max_pause_s)
        self._pause_s = pause_s
        self._clock = clock
        self._failed = 0
        self._until = 0.0
        self._on_trial = False
        self._period = 0

    @property
    def state(self) -> State:
        """As of the last call: an open circuit is tried by a call, not by the clock."""
        return self._state

    @property
    def retry_after_s(self) -> float:
        """Seconds until a call may go through; 0 where one may now. While a trial runs, about a second."""
        if self._state == "open":
            return max(0.0, self._until - self._clock())
        return 1.0 if self._on_trial else 0.0

    def enter(self) -> int | None:
        """Ask to make a call: a ticket with which to report its outcome, or None where it must not be made."""
        if self._state == "open":
            if self._clock() < self._until:
                return None
            self._become("half_open")
        if self._state == "half_open":
            if self._on_trial:
                return None
            self._on_trial = True
        return self._period

    def succeeded(self, ticket: int) -> None:
        """The server did its part."""
        if ticket != self._period:
            return  # begun before the state changed, so it says nothing about now
        self._failed = 0
        if self._state == "half_open":
            self._pause_s = self._first_pause_s
            self._become("closed")

    def failed(self, ticket: int, wait_s: float = 0.0) -> None:
        """The server failed, and asked for a pause of `wait_s`, if it is not 0."""
        if ticket != self._period:
            return
        self._failed += 1
        if self._state == "half_open":
            self._pause_s = min(2 * self._pause_s, self._max_pause_s)
        if self._state == "half_open" or self._failed >= self._allowed:
            self._until = self._clock() + max(self._pause_s, min(wait_s, self._max_pause_s))
            self._become("open")

    def given_up(self, ticket: int) -> None:
        """The call ended and says nothing about the server. A trial may be made anew."""
        if ticket == self._period:
            self._on_trial = False

    def _become(self, state: State) -> None:
        self._state, self._failed, self._on_trial = state, 0, False
        self._period += 1
