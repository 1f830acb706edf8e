"""A model server that answers at once: what is left of a request's time is the proxy's own.

    python benchmarks/stub_upstream.py PORT [--delay SECONDS]

It speaks as much of the chat completions API as the gateway asks for: the screening's one token ("no"), the draft's
answer with 64 log-probs a token, the agent's tagged answer; whole or streamed. Replies are made once, and requests are
searched for a few words rather than parsed, so that the stub's own cost stays small.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

import uvicorn

K = 64
ANSWER = ("7", ".")
AGENT = "<think>It is plain to see.</think><answer>7</answer>"
MODEL = "stub"
PROMPT_TOKENS = 1200


def rivals(first: str, logprob: float, count: int) -> list[dict[str, Any]]:
    """A token that stands well apart from its `count` - 1 rivals."""
    entries = [{"token": first, "logprob": logprob, "bytes": list(first.encode())}]
    for i in range(count - 1):
        word = f"w{i}"
        entries.append({"token": word, "logprob": -9.0 - 0.05 * i - (i % 7) * 0.31, "bytes": list(word.encode())})
    return entries


def token(text: str, count: int) -> dict[str, Any]:
    return {**rivals(text, -0.0005, 1)[0], "top_logprobs": rivals(text, -0.0005, count)}


def screening(count: int) -> dict[str, Any]:
    entry = token("no", count)
    entry["top_logprobs"][1] |= {"token": "yes", "bytes": list(b"yes"), "logprob": -7.6}
    return entry


def chunks(parts: list[tuple[str, dict[str, Any] | None]]) -> bytes:
    """The reply as a stream of events."""
    head = {"id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    bodies: list[dict[str, Any]] = []
    for i, (text, entry) in enumerate(parts):
        delta = {"role": "assistant", "content": text} if i == 0 else {"content": text}
        logprobs = {"content": [entry]} if entry else None
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": None}
        bodies.append({**head, "choices": [choice]})
    bodies.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    bodies.append({**head, "choices": [], "usage": usage(len(parts))})
    return b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies) + b"data: [DONE]\n\n"


def whole(parts: list[tuple[str, dict[str, Any] | None]]) -> bytes:
    """The reply as one object."""
    entries = [entry for _, entry in parts if entry]
    message = {"role": "assistant", "content": "".join(text for text, _ in parts)}
    logprobs = {"content": entries} if entries else None
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "stop"}
    head = {"id": "chatcmpl-stub", "object": "chat.completion", "created": 1, "model": MODEL}
    return json.dumps({**head, "choices": [choice], "usage": usage(len(parts))}).encode()


def usage(completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": completion,
        "total_tokens": PROMPT_TOKENS + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


_DRAFT: list[tuple[str, dict[str, Any] | None]] = [(text, token(text, K)) for text in ANSWER]
_AGENT: list[tuple[str, dict[str, Any] | None]] = [(AGENT[i : i + 6], None) for i in range(0, len(AGENT), 6)]
_SCREEN: list[tuple[str, dict[str, Any] | None]] = [("no", screening(20))]
REPLIES = {
    (kind, streamed): (chunks if streamed else whole)(parts)
    for kind, parts in (("draft", _DRAFT), ("agent", _AGENT), ("screen", _SCREEN))
    for streamed in (True, False)
}
MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "stub"}]}).encode()


def kind_of(body: bytes) -> str:
    """What is asked for. The fields stand before or behind the long messages, so both ends are searched."""
    ends = (body[:600] + body[-6000:]).replace(b" ", b"")
    if b'"max_tokens":1,' in ends or b'"max_tokens":1}' in ends:
        return "screen"
    return "draft" if b'"top_logprobs"' in ends or b'"logprobs":true' in ends else "agent"


class Stub:
    """The ASGI application."""

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
            return
        body = await whole_body(receive)
        if scope["method"] == "GET":
            await reply(send, MODELS, b"application/json")
            return
        if self.delay:
            await asyncio.sleep(self.delay)
        streamed = b'"stream":true' in (body[:600] + body[-6000:]).replace(b" ", b"")
        content_type = b"text/event-stream" if streamed else b"application/json"
        await reply(send, REPLIES[kind_of(body), streamed], content_type)


async def whole_body(receive: Any) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def reply(send: Any, body: bytes, content_type: bytes) -> None:
    headers = [(b"content-type", content_type), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each reply")
    options = parser.parse_args()
    uvicorn.run(Stub(options.delay), host="127.0.0.1", port=options.port, log_level="warning", http="httptools")


if __name__ == "__main__":
    main()
