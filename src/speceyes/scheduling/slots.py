"""Bounded concurrency: how many of one kind of work may be under way."""

from __future__ import annotations

import asyncio
from types import TracebackType

from speceyes.errors import ConfigError


class Slots:
    """A number of slots, given out in the order of asking, within one event loop at a time.

    `async with slots:` waits for a slot and holds it. A task that is cancelled while it waits or works gives its
    place back at once.

    Attributes:
        capacity: How many may be held at a time.
        held: How many are held now.
        waiting: How many tasks wait for one.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ConfigError(f"Slots need a capacity of at least 1, not {capacity}.")
        self.capacity = capacity
        self.held = 0
        self.waiting = 0
        self._free = asyncio.Semaphore(capacity)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def load(self) -> float:
        """Share of the slots that will be held or waited for if one more is asked for; at most 1."""
        return min(1.0, (self.held + self.waiting + 1) / self.capacity)

    def __repr__(self) -> str:
        return f"Slots({self.held}/{self.capacity} held, {self.waiting} waiting)"

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # A semaphore serves one event loop only, and a script may call asyncio.run several times.
            self._loop, self._free, self.held, self.waiting = loop, asyncio.Semaphore(self.capacity), 0, 0
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.held += 1

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.held -= 1
        self._free.release()
