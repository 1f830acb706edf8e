"""Browsers: nothing is allowed unless it is listed, and a browser's question needs no key."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from speceyes.config import Settings, load_settings
from speceyes.gateway.access.cors import with_cors

PAGE = "https://chat.example.com"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Wants a key for everything, as the gateway does behind its CORS."""
    has_key = any(name == b"authorization" for name, _ in scope["headers"])
    headers = [(b"x-speceyes-route", b"draft"), (b"set-cookie", b"a=b")]
    await send({"type": "http.response.start", "status": 200 if has_key else 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})


async def ask(origins: list[str], method: str, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(with_cors(app, origins))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        return await client.request(method, "/v1/chat/completions", headers=named)


def before(origin: str = PAGE) -> dict[str, str]:
    return {
        "origin": origin,
        "access_control_request_method": "POST",
        "access_control_request_headers": "authorization,content-type,x-stainless-lang",
    }


async def test_it_is_off_by_default() -> None:
    assert Settings().access.cors_origins == ()
    assert with_cors(app, ()) is app
    answer = await ask([], "POST", origin=PAGE, authorization="Bearer k")
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert (await ask([], "OPTIONS", **before())).status_code == 401


async def test_a_listed_page_may_ask_without_a_key_what_it_may_send() -> None:
    answer = await ask([PAGE], "OPTIONS", **before())
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert {"authorization", "content-type", "x-stainless-lang"} <= set(
        answer.headers["access-control-allow-headers"].replace(" ", "").lower().split(",")
    )


async def test_a_listed_page_reads_the_answer_and_our_headers() -> None:
    answer = await ask([PAGE], "POST", origin=PAGE, authorization="Bearer k")
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "x-speceyes-route" in answer.headers["access-control-expose-headers"]
    assert "Origin" in answer.headers["vary"]


async def test_refusals_are_readable_too() -> None:
    answer = await ask([PAGE], "POST", origin=PAGE)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (401, PAGE)


@pytest.mark.parametrize(
    "origin", ["https://evil.com", "https://chat.example.com.evil.com", "http://chat.example.com", "null"]
)
async def test_other_pages_get_nothing(origin: str) -> None:
    answer = await ask([PAGE], "OPTIONS", **before(origin))
    assert answer.status_code == 400
    assert "access-control-allow-origin" not in answer.headers
    assert "access-control-allow-origin" not in (await ask([PAGE], "POST", origin=origin)).headers


@pytest.mark.parametrize("origins", [[PAGE], ["*"]])
async def test_credentials_are_never_allowed(origins: list[str]) -> None:
    for answer in (
        await ask(origins, "OPTIONS", **before()),
        await ask(origins, "POST", origin=PAGE, cookie="a=b", authorization="Bearer k"),
    ):
        assert "access-control-allow-credentials" not in answer.headers
        assert answer.headers["access-control-allow-origin"] == origins[0]


@pytest.mark.parametrize(
    "origin", ["chat.example.com", "https://a.com/", "https://a.com/x", "https://*.a.com", "ftp://a", "https://"]
)
def test_an_origin_is_written_as_browsers_write_it(origin: str) -> None:
    with pytest.raises(ValidationError, match="is no origin"):
        Settings.model_validate({"access": {"cors_origins": [origin]}})


def test_lists_can_stand_on_one_line_in_the_environment() -> None:
    env = {
        "SPECEYES_ACCESS__CORS_ORIGINS": "https://A.com, http://localhost:3000",
        "SPECEYES_FETCH__ENABLED": "true",
        "SPECEYES_FETCH__PORTS": "443,8443",
        "SPECEYES_FETCH__ALLOW_NETWORKS": "10.1.2.0/24,fd00::/64",
        "SPECEYES_FETCH__ALLOW_HOSTS": "*.example.com",
    }
    settings = load_settings(env=env)
    assert settings.access.cors_origins == ("https://a.com", "http://localhost:3000")
    assert settings.fetch.ports == (443, 8443)
    assert [str(network) for network in settings.fetch.allow_networks] == ["10.1.2.0/24", "fd00::/64"]
