"""The ASGI app: routes, the door before them, and errors in OpenAI's form.

Chat requests are read raw and decoded by `wire`; FastAPI gives the routing and the description of the interface.
"""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from speceyes.gateway.access.cors import with_cors
from speceyes.gateway.chat import KEY, ChatResponse, new_request_id
from speceyes.gateway.exchange import REQUEST_ID
from speceyes.gateway.observe import CONTENT_TYPE
from speceyes.gateway.readiness import report
from speceyes.gateway.serving import Gateway
from speceyes.gateway.wire.errors import INVALID, ApiError, from_error, unknown_model
from speceyes.gateway.wire.requests import ChatBody

_log = logging.getLogger(__name__)

_SUMMARY = """One OpenAI-compatible URL in front of a draft and an agent.

`speceyes` answers at once where the draft can be trusted and runs the agent's tool loop where not; `speceyes/agent` and
`speceyes/draft` force one of the two."""


def create_app(gateway: Gateway) -> ASGIApp:
    """The app over a gateway that is open. It has no start and no end of its own."""
    app = FastAPI(title="SpecEyes", description=_SUMMARY, version=_version(), redoc_url=None)
    _add_api(app, gateway)
    _add_health(app, gateway)
    _add_audit(app, gateway)
    _add_plan(app, gateway)
    app.exception_handler(HTTPException)(_no_such_thing)
    app.exception_handler(ApiError)(_refused)
    _describe_chat(app)
    return with_cors(_Door(app, gateway), gateway.settings.access.cors_origins)


def _add_api(app: FastAPI, gateway: Gateway) -> None:
    listed = {name: _model(name) for name in gateway.names.all}

    @app.post("/v1/chat/completions", summary="Answer a question about images", response_class=Response)
    async def chat(request: Request) -> Response:
        return ChatResponse(gateway)

    @app.get("/v1/models", summary="The names that may be asked for")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": list(listed.values())}

    @app.get("/v1/models/{name:path}", summary="One of them")
    async def model(name: str) -> dict[str, Any]:
        if name not in listed:
            raise unknown_model(name, listed)
        return listed[name]


def _add_health(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/health", summary="The process lives")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready", summary="The models' servers answer; 503 where the agent's does not")
    async def ready() -> Response:
        status, body = report(await gateway.readiness.check())
        return _json(status, body)

    @app.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def metrics() -> Response:
        return Response(gateway.observer.metrics.text(), headers={"content-type": CONTENT_TYPE})


def _add_audit(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/v1/audit", summary="How far drafts are trusted, and how the standing audit stands")
    async def audit() -> Response:
        return _json(200, gateway.trust.report())


def _add_plan(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/v1/plan", summary="In which order the phases run and why, and how many agent loops may run")
    async def plan() -> Response:
        funnel = gateway.funnel
        return _json(200, funnel.planner.report(funnel.loops.load) | {"loops": funnel.loops.report()})


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "speceyes"}


def _describe_chat(app: FastAPI) -> None:
    """Put the request's body, which FastAPI does not read, into the description."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            description = made()
            (body,), components = msgspec.json.schema_components([ChatBody], ref_template="#/components/schemas/{name}")
            post = description["paths"]["/v1/chat/completions"]["post"]
            post["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
            description.setdefault("components", {}).setdefault("schemas", {}).update(components)
            app.openapi_schema = description
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


async def _no_such_thing(request: Request, error: Exception) -> Response:
    """A path or method that there is not."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = f"{request.method} {request.url.path}: {HTTPStatus(status).phrase.lower()}."
    return _json(status, ApiError(status, message, kind=INVALID).as_json())


async def _refused(request: Request, error: Exception) -> Response:
    return _error(from_error(error))


def _error(error: ApiError) -> Response:
    return Response(error.encoded(), error.status, error.headers, "application/json")


def _json(status: int, body: Any) -> Response:
    return Response(json.dumps(body), status, media_type="application/json")


class _Door:
    """Lets in who may come in, before anything of the request is read; and never lets an error out as it is."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app, self._access, self._metrics = app, gateway.access, gateway.observer.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            header = next((value for name, value in scope["headers"] if name == b"authorization"), None)
            need = self._access.doors.scope_of(scope["method"], scope["path"])
            scope[KEY] = self._access.keys.authorize(header and header.decode("latin-1"), need)
        except ApiError as error:
            self._metrics.turned_away(error.status)
            refusal = _error(error)
            refusal.headers[REQUEST_ID] = new_request_id()
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _version() -> str:
    from speceyes import __version__

    return __version__
