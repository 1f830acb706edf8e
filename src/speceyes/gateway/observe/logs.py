"""One line of JSON a request, on standard error.

    {"time": "2026-01-31T12:00:00.123Z", "request_id": "...", "key": "team-a", "model": "speceyes", "status": 200,
     "route": "draft", "reason": "accepted", "score": 7.1, "threshold": 6.2, "seconds": 0.31, "first_token_s": null,
     "phase_seconds": {"screen": 0.1, "speculate": 0.2}, "prompt_tokens": 912, "completion_tokens": 3,
     "images": [{"sha256": "...", "format": "JPEG", "bytes": 301554, "width": 1024, "height": 1024}]}

`error` and `trace_id` where there are any; `question` and `answer` only if they were asked for. Prompts, images, keys
and upstream messages are not in it. It is written by a thread: a reader that does not read stops no request.
"""

from __future__ import annotations

import json
import logging
import math
import queue
import threading
from contextlib import suppress
from dataclasses import asdict
from functools import reduce
from operator import add
from typing import Any, TextIO

from speceyes.store import RequestRecord
from speceyes.types import Usage

LOGGER = "speceyes.requests"
WAITING_LINES = 10_000


def line_of(record: RequestRecord, *, trace_id: str | None = None, content: bool = False) -> str:
    """The line for a request.

    Args:
        record: The request's record.
        trace_id: Of its OpenTelemetry trace, in hexadecimal.
        content: Whether question and answer are in it.
    """
    total = reduce(add, record.usage.values(), Usage())
    fields: dict[str, Any] = {
        "time": record.time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "request_id": record.id,
        "key": record.key,
        "model": record.model,
        "status": record.status,
        "route": record.route,
        "reason": record.reason,
        "score": _rounded(record.score),
        "threshold": _rounded(record.threshold),
        "seconds": _rounded(record.seconds),
        "first_token_s": _rounded(record.first_token_s),
        "phase_seconds": {name: _rounded(value) for name, value in record.phase_seconds.items()},
        "prompt_tokens": total.prompt_tokens,
        "completion_tokens": total.completion_tokens,
        "images": [asdict(image) for image in record.images],
    }
    if record.error is not None:
        fields["error"] = record.error
    if trace_id is not None:
        fields["trace_id"] = trace_id
    if content:
        fields["question"] = record.question
        fields["answer"] = record.draft_text if record.route == "draft" else record.agent_text
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


class RequestLog:
    """Writes the lines, by a thread of its own, through the logger `speceyes.requests`.

    Args:
        stream: Where lines go. None: standard error, unless the logger has handlers of its own.
        content: Whether lines hold question and answer.

    Attributes:
        dropped: Lines that were not written because nobody read the earlier ones.
    """

    def __init__(self, stream: TextIO | None = None, *, content: bool = False) -> None:
        self.content = content
        self.dropped = 0
        self._logger = logging.getLogger(LOGGER)
        self._logger.setLevel(logging.INFO)
        self._propagated = self._logger.propagate
        self._logger.propagate = False  # other handlers would put words before the JSON
        wanted = stream is not None or not self._logger.handlers
        self._own = logging.StreamHandler(stream) if wanted else None
        if self._own is not None:
            self._logger.addHandler(self._own)
        self._lines: queue.Queue[str | None] = queue.Queue(WAITING_LINES)
        self._thread = threading.Thread(target=self._write_all, name="request log", daemon=True)
        self._thread.start()

    def write(self, record: RequestRecord, trace_id: str | None = None) -> None:
        """Write a request's line. Never waits."""
        try:
            self._lines.put_nowait(line_of(record, trace_id=trace_id, content=self.content))
        except queue.Full:
            self.dropped += 1

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what waits, as far as somebody reads, and stop."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=timeout_s)
        self._thread.join(timeout_s)
        if self._own is not None:
            self._logger.removeHandler(self._own)
        self._logger.propagate = self._propagated

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            self._logger.info("%s", line)


def _rounded(value: float | None) -> float | None:
    return round(value, 6) if value is not None and math.isfinite(value) else None
