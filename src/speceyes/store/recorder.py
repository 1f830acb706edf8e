"""Records on their way to the store: a bounded queue and one task that writes them in batches.

Whoever answers a request only puts its record into the queue, which never waits and never fails. Where the database is
slow, the queue grows; where it is down, the task tries again with growing pauses; where the queue is full, new records
are dropped, counted, and the log says so once a minute. What is in the queue when the process is killed is lost; what
was written before is whole.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from speceyes.errors import ConfigError
from speceyes.store.database import what_failed
from speceyes.store.pictures import Pictures
from speceyes.store.record import KEEP_ALL, Retention
from speceyes.store.store import Store, Written

log = logging.getLogger(__name__)

BATCH: Final = 64
"""Records of one transaction. Few, because making rows of them holds up the event loop: about 3 ms."""
GATHER_S: Final = 0.25
"""Seconds that the task waits for more after the first record."""
WRITE_TIMEOUT_S: Final = 30.0
"""A database that takes longer than this for a batch counts as down."""
LONGEST_PAUSE_S: Final = 30.0
PRUNE_EVERY_S: Final = 600.0
WARN_EVERY_S: Final = 60.0
PICTURE_BYTES: Final = 64 * 1024**2
"""Most bytes of images that wait in memory."""

_DOWN = (OperationalError, InterfaceError, PoolTimeout, OSError, TimeoutError, ConfigError)


@dataclass(slots=True)
class Image:
    """An image that is to be kept."""

    sha256: str
    format: str
    data: bytes = field(repr=False)


class Recorder:
    """Writes records in the background.

    Args:
        open_store: Opens the store; is called again where it could not be opened.
        capacity: Records that may wait; further ones are dropped.
        retention: What is deleted, every ten minutes.
        pictures: Where images go, if they are to be kept.
        backoff_s: The first pause after a failure, in seconds; it doubles each time.

    Attributes:
        written: Records and outcomes that are in the store.
        dropped: Those that are not and never will be, by cause: `full`, `refused` (the database took the others but
            not this one), `closing`, `picture_full`, `picture_failed`.
        pruned: Records that were deleted.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        *,
        capacity: int = 2000,
        retention: Retention = KEEP_ALL,
        pictures: Pictures | None = None,
        backoff_s: float = 0.5,
    ) -> None:
        self.written = 0
        self.pruned = 0
        self.dropped: Counter[str] = Counter()
        self._open = open_store
        self._queue: asyncio.Queue[tuple[Written, tuple[Image, ...]]] = asyncio.Queue(capacity)
        self._retention, self._pictures, self._backoff_s = retention, pictures, backoff_s
        self._picture_bytes = 0
        self._store: Store | None = None
        self._task: asyncio.Task[None] | None = None
        self._warned: dict[str, float] = {}
        self._next_prune = 0.0
        self._writing: list[Written] = []

    @property
    def waiting(self) -> int:
        """Records in the queue."""
        return self._queue.qsize()

    @property
    def keeps_pictures(self) -> bool:
        """Whether images are wanted."""
        return self._pictures is not None

    def start(self) -> None:
        """Begin to write. Needs a running event loop."""
        self._task = asyncio.create_task(self._work(), name="request records")

    def offer(self, item: Written, images: tuple[Image, ...] = ()) -> None:
        """Hand over a record or an audit's outcome. Never waits, never fails."""
        size = sum(len(image.data) for image in images)
        if images and (self._pictures is None or self._picture_bytes + size > PICTURE_BYTES):
            self._drop("picture_full", len(images), "too many images are waiting to be kept")
            images, size = (), 0
        try:
            self._queue.put_nowait((item, images))
        except asyncio.QueueFull:
            self._drop("full", 1, "the database does not keep up, or is down")
        else:
            self._picture_bytes += size

    async def drained(self) -> None:
        """Wait until all that was offered is written or dropped."""
        await self._queue.join()

    async def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, as far as the time allows, and stop."""
        if self._task is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.drained(), timeout_s)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        if left := len(self._writing) + self._queue.qsize():
            self._drop("closing", left, "the gateway stopped before the database took them")
        if self._store is not None:
            await self._store.close()
            self._store = None

    async def _work(self) -> None:
        while True:
            if self._store is not None and time.monotonic() >= self._next_prune:
                await self._prune()
            try:
                async with asyncio.timeout(PRUNE_EVERY_S):
                    first = await self._queue.get()
            except TimeoutError:
                continue
            if not self._queue.qsize():
                await asyncio.sleep(GATHER_S)
            batch = [first]
            while len(batch) < BATCH and self._queue.qsize():
                batch.append(self._queue.get_nowait())
            self._writing = [item for item, _ in batch]
            await self._write_surely(self._writing)
            self._writing = []
            for _, images in batch:
                await self._keep(images)
                self._queue.task_done()

    async def _write_surely(self, items: list[Written]) -> None:
        """Write a batch; where the database is down, try until it is back."""
        pause = self._backoff_s
        while True:
            try:
                return await self._write(items)
            except _DOWN as error:
                self._warn("down", f"request records cannot be written ({what_failed(error)}); trying again")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _write(self, items: list[Written]) -> None:
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            if self._store is None:
                self._store = await self._open()
            try:
                await self._store.add(*items)
                self.written += len(items)
                items = []
            except _DOWN:
                raise
            except Exception as error:  # whatever a record does to us, the others are still to be written
                if len(items) == 1:
                    self._drop("refused", 1, what_failed(error))
                    items = []
        for item in items:  # one of them is at fault
            await self._write([item])

    async def _keep(self, images: tuple[Image, ...]) -> None:
        self._picture_bytes -= sum(len(image.data) for image in images)
        for image in images:
            assert self._pictures is not None
            try:
                await asyncio.to_thread(self._pictures.keep, image.sha256, image.format, image.data)
            except OSError as error:
                self._drop("picture_failed", 1, what_failed(error))

    async def _prune(self) -> None:
        assert self._store is not None
        self._next_prune = time.monotonic() + PRUNE_EVERY_S
        try:
            self.pruned += await self._store.prune(self._retention, time.time())
            if self._pictures is not None:
                oldest = await self._store.oldest()
                await asyncio.to_thread(self._pictures.prune, time.time() if oldest is None else oldest)
        except (SQLAlchemyError, OSError) as error:
            self._warn("prune", f"old request records cannot be deleted ({what_failed(error)})")

    def _drop(self, cause: str, count: int, why: str) -> None:
        self.dropped[cause] += count
        self._warn(cause, f"request records were dropped, {self.dropped[cause]} by now: {why}")

    def _warn(self, about: str, message: str) -> None:
        now = time.monotonic()
        if now - self._warned.get(about, -WARN_EVERY_S) >= WARN_EVERY_S:
            self._warned[about] = now
            log.warning(message)

    def counts(self) -> Mapping[str, int]:
        """Dropped records by cause, every cause there is included."""
        causes = ("full", "refused", "closing", "picture_full", "picture_failed")
        return {cause: self.dropped[cause] for cause in causes}
