"""What clients are told of errors: the status and the class that OpenAI's own client makes of it."""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from speceyes.engines.failures import LogprobLimit, from_response
from speceyes.errors import (
    CalibrationMismatch,
    DeadlineExceeded,
    EngineDown,
    EngineError,
    EngineOverloaded,
    EngineProtocolError,
    EngineRefused,
    EngineTimeout,
    EngineUnreachable,
    ImageError,
    InputError,
)
from speceyes.gateway.wire.errors import ApiError, closing, from_error, too_large, unknown_model

CASES = [
    (ImageError("image 2: damaged"), 400, openai.BadRequestError, "invalid_image"),
    (InputError("bad"), 400, openai.BadRequestError, None),
    (unknown_model("nope", {"speceyes": 1}), 404, openai.NotFoundError, "model_not_found"),
    (too_large("more than 7 bytes"), 413, openai.APIStatusError, "request_too_large"),
    (EngineOverloaded("x", status=429, retry_after=7), 429, openai.RateLimitError, "upstream_overloaded"),
    (EngineOverloaded("x", status=503, retry_after=7), 503, openai.InternalServerError, "upstream_overloaded"),
    (EngineUnreachable("x"), 503, openai.InternalServerError, "upstream_unreachable"),
    (EngineDown("x", retry_after=3.2), 503, openai.InternalServerError, "upstream_unreachable"),
    (EngineTimeout("x"), 504, openai.InternalServerError, "upstream_timeout"),
    (DeadlineExceeded("x"), 504, openai.InternalServerError, "deadline_exceeded"),
    (EngineRefused("x", status=400), 400, openai.BadRequestError, "upstream_refused"),
    (EngineRefused("x", status=422), 422, openai.UnprocessableEntityError, "upstream_refused"),
    (EngineRefused("x", status=401), 502, openai.InternalServerError, "upstream_misconfigured"),
    (EngineRefused("x", status=404), 502, openai.InternalServerError, "upstream_misconfigured"),
    (LogprobLimit("x", asked=65, limit=20, status=400), 502, openai.InternalServerError, "upstream_misconfigured"),
    (EngineProtocolError("x", status=500), 502, openai.InternalServerError, "upstream_bad_reply"),
    (EngineError("x"), 502, openai.InternalServerError, "upstream_failed"),
    (CalibrationMismatch("x"), 500, openai.InternalServerError, "misconfigured"),
    (closing(), 503, openai.InternalServerError, "shutting_down"),
    (ZeroDivisionError("secret"), 500, openai.InternalServerError, "internal_error"),
]


@pytest.mark.parametrize(("error", "status", "kind", "code"), CASES)
def test_each_error_has_its_status_and_its_class(
    error: Exception, status: int, kind: type[openai.APIError], code: str | None
) -> None:
    told = from_error(error, "r1")
    assert (told.status, told.code) == (status, code)

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(told.status, content=told.encoded(), headers=told.headers)

    transport = httpx.Client(transport=httpx.MockTransport(answer))
    client = openai.OpenAI(base_url="http://test/v1", api_key="k", max_retries=0, http_client=transport)
    with pytest.raises(kind) as caught:
        client.models.list()
    assert isinstance(caught.value, openai.APIStatusError)
    assert caught.value.code == code
    assert type(caught.value) is kind


def test_the_body_has_openais_four_fields() -> None:
    body = json.loads(ApiError(400, "half a pair: \ud800", param="messages").encoded())
    assert body == {
        "error": {
            "message": "half a pair: \ufffd",
            "type": "invalid_request_error",
            "param": "messages",
            "code": None,
        }
    }


def test_what_happened_inside_stays_inside() -> None:
    told = from_error(ZeroDivisionError("secret"), "r1")
    assert "secret" not in told.message
    assert "r1" in told.message


def test_the_wait_that_a_server_asks_for_is_kept_in_whole_seconds() -> None:
    error = from_response("large at host", 429, {"retry-after": "7"}, b'{"error": {"message": "busy"}}')
    assert from_error(error).headers == {"retry-after": "7"}
    assert from_error(EngineDown("x", retry_after=3.2)).headers == {"retry-after": "4"}


def test_clients_do_not_repeat_what_was_repeated_already() -> None:
    """The model client retries; OpenAI's client would do all of it again."""
    for error in (EngineTimeout("x"), EngineUnreachable("x"), EngineProtocolError("x")):
        assert from_error(error).headers["x-should-retry"] == "false"
