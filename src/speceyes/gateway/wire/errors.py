"""Errors in OpenAI's form: `{"error": {"message", "type", "param", "code"}}` with the status that their clients expect.

400 what the caller sent is wrong, or the model's server refuses it     404 no such model
401 no valid key                                                       413 larger than a limit
429 too much at once, here or at a model's server                      499 nobody is left to answer
502 a model's server sent nonsense, or is set up wrongly               503 it is not there, or we are closing
504 it, or the whole request, took too long                            500 a fault of ours, without its details
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from speceyes.errors import (
    ConfigError,
    DeadlineExceeded,
    EngineError,
    EngineOverloaded,
    EngineProtocolError,
    EngineRefused,
    EngineTimeout,
    EngineUnreachable,
    ImageError,
    InputError,
)
from speceyes.export import plain_text

INVALID, NOT_FOUND, LIMITED, SERVER = "invalid_request_error", "not_found_error", "rate_limit_error", "server_error"
AUTHENTICATION = "authentication_error"

_PASSED_ON = frozenset({400, 413, 415, 422, 429})
"""What a model's server says about the request itself, and so concerns the caller."""


class ApiError(Exception):
    """An error as it goes to the client.

    Args:
        status: HTTP status.
        message: What was wrong, where, and what to do.
        kind: The error object's `type`.
        param: The field that is at fault, as a path: `messages[0].content[1].image_url`.
        code: A word for programs.
        retry_after: Seconds after which the same request may work.
        retry: Whether OpenAI's clients should try again by themselves; None leaves it to them.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        retry: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind
        self.param, self.code, self.retry_after, self.retry = param, code, retry_after, retry

    @property
    def headers(self) -> dict[str, str]:
        """`Retry-After` in whole seconds, and a word to OpenAI's clients where a second try would only cost."""
        headers = {} if self.retry_after is None else {"retry-after": str(max(0, math.ceil(self.retry_after)))}
        return headers if self.retry is None else headers | {"x-should-retry": str(self.retry).lower()}

    def as_json(self) -> dict[str, Any]:
        """The body."""
        message = plain_text(self.message)
        return {"error": {"message": message, "type": self.kind, "param": self.param, "code": self.code}}

    def encoded(self) -> bytes:
        """The body as bytes."""
        return msgspec.json.encode(self.as_json())


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """The caller must change something."""
    return ApiError(400, message, param=param, code=code)


def too_large(message: str, param: str | None = None) -> ApiError:
    """Something is above a limit; the message holds the number."""
    return ApiError(413, message, param=param, code="request_too_large")


def unknown_model(name: str, known: Mapping[str, object]) -> ApiError:
    """No such name; says which there are."""
    message = f"The model {name!r} does not exist here. There are: {', '.join(known)}."
    return ApiError(404, message, kind=NOT_FOUND, param="model", code="model_not_found")


def closing() -> ApiError:
    """The server is going down."""
    return ApiError(503, "The gateway is shutting down.", kind=SERVER, code="shutting_down", retry_after=1)


def from_error(error: BaseException, request_id: str = "") -> ApiError:
    """What a client is told about an error, whatever it is."""
    match error:
        case ApiError():
            return error
        case ImageError():
            return bad_request(str(error), "messages", "invalid_image")
        case InputError():
            return bad_request(str(error))
        case EngineError():
            return _from_engine(error)
        case ConfigError():
            return ApiError(500, str(error), kind=SERVER, code="misconfigured", retry=False)
    named = f" Its id is {request_id}." if request_id else ""
    message = f"An error inside the gateway; the log has the details.{named}"
    return ApiError(500, message, kind=SERVER, code="internal_error")


def from_single_call(error: EngineError) -> ApiError:
    """As `from_error`, for a call that was made once: whether there is another is the client's choice."""
    told = from_error(error)
    if not error.misconfigured:
        told.retry = None
    return told


def _from_engine(error: EngineError) -> ApiError:
    """The model client has retried already wherever that could help, so a client should not, unless told when."""
    said, wait = str(error), error.retry_after
    retry = None if wait is not None else False
    match error:
        case EngineOverloaded(status=429):
            return ApiError(429, said, kind=LIMITED, code="upstream_overloaded", retry_after=wait, retry=retry)
        case EngineOverloaded():
            return ApiError(503, said, kind=SERVER, code="upstream_overloaded", retry_after=wait, retry=retry)
        case DeadlineExceeded():
            return ApiError(504, said, kind=SERVER, code="deadline_exceeded", retry=False)
        case EngineTimeout():
            return ApiError(504, said, kind=SERVER, code="upstream_timeout", retry=False)
        case EngineUnreachable():
            return ApiError(503, said, kind=SERVER, code="upstream_unreachable", retry_after=wait, retry=retry)
        case EngineRefused() if error.misconfigured:
            return ApiError(502, said, kind=SERVER, code="upstream_misconfigured", retry=False)
        case EngineRefused():
            status = error.status if error.status in _PASSED_ON else 400
            return ApiError(status, said, code="upstream_refused", retry_after=wait)
        case EngineProtocolError():
            return ApiError(502, said, kind=SERVER, code="upstream_bad_reply", retry=False)
    return ApiError(502, said, kind=SERVER, code="upstream_failed", retry=False)
