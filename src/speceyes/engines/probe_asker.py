"""The questions that a probe's checks ask."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx

from speceyes.engines import failures
from speceyes.engines.assembly import read_json
from speceyes.engines.client import ChatClient
from speceyes.types import ChatRequest, Completion

Part = Mapping[str, Any]


class Asker:
    """Asks one server short questions, with the client that will be used in service wherever that can tell.

    Attributes:
        client: The client.
        want: The K that the gate will use.
        usable_k: How many log-probs a token the server sends, once that is known.
    """

    def __init__(self, client: ChatClient, want: int) -> None:
        self.client = client
        self.want = want
        self.usable_k: int | None = None
        self._entries: list[Mapping[str, Any]] | None = None

    async def ask(
        self,
        content: str | Sequence[Part],
        *,
        max_tokens: int = 1,
        system: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
        top_logprobs: int = 0,
        temperature: float = 0.0,
        seed: int | None = None,
        stop: Sequence[str] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> Completion:
        """One question through the client."""
        messages: list[Mapping[str, Any]] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": content})
        return await self.client.complete(
            ChatRequest(
                messages=tuple(messages),
                max_tokens=max_tokens,
                temperature=temperature,
                top_logprobs=top_logprobs,
                stop=tuple(stop),
                tools=tuple(tools),
                seed=seed,
                extra=extra or {},
            )
        )

    async def send(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Completion:
        """A whole conversation through the client, for one token of text."""
        return await self.client.complete(
            ChatRequest(tuple(messages), max_tokens=1, tools=tuple(tools), extra={"tool_choice": "none"})
        )

    async def whole(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A reply as the server writes it, not streamed: the client hides what this is to show."""
        where = f"{self.client.name} (probe)"
        content = json.dumps({"model": self.client.model, **body, "stream": False}).encode()
        http = self.client._connections()
        try:
            response = await http.post(
                f"{self.client.url}/chat/completions", content=content, headers=self.client._headers()
            )
        except httpx.HTTPError as error:
            raise failures.from_transport(where, error) from error
        if response.status_code != 200:
            raise failures.from_response(
                where,
                response.status_code,
                response.headers,
                response.content,
                asked=int(body.get("top_logprobs") or 0),
            )
        return read_json(where, response.text)

    async def page(self, path: str) -> str | None:
        """A page beside the API, such as `/metrics`; None where there is none."""
        root = self.client.url.removesuffix("/v1")
        for _ in range(2):  # a kept connection may have been closed by the server a moment ago
            with suppress(httpx.HTTPError):
                response = await self.client._connections().get(root + path, headers=self.client._headers())
                return response.text if response.status_code == 200 else None
        return None

    async def sampled_entries(self) -> list[Mapping[str, Any]]:
        """Log-prob entries of a reply at a high temperature, as they were sent; asked for once."""
        if self._entries is None:
            k = min(20, self.usable_k or 0)
            reply = await self.whole(
                {
                    "messages": [{"role": "user", "content": "Name some colours and some animals."}],
                    "max_tokens": 32,
                    "temperature": 2.0,
                    "seed": 7,
                    "logprobs": True,
                    "top_logprobs": k,
                }
            )
            content = ((reply.get("choices") or [{}])[0].get("logprobs") or {}).get("content") or []
            self._entries = [entry for entry in content if isinstance(entry, Mapping)] if k else []
        return self._entries
