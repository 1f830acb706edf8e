"""What a call sends, and where: the request's body and the address of the API."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

import httpx

from speceyes.errors import ConfigError
from speceyes.types import ChatRequest


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
