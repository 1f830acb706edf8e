"""A funnel over two scripted servers on real sockets, and what these say."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import log
from typing import Any

from PIL import Image

from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.engines.client import ChatClient, Engine
from speceyes.engines.script import Outcome, Reply, token_reply
from speceyes.engines.scripted import ScriptedServer
from speceyes.funnel import Funnel
from speceyes.gating import Calibration
from speceyes.imaging.decode import DecodedImage, decode
from speceyes.imaging.resize import QWEN2_5_VL
from speceyes.phases import AgentModel, DraftModel
from speceyes.types import Query

THRESHOLD = Calibration.manual(2.0, k=64)
CALL = '<think>small</think>\n<tool_call>\n{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [10, 10, 60, 60]}}'
ANSWER = "<think>now I see</think>\n<answer>agent says"
# rivals close by and far away: the spread is as large as the lead
TORN = [token_reply("B", [("B", -0.7), ("A", -0.701), *((f"~{i}", -1.0 - 19 * (i % 2)) for i in range(62))])]

Script = Callable[[dict[str, Any], int], Outcome | Awaitable[Outcome]]


def picture(width: int = 560, height: int = 280) -> DecodedImage:
    data = io.BytesIO()
    Image.new("RGB", (width, height), (90, 120, 150)).save(data, "PNG")
    return decode(data.getvalue())


IMAGE = picture()


def is_screening(request: dict[str, Any]) -> bool:
    return request["max_tokens"] == 1


def agent_script(helps: float = 0.1, loop: tuple[Outcome, ...] = (Reply(CALL), Reply(ANSWER))) -> Script:
    """Screens with P(yes) = `helps`; in its loop it gives the outcomes in turn, by the length of the history."""

    def script(request: dict[str, Any], n: int) -> Outcome:
        if is_screening(request):
            top = sorted([("yes", log(helps)), ("no", log(1 - helps))], key=lambda pair: -pair[1])
            return Reply(tokens=[token_reply(top[0][0], top)], finish_reason="length")
        turns = sum(message["role"] == "assistant" for message in request["messages"])
        return loop[min(turns, len(loop) - 1)]

    return script


@asynccontextmanager
async def funnel_over(
    draft: Any,
    agent: Any,
    *,
    max_connections: int = 64,
    client_retries: int = 0,
    guard: Callable[[Engine], Engine] = lambda engine: engine,
    calibration: Calibration = THRESHOLD,
    max_depth: int = 0,
    **options: Any,
) -> AsyncIterator[tuple[Funnel, ScriptedServer, ScriptedServer]]:
    """A funnel, and the two servers that it asks. `guard` is put around each engine; `options` are the funnel's.

    `max_depth`: how often the draft model may look closer.
    """
    asking: dict[str, Any] = {"retries": client_retries, "timeout_s": 60, "max_connections": max_connections}
    async with ScriptedServer(draft) as small, ScriptedServer(agent) as large:
        a = ChatClient(small.url, "small", backoff_s=0.001, **asking)
        b = ChatClient(large.url, "large", backoff_s=0.001, **asking)
        async with a, b:
            models = DraftModel(guard(a), QWEN2_5_VL, max_depth=max_depth), AgentModel(guard(b), DeepEyes())
            yield Funnel(*models, calibration, **options), small, large


def query(name: str = "q", **fields: Any) -> Query:
    return Query("What is it?", (IMAGE,), id=name, **fields)
