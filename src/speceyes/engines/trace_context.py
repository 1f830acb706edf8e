"""A caller's trace goes on in the upstream servers: the W3C headers `traceparent` and `tracestate` (Trace Context).

They travel in a context variable, so every upstream call of a request carries them, and no function in between has to
know. It works without OpenTelemetry: then the caller's own headers are passed on as they came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar

_HEADERS: ContextVar[Mapping[str, str]] = ContextVar("speceyes_trace_headers")

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")
_STATE = re.compile(r"[ -~]{1,512}")


def upstream_headers() -> Mapping[str, str]:
    """The headers for an upstream call of the request that this task works on; none where there is no trace."""
    return _HEADERS.get({})


def carry(headers: Mapping[str, str]) -> None:
    """Let all upstream calls of this task, and of the tasks that it starts, carry these headers."""
    _HEADERS.set(headers)


def incoming(headers: Mapping[str, str]) -> dict[str, str]:
    """The trace headers of a request, so far as they are well-formed."""
    parent, state = headers.get("traceparent", ""), headers.get("tracestate", "")
    if not _PARENT.fullmatch(parent):
        return {}
    return {"traceparent": parent} | ({"tracestate": state} if _STATE.fullmatch(state) else {})
