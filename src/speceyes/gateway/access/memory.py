"""A bound on the bytes that all requests together hold."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from speceyes.errors import ConfigError


class Holding:
    """What one request holds of a budget."""

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        self._budget = budget
        self.size = size

    def shrink(self, size: int) -> None:
        """Give back what turned out not to be needed."""
        if size < self.size:
            self._budget.release(self.size - size)
            self.size = size


class MemoryBudget:
    """A number of bytes, given out in the order of asking, within one event loop.

    Who asks, asks once, for the most that it may come to need. So nobody holds a part while it waits for the rest, and
    requests cannot block each other for good.

    Args:
        total: Bytes that may be held at a time.

    Attributes:
        held: Bytes that are held.
        waiting: How many wait.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.held = 0
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    def __repr__(self) -> str:
        return f"MemoryBudget({self.held:,}/{self.total:,} bytes held, {self.waiting} waiting)"

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue)

    @asynccontextmanager
    async def hold(self, size: int, max_wait_s: float | None = None) -> AsyncIterator[Holding]:
        """Wait for a number of bytes and hold them.

        Raises:
            TimeoutError: They did not come free in time.
            ConfigError: There will never be so many.
        """
        if size > self.total:
            raise ConfigError(f"{size:,} bytes are more than the {self.total:,} that all requests may hold together")
        await self._acquire(size, max_wait_s)
        holding = Holding(self, size)
        try:
            yield holding
        finally:
            holding.shrink(0)

    def release(self, size: int) -> None:
        """Give bytes back."""
        self.held -= size
        self._serve()

    async def _acquire(self, size: int, max_wait_s: float | None) -> None:
        if not self._queue and self.held + size <= self.total:
            self.held += size
            return
        entry = (size, asyncio.get_running_loop().create_future())
        self._queue.append(entry)
        try:
            async with asyncio.timeout(max_wait_s):
                await entry[1]
        except BaseException:
            if entry in self._queue:
                self._queue.remove(entry)
                self._serve()  # it may have stood before smaller ones
            elif not entry[1].cancelled():
                self.release(size)  # it came in the very moment of giving up
            raise

    def _serve(self) -> None:
        while self._queue and (self._queue[0][1].done() or self.held + self._queue[0][0] <= self.total):
            size, waiter = self._queue.popleft()
            if not waiter.done():
                self.held += size
                waiter.set_result(None)
