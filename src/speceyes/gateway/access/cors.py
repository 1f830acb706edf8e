"""Which web pages may call the gateway from a browser: none, unless their origins are listed."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

EXPOSED = (
    "retry-after",
    "x-speceyes-reason",
    "x-speceyes-request-id",
    "x-speceyes-route",
    "x-speceyes-score",
    "x-speceyes-threshold",
)
"""Headers of an answer that a page may read."""


def with_cors(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """An app that answers browsers for the pages of these origins; the app itself where there are none.

    It stands before the check of keys, since a browser asks (`OPTIONS`) without one. Credentials that a browser adds by
    itself, such as cookies, are never allowed: a key is sent by the page's own code, in a header.

    Args:
        app: What it stands before.
        origins: As browsers write them, `https://example.com:8443`; `*` is every page there is.
    """
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=list(origins),
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        allow_credentials=False,
        expose_headers=list(EXPOSED),
    )
