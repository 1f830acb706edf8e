"""What the tests of the command line share: a runner, and scripted servers that run beside it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Run, Serve, WaitUntil
from PIL import Image
from typer.testing import CliRunner, Result

from speceyes.cli import app
from speceyes.engines.scripted import Outcome, Reply, Script, ScriptedServer, token_reply

SURE = [-0.01, -6.0, -6.5, -7.0, -7.5, -6.2, -6.8, -7.2]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the person who runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for name in [name for name in os.environ if name.startswith("SPECEYES_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def run() -> Run:
    """Run a command: `run("ask", "a.png", "What?")`."""

    def invoke(*words: object, stdin: bytes | None = None) -> Result:
        result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def background() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a thread, beside those that commands bring."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture
def serve(background: asyncio.AbstractEventLoop) -> Iterator[Serve]:
    """Start scripted servers."""
    started: list[ScriptedServer] = []

    def start(script: Script, models: Sequence[str] = ("scripted",), **more: Any) -> ScriptedServer:
        server = ScriptedServer(script, models=models, **more)
        asyncio.run_coroutine_threadsafe(server.__aenter__(), background).result(10)
        started.append(server)
        return server

    yield start
    for server in started:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), background).result(10)


@pytest.fixture
def wait_until(background: asyncio.AbstractEventLoop) -> WaitUntil:
    """Wait until a condition on a server's ledger holds."""

    def wait(server: ScriptedServer, condition: Callable[[], bool]) -> None:
        asyncio.run_coroutine_threadsafe(server.wait_until(condition, 20), background).result(25)

    return wait


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "street.png"
    Image.new("RGB", (600, 400), "grey").save(path)
    return path


@pytest.fixture
def draft(serve: Serve) -> ScriptedServer:
    """Answers 7, and is sure."""

    def answer(request: dict[str, Any], turn: int) -> Outcome:
        return Reply(tokens=[token_reply("7", SURE)])

    return serve(answer, models=["small"])


@pytest.fixture
def agent(serve: Serve) -> ScriptedServer:
    """Sees no need for a tool; when it is asked all the same, it zooms once and answers 8."""

    def answer(request: dict[str, Any], turn: int) -> Outcome:
        if request["max_tokens"] == 1:
            return Reply(tokens=[token_reply("no", [("no", -0.02), ("yes", -4.0)])])
        if any(message["role"] == "assistant" for message in request["messages"]):
            return Reply("<think>Now I see it.</think>\n<answer>8</answer>")
        call = '{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [56, 56, 112, 112], "label": "the sign"}}'
        return Reply(f"<think>It is small.</think>\n<tool_call>\n{call}\n</tool_call>")

    return serve(answer, models=["large"])
