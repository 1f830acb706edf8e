"""What `soak.py` sends, and the upstream that it sends it to."""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from stub_upstream import Stub, chunks, kind_of, reply, whole_body

SEED = 8040
CLOSER = "What digit is shown? Look closer."
CALL = '{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [64, 64, 320, 320], "label": "sign"}}'
ZOOM = chunks([(piece, None) for piece in ("<think>It is small.</think>", "<tool_call>", CALL, "</tool_call>")])


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of request: how often it comes, what it sends, and what it may get.

    Attributes:
        share: Of all requests.
        fields: Beside the messages; None for a body that is no JSON.
        image: Whether a picture is in it.
        expected: Statuses. An upstream fault shows as one of 502 and 503 where the agent was needed; clients with a
            loop of their own get the server's own status.
        leaves: Whether the client hangs up.
    """

    share: float
    fields: Mapping[str, Any] | None
    image: bool = True
    expected: tuple[int, ...] = (200,)
    leaves: bool = False


TOOL = {"type": "function", "function": {"name": "zoom", "parameters": {"type": "object", "properties": {}}}}
FAULTY = (200, 502, 503)
KINDS: dict[str, Kind] = {
    "funnel, whole": Kind(0.20, {"model": "speceyes"}, expected=FAULTY),
    "funnel, streamed": Kind(0.25, {"model": "speceyes", "stream": True}, expected=FAULTY),
    "agent, whole": Kind(0.08, {"model": "speceyes/agent"}, expected=FAULTY),
    "agent, streamed": Kind(0.08, {"model": "speceyes/agent", "stream": True}, expected=FAULTY),
    "agent, zooming": Kind(0.05, {"model": "speceyes/agent", "stream": True}, expected=FAULTY),
    "draft": Kind(0.05, {"model": "speceyes/draft"}, expected=FAULTY),
    "client's tools": Kind(0.05, {"model": "speceyes", "tools": [TOOL], "stream": True}, expected=(*FAULTY, 500)),
    "without an image": Kind(0.05, {"model": "speceyes", "stream": True}, image=False, expected=FAULTY),
    "unknown model": Kind(0.02, {"model": "nope"}, expected=(404,)),
    "unknown field": Kind(0.02, {"model": "speceyes", "foo": 1}, expected=(400,)),
    "no JSON": Kind(0.02, None, expected=(400,)),
    "damaged image": Kind(0.03, {"model": "speceyes"}, expected=(400,)),
    "hangs up, whole": Kind(0.05, {"model": "speceyes/agent"}, leaves=True),
    "hangs up, streamed": Kind(0.05, {"model": "speceyes", "stream": True}, leaves=True),
}


class Stumbling(Stub):
    """The stub, which now and then fails: every 50th reply is an error, every 70th breaks off. Asked to, it zooms."""

    def __init__(self, delay: float) -> None:
        super().__init__(delay)
        self._served = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await super().__call__(scope, receive, send)
            return
        body = await whole_body(receive)
        self._served += 1
        if self._served % 50 == 0:
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body", "body": b"stumbled"})
        elif CLOSER.encode() in body and kind_of(body) == "agent" and b'"assistant"' not in body:
            await reply(send, ZOOM, b"text/event-stream")
        else:
            await super().__call__(scope, _again(body), _broken(send) if self._served % 70 == 0 else send)


def _again(body: bytes) -> Any:
    """The body once more, for who comes next."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _broken(send: Any) -> Any:
    async def half(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": message["body"][: len(message["body"]) // 2], "more_body": True}
        await send(message)

    return half


def bodies() -> dict[str, list[bytes]]:
    """A few bodies of each kind, made once."""
    rng = np.random.default_rng(SEED)
    urls = []
    for _ in range(4):
        coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        out = io.BytesIO()
        Image.fromarray(coarse).resize((640, 480), Image.Resampling.BICUBIC).save(out, "JPEG", quality=85)
        urls.append("data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode())
    return {name: [_body(name, kind, url) for url in urls] for name, kind in KINDS.items()}


def _body(name: str, kind: Kind, url: str) -> bytes:
    if kind.fields is None:
        return b'{"model": "speceyes", "messages": ['
    if name == "damaged image":
        url = url[: len(url) // 2 // 4 * 4]
    image = [{"type": "image_url", "image_url": {"url": url}}] if kind.image else []
    question = CLOSER if name == "agent, zooming" else "What digit is shown?"
    content = [*image, {"type": "text", "text": question}]
    return json.dumps({**kind.fields, "messages": [{"role": "user", "content": content}]}).encode()


def schedule(count: int) -> list[str]:
    """Which kind comes when: the shares to the letter, in random order."""
    names = [name for name, kind in KINDS.items() for _ in range(max(1, round(kind.share * count)))]
    random.Random(SEED).shuffle(names)
    return (names + ["funnel, whole"] * count)[:count]
