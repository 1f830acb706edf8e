"""Work beside the requests: so much at a time and no more, awaited by none of them, and given up in the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

R = TypeVar("R")


class Background:
    """Tasks of one kind.

    Args:
        most: Tasks that there may be at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def under_way(self) -> int:
        """Tasks that are not over."""
        return len(self._tasks)

    @property
    def full(self) -> bool:
        """Whether no further task may begin."""
        return self._closed or len(self._tasks) >= self._most

    def start(self, work: Callable[[], Coroutine[Any, Any, R]]) -> asyncio.Task[R] | None:
        """Begin some work; None where there is no room. An error that it raises is logged, and goes nowhere else."""
        if self.full:
            return None
        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    async def close(self, wait_s: float) -> None:
        """Let nothing more begin, wait so long for what is under way, and cancel the rest."""
        self._closed = True
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=wait_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("work beside the requests failed", exc_info=error)
