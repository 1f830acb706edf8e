"""Writes an audit's state while the gateway runs: soon after each audit, now and then for the rest."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from speceyes.gateway.trust.keeping import StateFile
from speceyes.gating.audit import AuditState

_log = logging.getLogger(__name__)

EVERY_S = 10.0
"""What only the drift monitors have seen is written so often: losing it costs a little of their evidence."""
WARN_EVERY_S = 60.0


class Saver:
    """Keeps a file as new as it has to be. A disk that is full is a warning: the gate goes on, and so does the trying.

    Args:
        file: The file.
        current: The state of now.

    Attributes:
        problem: Why the file is behind; None where it is not.
    """

    def __init__(self, file: StateFile, current: Callable[[], AuditState]) -> None:
        self.problem: str | None = None
        self._file, self._current = file, current
        self._saved: AuditState | None = None
        self._soon = asyncio.Event()
        self._warned = -WARN_EVERY_S
        self._task = asyncio.create_task(self._work(), name="audit state")

    def soon(self) -> None:
        """Write in a moment, in another thread."""
        self._soon.set()

    def now(self) -> None:
        """Write before anything else happens."""
        self._save()

    async def close(self) -> None:
        """Write what there is, and stop."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._save()

    async def _work(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._soon.wait()
            self._soon.clear()
            if self._current() is not self._saved:
                # What is cancelled here goes on to its end: half a file is never put in place
                await asyncio.shield(asyncio.to_thread(self._save))

    def _save(self) -> None:
        written: list[AuditState] = []

        def current() -> AuditState:
            written.append(self._current())
            return written[-1]

        try:
            self._file.write(current)
        except OSError as error:
            self.problem = error.strerror or str(error)
            if time.monotonic() - self._warned >= WARN_EVERY_S:
                self._warned = time.monotonic()
                _log.error("the audit's state cannot be written to %s: %s", self._file.path, self.problem)
        else:
            self.problem, self._saved = None, written[-1]
