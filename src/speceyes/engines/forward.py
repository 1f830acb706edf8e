"""A request passed to a model's server as it came, and the server's reply as it comes.

`ChatClient.complete` asks in our own words; this is for requests whose words are somebody else's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import httpx

from speceyes.engines import failures
from speceyes.engines.client import ChatClient
from speceyes.errors import EngineError


@asynccontextmanager
async def forward(client: ChatClient, content: bytes) -> AsyncIterator[httpx.Response]:
    """Post a chat request. There is no second attempt: the words are not ours, and so is the choice.

    Leaving the block closes the connection of a reply that was not read to its end, which makes the server stop.

    Args:
        client: Of the model's server; its connections and its key are used.
        content: The request's JSON.

    Yields:
        The response, with status 200; its body has not been read.

    Raises:
        EngineError: The server cannot be reached, breaks off while the body is read, or refuses; then the error has
            the reply's `body`.
    """
    where = client._where()
    visit = nullcontext() if client._leases is None else client._leases.visited()
    address = f"{client.url}/chat/completions"
    try:
        with visit:
            async with client._connections().stream(
                "POST", address, content=content, headers=client._headers()
            ) as response:
                if response.status_code != 200:
                    body = await response.aread()
                    error = failures.from_response(where, response.status_code, response.headers, body)
                    error.body = body.replace(client._api_key.encode(), b"***") if client._api_key else body
                    raise error
                yield response
    except httpx.HTTPError as error:
        raise failures.from_transport(where, error) from error
    except EngineError as error:  # also one that the reply's reader has found in it
        client._scrub(error)
        raise
