"""What a call sends, and where: the request's body and the address of the API."""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from speceyes.errors import ConfigError, InputError
from speceyes.types import ChatRequest


def request_content(request: ChatRequest, model: str) -> bytes:
    """The request's body as JSON.

    Raises:
        InputError: It holds what JSON has not.
    """
    body = request_body(request, model)
    try:
        _check_numbers(body)
        try:
            return msgspec.json.encode(body)
        except UnicodeEncodeError:  # half of a surrogate pair: only an escape can carry it
            return json.dumps(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the request cannot be written as JSON: {error}") from error


def _check_numbers(value: object) -> None:
    # msgspec would write null for them, and a request for another temperature than the caller's would go out
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number in JSON")
    if isinstance(value, Mapping):
        for part in value.values():
            _check_numbers(part)
    elif isinstance(value, list | tuple):
        for part in value:
            _check_numbers(part)


def request_body(request: ChatRequest, model: str) -> dict[str, Any]:
    """The request as it goes over the wire.

    One log-prob more than K is asked for: vLLM puts the sampled token first and then cuts the list, which
    loses the K-th entry wherever the sampled token is not among the K best.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": list(request.messages),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
    }
    if request.seed is not None:
        body["seed"] = request.seed
    if request.stop:
        body["stop"] = list(request.stop)
    if request.tools:
        body["tools"] = list(request.tools)
    if request.top_logprobs:
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs + 1}
    if streams(request):
        return body | dict(request.extra) | {"stream": True, "stream_options": {"include_usage": True}}
    return body | dict(request.extra) | {"stream": False}


def streams(request: ChatRequest) -> bool:
    """Whether to ask for a stream: always, but for one token with tools and log-probs, as in screening.

    llama.cpp refuses the three together, and one token is over before a cancel could save anything.
    """
    return not (request.tools and request.top_logprobs and request.max_tokens == 1)


def api_base(url: str) -> str:
    """The base of the API for a server's URL: with `/v1` unless the path names a version already.

    Raises:
        ConfigError: It is not an http or https URL.
    """
    try:
        parsed = httpx.URL(url.strip())
    except (httpx.InvalidURL, TypeError) as error:
        raise ConfigError(f"not a URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        shown = "" if "@" in url else f", not like {url.strip()[:80]!r}"
        raise ConfigError(f"a model server's URL begins with http:// or https:// and a host{shown}")
    path = parsed.path.rstrip("/").removesuffix("/chat/completions")
    if not re.search(r"/v\d+\w*(/|$)", path):
        path += "/v1"
    return str(parsed.copy_with(path=path, query=None, fragment=None))


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
