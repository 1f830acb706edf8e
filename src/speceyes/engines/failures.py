"""From what went wrong on the wire to the errors of `speceyes.errors`, with the server's own words kept."""

from __future__ import annotations

import html
import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from speceyes.errors import (
    EngineError,
    EngineOverloaded,
    EngineProtocolError,
    EngineRefused,
    EngineTimeout,
    EngineUnreachable,
)

MAX_MESSAGE = 400
"""Characters of a server's message that are kept."""

_BASE64 = re.compile(r"(?<=base64,)[A-Za-z0-9+/=_-]+|[A-Za-z0-9+/_-]{200,}=*")
"""A picture that a server repeats: it belongs into no message and no log."""


class LogprobLimit(EngineRefused):
    """The server refuses the number of log-probs that the gate needs.

    Attributes:
        asked: `top_logprobs` as it was sent: K + 1.
        limit: The largest value that the server allows, where its message says so.
    """

    def __init__(self, message: str, *, asked: int, limit: int | None, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.asked = asked
        self.limit = limit

    @property
    def misconfigured(self) -> bool:
        return True


def from_response(where: str, status: int, headers: Mapping[str, str], body: bytes, *, asked: int = 0) -> EngineError:
    """The error that an HTTP response other than 200 stands for.

    Args:
        where: Which server, for the message.
        headers: The response's headers, with names in lower case or case-blind.
        asked: `top_logprobs` in the request; 0 if it asked for none.
    """
    said = server_message(body)
    message = f"{where}: HTTP {status}" + (f": {said}" if said else "")
    wait = retry_after(headers)
    if status in (429, 503):
        return EngineOverloaded(message, status=status, retry_after=wait)
    if status == 408:
        return EngineTimeout(message, status=status, retry_after=wait)
    if 300 <= status < 400:
        goal = headers.get("location", "another address")
        return EngineRefused(f"{message}: it redirects to {goal}: use that URL", status=status)
    if 400 <= status < 500:
        if asked and _blames_logprobs(said):
            return _logprob_limit(where, status, said, asked)
        return EngineRefused(message, status=status, retry_after=wait)
    return EngineProtocolError(message, status=status, retry_after=wait)


def from_transport(where: str, error: httpx.HTTPError) -> EngineError:
    """The error that a failed connection, read or write stands for."""
    what = _one_line(str(error)) or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        return EngineUnreachable(f"{where}: cannot connect ({what}): is the server running, and the URL right?")
    if isinstance(error, httpx.TimeoutException):
        return EngineTimeout(f"{where}: {what}")
    broke = "disconnected" in what or "closed" in what
    if isinstance(error, httpx.NetworkError) or (isinstance(error, httpx.RemoteProtocolError) and broke):
        return EngineUnreachable(f"{where}: the connection broke ({what})")
    return EngineProtocolError(f"{where}: the reply is not readable HTTP ({what})")


def from_error_object(where: str, payload: Mapping[str, Any], *, asked: int = 0) -> EngineError:
    """The error that an error object inside a response with status 200 stands for; `asked` as for `from_response`."""
    inner = payload.get("error")
    code = inner.get("code") if isinstance(inner, Mapping) else payload.get("code")
    status = code if isinstance(code, int) and not isinstance(code, bool) and 100 <= code < 600 else None
    said = _message_of(payload)
    if asked and status is not None and 400 <= status < 500 and _blames_logprobs(said):
        return _logprob_limit(where, status, said, asked)  # vLLM 0.32 begins a stream before it looks at their number
    error = EngineProtocolError(f"{where}: the server sent an error inside its reply: {said}", status=status)
    if status is not None and 400 <= status < 500 and status not in (408, 429):
        error.retryable = False  # the server says that our request is wrong, if a little late
    return error


def server_message(body: bytes) -> str:
    """What a server says in an error body, on one line: OpenAI's and other JSON forms, plain text, or HTML."""
    text = body.decode("utf-8", "replace").strip()
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return _one_line(_without_markup(text))
    return _message_of(payload)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait, from `Retry-After` (seconds or an HTTP date) or `Retry-After-Ms`; else None."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
            except (ValueError, TypeError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _blames_logprobs(said: str) -> bool:
    """Whether a message is about how many log-probs there may be.

    It is not where it only repeats the request's fields, or says that log-probs are not to be had at all.
    """
    repeated = r"""['"](top_)?logprobs['"]\s*:\s*(\d+|true|false|null|none)"""
    plain = re.sub(repeated, "", said.lower())
    return "logprob" in plain and "not supported" not in plain


def _logprob_limit(where: str, status: int, said: str, asked: int) -> LogprobLimit:
    numbers = map(int, re.findall(r"(?<![\w.-])\d{1,9}(?![\w])", said))
    smaller = [number for number in numbers if number < asked]
    limit = max(smaller, default=None)
    allowed = "" if limit is None else f"; it allows {limit}, which is enough for K = {max(0, limit - 1)}"
    return LogprobLimit(
        f"{where}: the server refuses {asked} log-probs a token (K = {asked - 1}, and one more because some "
        f"servers put the sampled token in the list){allowed}. Start vLLM with --max-logprobs {asked}, or "
        f"use a smaller K with a calibration made for it. The server said: {said or f'HTTP {status}'}",
        asked=asked,
        limit=limit,
        status=status,
    )


def _message_of(payload: object, depth: int = 0) -> str:
    """The message in a parsed error body. Proxies put one error inside another as text, so look inside."""
    if isinstance(payload, str):
        inner = payload.strip()
        if inner.startswith("{") and depth < 4:
            try:
                return _message_of(json.loads(inner), depth + 1)
            except (ValueError, RecursionError):
                pass
        return _one_line(_without_markup(inner))
    if isinstance(payload, Mapping):
        for key in ("error", "message", "detail", "msg"):
            value = payload.get(key)
            if value and depth < 8 and isinstance(value, str | Mapping | list):
                return _message_of(value, depth + 1)
    if isinstance(payload, list) and payload and depth < 8:
        return _one_line("; ".join(_detail(item, depth + 1) for item in payload[:5]))
    return _one_line(json.dumps(payload)) if payload else ""


def _detail(item: object, depth: int) -> str:
    """One validation error of FastAPI's form: `{"loc": ["body", "top_logprobs"], "msg": "..."}`."""
    said = _message_of(item, depth)
    place = item.get("loc") if isinstance(item, Mapping) else None
    return f"{'.'.join(map(str, place))}: {said}" if isinstance(place, list) else said


def _without_markup(text: str) -> str:
    if not re.match(r"\s*<(!doctype|html|head|body|h\d|p|center|title)\b", text, re.IGNORECASE):
        return text
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    bare = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", text, flags=re.IGNORECASE | re.DOTALL)
    return html.unescape(title.group(1) if title and title.group(1).strip() else bare)


def _one_line(text: str) -> str:
    line = _BASE64.sub(lambda found: f"[{len(found[0])} characters of base64]", " ".join(text.split()))
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"
