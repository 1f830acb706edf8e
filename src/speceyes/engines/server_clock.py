"""A server's own time: how much of it each call has had, however many others were there."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple


class Mark(NamedTuple):
    """A moment.

    Attributes:
        now: Seconds on the wall's clock.
        served: Seconds on the server's.
    """

    now: float
    served: float


@dataclass(slots=True)
class Stay:
    """How long the calls of one phase of a query were at their server.

    Attributes:
        seconds: In all, on the wall's clock.
        served: The same on the server's.
    """

    seconds: float = 0.0
    served: float = 0.0

    @property
    def beside(self) -> float | None:
        """Mean number of calls that were there meanwhile, these included; harmonic, so that it is 2 where one half of a
        call's work was done beside two others and the other half alone. None: there was no call."""
        return self.seconds / self.served if self.served > 0.0 else None


class ServerClock:
    """A clock that runs 1/n as fast as the wall's while n calls are at a server.

    So each second of the server is counted once, in equal shares for those who are there. Where they share one
    processor, as llama.cpp's calls do, a call takes as long on this clock as it would alone on the wall's (processor
    sharing in virtual time; Kleinrock, "Queueing Systems II", 1976). A server that batches does more than one call's
    work in a second; see `scheduling.crowding`.

    Args:
        now: Monotonic seconds. None: the running event loop's.

    Attributes:
        under_way: How many calls are there now; who waits for a slot there is among them.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self.under_way = 0
        self._now = now or _loop_time
        self._served = 0.0
        self._since = -math.inf

    def __repr__(self) -> str:
        return f"ServerClock({self.under_way} under way)"

    def read(self) -> Mark:
        """This moment."""
        now = self._now()
        if self.under_way:
            self._served += max(0.0, now - self._since) / self.under_way  # another loop's clock may have begun anew
        self._since = now
        return Mark(now, self._served)

    def enter(self) -> Mark:
        """A call comes. It leaves with what this gives back."""
        mark = self.read()
        self.under_way += 1
        return mark

    def leave(self, came: Mark, stay: Stay) -> None:
        """That call is over, or broken off; its time is added to a stay."""
        mark = self.read()
        self.under_way -= 1
        stay.seconds += max(0.0, mark.now - came.now)
        stay.served += max(0.0, mark.served - came.served)

    @contextmanager
    def timing(self, stay: Stay) -> Iterator[None]:
        """A call is at the server for as long as the block."""
        came = self.enter()
        try:
            yield
        finally:
            self.leave(came, stay)


def _loop_time() -> float:
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()  # which is what event loops go by, too


class ServerClocks:
    """One clock for each of the two models' servers.

    Attributes:
        draft: The draft's.
        agent: The agent's.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self.draft, self.agent = ServerClock(now), ServerClock(now)
