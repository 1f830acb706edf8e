"""What is said to a client that is not let in.

    ApiError
    ├── Unauthorized   401  no key, or none that is valid; which of the two is not said
    ├── Forbidden      403  a valid key that may not do this
    ├── BodyTooSlow    408  the body did not come in time
    ├── Full           429  too much at once; carries `retry_after`
    └── ClientGone     499  the client left while it was sending; there is nobody to tell

A body that is too large is `wire.errors.too_large`, 413.
"""

from __future__ import annotations

from speceyes.gateway.wire.errors import AUTHENTICATION, LIMITED, ApiError


class Unauthorized(ApiError):
    """There is no valid key."""

    def __init__(self) -> None:
        super().__init__(
            401,
            "No valid API key. Send one as the header 'Authorization: Bearer KEY'.",
            kind=AUTHENTICATION,
            code="invalid_api_key",
        )

    @property
    def headers(self) -> dict[str, str]:
        """With the challenge that goes with every 401 (RFC 9110, section 11.6.1)."""
        return super().headers | {"www-authenticate": 'Bearer realm="speceyes"'}


class Forbidden(ApiError):
    """The key is valid but lacks a scope."""

    def __init__(self, scope: str) -> None:
        super().__init__(
            403,
            f"This needs a key with the scope '{scope}', which yours does not have.",
            kind="permission_error",
            code="insufficient_scope",
        )


class BodyTooSlow(ApiError):
    """The request's body did not come in time."""

    def __init__(self, received: int) -> None:
        super().__init__(408, f"The request's body came too slowly: {received:,} bytes so far.", code="body_timeout")


class Full(ApiError):
    """There is no place for the request now.

    Args:
        retry_after: Seconds after which there may be one, by what requests took lately.
        message: What there is too much of.
    """

    def __init__(self, retry_after: float, message: str = "Too many requests are under way.") -> None:
        super().__init__(429, message, kind=LIMITED, code="too_many_requests", retry_after=retry_after)


class ClientGone(ApiError):
    """The client closed the connection before its body was complete."""

    def __init__(self) -> None:
        super().__init__(499, "The client closed the connection.", code="client_gone")
