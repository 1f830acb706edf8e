"""A gateway on a real socket in front of scripted model servers, and what its tests send and read."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import uvicorn
from PIL import Image

from speceyes.config import load_settings
from speceyes.engines.scripted import Outcome, Reply, Script, ScriptedServer, token_reply
from speceyes.gateway import server
from speceyes.gateway.app import create_app
from speceyes.gateway.serving import Gateway, open_gateway

SURE = [-0.01, -6.0, -6.5, -7.0, -7.5, -6.2, -6.8, -7.2]
UNSURE = [-0.7, -0.8, -6.5, -7.0, -7.5, -6.2, -6.8, -7.2]
QUESTION = "What digit is on the red sign?"
ZOOM_CALL = '{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [56, 56, 112, 112], "label": "sign"}}'
ZOOM = f"<tool_call>{ZOOM_CALL}</tool_call>"


def draft_says(text: str = "7", top: list[float] = SURE) -> Script:
    return lambda request, turn: Reply(tokens=[token_reply(text, top)])


def agent_says(*turns: Outcome | str, needs_tool: bool = False) -> Script:
    """Screens, and then says one thing a turn: what it says first, what after its first tool call, ..."""
    yes, no = (-0.02, -4.0) if needs_tool else (-4.0, -0.02)
    said = turns or (f"<think>It is small.</think>{ZOOM}", "<think>Now I see.</think><answer>8</answer>")

    def answer(request: dict[str, Any], turn: int) -> Outcome:
        if request.get("max_tokens") == 1:
            return Reply(tokens=[token_reply("no", [("no", no), ("yes", yes)])])
        outcome = said[sum(message["role"] == "assistant" for message in request["messages"])]
        return Reply(outcome) if isinstance(outcome, str) else outcome

    return answer


@dataclass
class Running:
    """A gateway that answers, the servers behind it, and clients for it."""

    url: str
    gateway: Gateway
    draft: ScriptedServer
    agent: ScriptedServer
    http: httpx.AsyncClient

    @property
    def openai(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0, http_client=self.http)

    async def post(self, body: Any, **more: Any) -> httpx.Response:
        return await self.http.post(f"{self.url}/chat/completions", json=body, **more)

    async def ask(self, **fields: Any) -> httpx.Response:
        """The question about the picture, with these fields."""
        return await self.post(asked(**fields))


@asynccontextmanager
async def running(
    draft: Script | None = None, agent: Script | None = None, settings: Mapping[str, Any] | None = None
) -> AsyncIterator[Running]:
    """Serve until the block ends. Without scripts the draft is sure of "7", and the agent zooms and says "8"."""
    async with (
        ScriptedServer(draft or draft_says(), models=["small"]) as small,
        ScriptedServer(agent or agent_says(), models=["large"]) as large,
    ):
        overrides = {
            "draft.url": small.url,
            "agent.url": large.url,
            "draft.retries": 0,
            "agent.retries": 0,
            "gate.threshold": 6.0,
            "gate.k": 8,
            "store.enabled": False,
            "observe.log": False,
            "serve.port": 0,
            "serve.check_upstreams": False,
        }
        chosen = load_settings(env={}, overrides=overrides | dict(settings or {}))
        async with open_gateway(chosen) as gateway, httpx.AsyncClient(timeout=60) as http:
            with server.listen_on(chosen.serve) as listener:
                serving = uvicorn.Server(server.uvicorn_config(create_app(gateway), chosen.serve))
                task = asyncio.create_task(serving.serve([listener]))
                try:
                    yield Running(server.base_url(listener), gateway, small, large, http)
                finally:
                    await http.aclose()
                    serving.should_exit = True
                    await task


def picture(color: str = "grey", size: tuple[int, int] = (600, 400), form: str = "PNG") -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, color).save(data, form)
    return data.getvalue()


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def image_part(data: bytes | None = None) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(picture() if data is None else data)}}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def asked(**fields: Any) -> dict[str, Any]:
    return {"model": "speceyes", "messages": [user(image_part(), text_part(QUESTION))], **fields}


def events(text: str) -> list[Any]:
    """The events of a stream: parsed JSON, `[DONE]` and comments as they are."""
    found: list[Any] = []
    for block in text.split("\n\n"):
        if block.startswith("data: {"):
            found.append(json.loads(block.removeprefix("data: ")))
        elif block:
            found.append(block.removeprefix("data: "))
    return found


def sent_images(server: ScriptedServer, call: int = 0) -> list[bytes]:
    """The pictures that a model's server got in a call, in order."""
    messages = server.completions[call].json["messages"]
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(url.partition(",")[2]) for url in urls]


def picture_width(url: str) -> int:
    """Of the picture in a data URL."""
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).width


def sent_text(server: ScriptedServer, call: int = 0) -> str:
    """All text that a model's server got in a call."""
    parts: list[str] = []
    for message in server.completions[call].json["messages"]:
        content = message["content"]
        parts += [content] if isinstance(content, str) else [part["text"] for part in content if "text" in part]
    return "\n".join(parts)
