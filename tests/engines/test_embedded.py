"""llama.cpp in this process, on the nano models: what it serves, how it starts and how it stops."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from speceyes.engines import embedded, fit
from speceyes.engines.client import ChatClient
from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.nano import NANO_LIMITS, nano_files
from speceyes.errors import ConfigError, EngineError, EngineTimeout, EngineUnreachable
from speceyes.imaging.resize import QWEN2_5_VL, PixelLimits
from speceyes.types import ChatRequest

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "image_zoom_in_tool",
        "description": "Show a part of the image up close.",
        "parameters": {
            "type": "object",
            "properties": {
                "bbox_2d": {
                    "type": "array",
                    "items": {"type": "number"},
                    "description": "x1, y1, x2, y2 in pixels",
                },
                "label": {"type": "string", "description": "what is there"},
            },
            "required": ["bbox_2d"],
        },
    },
}
HANGS_S = 60
"""Seconds after which a wait has hung: no measure of speed."""
WIDE = PixelLimits(factor=32, min_pixels=32 * 32, max_pixels=320 * 320)


def picture(width: int, height: int, seed: int = 0) -> dict[str, Any]:
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    png = io.BytesIO()
    Image.fromarray(noise).save(png, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def request(*content: dict[str, Any], max_tokens: int = 1, **fields: Any) -> ChatRequest:
    return ChatRequest(({"role": "user", "content": list(content)},), max_tokens=max_tokens, **fields)


def post(server: EmbeddedServer, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = httpx.post(server.url + path, json=body, timeout=60, trust_env=False)
    assert response.status_code == 200, response.text
    reply: dict[str, Any] = response.json()
    return reply


@pytest.fixture(scope="module")
def wide_server() -> Iterator[EmbeddedServer]:
    """The nano draft with wider pixel limits than its own."""
    files = nano_files()
    with EmbeddedServer(files.draft, files.draft_mmproj, parallel=2, context=1024, limits=WIDE) as server:
        yield server


# What it serves


async def test_model_goes_by_its_alias(nano_draft_server: EmbeddedServer, wide_server: EmbeddedServer) -> None:
    async with ChatClient(nano_draft_server.url, nano_draft_server.model) as client:
        assert await client.models() == ["nano-draft"]
    async with ChatClient(wide_server.url, wide_server.model) as client:
        assert await client.models() == [nano_files().draft.stem]


@pytest.mark.parametrize("size", [(32, 32), (64, 96), (320, 320), (1024, 32), (256, 384)])
async def test_a_picture_within_the_limits_is_not_resized(wide_server: EmbeddedServer, size: tuple[int, int]) -> None:
    async with ChatClient(wide_server.url, "nano") as client:
        reference = await client.complete(request(picture(32, 32), text("What is it?")))
        shown = await client.complete(request(picture(*size), text("What is it?")))
    assert shown.usage.prompt_tokens is not None
    assert reference.usage.prompt_tokens is not None
    assert shown.usage.prompt_tokens - reference.usage.prompt_tokens == WIDE.tokens(size) - 1


@pytest.mark.parametrize("size", [(192, 192), (128, 288), (384, 96), (32, 1152)])
async def test_nano_pictures_have_36_tokens_and_two_marks(
    nano_draft_server: EmbeddedServer, nano_agent_server: EmbeddedServer, size: tuple[int, int]
) -> None:
    assert NANO_LIMITS.accepts(size)
    for server in (nano_draft_server, nano_agent_server):
        async with ChatClient(server.url, server.model) as client:
            one = await client.complete(request(picture(*size), text("What is it?")))
            two = await client.complete(request(picture(*size), picture(*size, seed=1), text("What is it?")))
        assert one.usage.prompt_tokens is not None
        assert two.usage.prompt_tokens is not None
        assert two.usage.prompt_tokens - one.usage.prompt_tokens == 36 + 2


def test_tools_reach_the_prompt_word_for_word_and_bind_nothing(nano_agent_server: EmbeddedServer) -> None:
    body = {
        "messages": [{"role": "user", "content": "Is there a star?"}],
        "tools": [TOOL],
        "max_tokens": 1,
        "verbose": True,
    }
    for choice in ({}, {"tool_choice": "none"}, {"tool_choice": "auto"}):
        inside = post(nano_agent_server, "/v1/chat/completions", body | choice)["__verbose"]
        assert f"\n{json.dumps(TOOL)}\n" in inside["prompt"]
        assert inside["generation_settings"]["grammar"] == ""


def test_replies_are_raw_text(nano_agent_server: EmbeddedServer) -> None:
    tags = ["<think>", "</think>", "<tool_call>"]
    tokens = post(nano_agent_server, "/tokenize", {"content": "".join(tags)})["tokens"]
    body = {
        "messages": [{"role": "user", "content": "Is there a star?"}],
        "tools": [TOOL],
        "temperature": 0,
        # One step at a time: the bias leaves no other choice, and the prompt ends with what came before.
        "max_tokens": 4,
        "logit_bias": [[tokens[-1], 1000]],
    }
    message = post(nano_agent_server, "/v1/chat/completions", body)["choices"][0]["message"]
    assert message["content"] == "<tool_call>" * 4
    assert "tool_calls" not in message

    body["logit_bias"] = [[tokens[0], 1000]]
    message = post(nano_agent_server, "/v1/chat/completions", body)["choices"][0]["message"]
    assert message["content"] == "<think>" * 4
    assert "reasoning_content" not in message


async def test_logprobs_of_one_token_reply(nano_draft_server: EmbeddedServer) -> None:
    async with ChatClient(nano_draft_server.url, "nano-draft") as client:
        completion = await client.complete(request(picture(192, 192), text("What is it?"), top_logprobs=64))
    (token,) = completion.tokens
    assert len(token.top_logprobs) == 64
    assert token.logprob == token.top_logprobs[0]
    assert 0.0 < np.exp(token.top_logprobs).sum() <= 1.0 + 1e-4


async def test_same_image_is_reused_in_its_slot_for_another_question(
    nano_draft_server: EmbeddedServer,
) -> None:
    async with ChatClient(nano_draft_server.url, "nano-draft") as client:
        for slot in range(2):
            shown = picture(192, 192, seed=100 + slot)
            first = await client.complete(
                request(shown, text("Is there a star?"), extra={"id_slot": slot, "cache_prompt": False})
            )
            second = await client.complete(request(shown, text("What digit is it?"), extra={"id_slot": slot}))
            assert first.usage.cached_tokens == 0
            assert second.usage.cached_tokens is not None
            assert second.usage.cached_tokens >= 36


async def test_more_requests_than_slots_and_two_servers_at_once(
    nano_draft_server: EmbeddedServer, nano_agent_server: EmbeddedServer
) -> None:
    ask = request(text("Is there a star?"), top_logprobs=2)
    async with (
        ChatClient(nano_draft_server.url, "nano-draft") as draft,
        ChatClient(nano_agent_server.url, "nano-agent") as agent,
    ):
        completions = await asyncio.gather(*(client.complete(ask) for client in (draft, agent) * 64))
    assert all(len(completion.tokens) == 1 for completion in completions)


async def test_hanging_up_frees_the_slot(wide_server: EmbeddedServer) -> None:
    def busy() -> int:
        slots = httpx.get(wide_server.url + "/slots", trust_env=False).json()
        return sum(slot["is_processing"] for slot in slots)

    async with ChatClient(wide_server.url, "nano") as client:
        endless = request(text("Go on."), max_tokens=900, top_logprobs=64, extra={"ignore_eos": True})
        calls = [asyncio.create_task(client.complete(endless)) for _ in range(6)]  # four of them wait
        while await asyncio.to_thread(busy) < 2:
            assert not any(call.done() for call in calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        async with asyncio.timeout(HANGS_S):
            while await asyncio.to_thread(busy):
                pass


# How it starts


def test_any_thread_may_start_use_and_close_one() -> None:
    files = nano_files()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        server = one.submit(EmbeddedServer, files.draft, None, parallel=1, context=256).result(60)
        reply = other.submit(
            post, server, "/v1/completions", {"prompt": "a", "max_tokens": 1, "temperature": 0}
        ).result(60)
        assert reply["usage"]["completion_tokens"] == 1
        other.submit(server.close).result(60)
    assert server.closed
    assert repr(server) == f"EmbeddedServer({files.draft.stem!r}, closed)"


def start(**changes: Any) -> None:
    files = nano_files()
    arguments: dict[str, Any] = {"model": files.draft, "mmproj": files.draft_mmproj, "context": 256}
    EmbeddedServer(**(arguments | changes)).close()


def test_files_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    files = nano_files()
    with pytest.raises(ConfigError, match=r"cannot read the model file .*none\.gguf: No such file"):
        start(model=tmp_path / "none.gguf")
    with pytest.raises(ConfigError, match=r"cannot read the model file .*none\.gguf: No such file"):
        start(mmproj=tmp_path / "none.gguf")
    with pytest.raises(ConfigError, match=r"is an image projector .*are the files swapped"):
        start(model=files.draft_mmproj)
    with pytest.raises(ConfigError, match=r"is not an image projector .*are the files swapped"):
        start(mmproj=files.draft)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(files.draft.read_bytes()[:-1000])
    with pytest.raises(ConfigError, match=r"cut\.gguf is cut off"):
        start(model=cut)


def test_projector_of_another_model(tmp_path: Path) -> None:
    files = nano_files()
    other = tmp_path / "other.gguf"
    key = b"clip.vision.projection_dim"
    content = files.draft_mmproj.read_bytes()
    place = content.index(key) + len(key) + 4
    other.write_bytes(content[:place] + (999).to_bytes(4, "little") + content[place + 4 :])
    with pytest.raises(ConfigError, match=r"width 999.*they belong to different models"):
        start(mmproj=other)


def test_limits_of_another_family() -> None:
    with pytest.raises(ConfigError, match=r"cells of 32 pixels.*factor 28"):
        start(limits=QWEN2_5_VL)


def test_context_beyond_the_model_or_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"context is 1000000.*was made for"):
        start(context=1_000_000)
    monkeypatch.setattr(fit, "_available_memory", lambda: 1_000_000)
    with pytest.raises(ConfigError, match=r"4 slots of 4096 tokens need 0\.\d GiB .*lower parallel"):
        start(context=4096)
    with pytest.raises(ConfigError, match="parallel is 0"):
        start(parallel=0)


def test_llama_cpp_gives_its_reason(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    content = nano_files().draft.read_bytes()
    name = b"blk.0.ffn_down.weight"
    assert name in content
    broken.write_bytes(content.replace(name, b"blk.0.ffn_dawn.weight"))
    with pytest.raises(EngineError, match=r"could not start: .*'blk\.0\.ffn_down\.weight' not found"):
        start(model=broken)


@pytest.mark.parametrize("status", [None, 503])
def test_a_server_that_is_never_ready(status: int | None) -> None:
    def refuse() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 503 Loading\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        if status:
            threading.Thread(target=refuse, daemon=True).start()
        said = "HTTP 503" if status else "timed out"
        with pytest.raises(EngineTimeout, match=rf"not ready within 0\.2 s; it said {said}"):
            embedded._wait_until_ready(url, 0.2)
        listening.shutdown(socket.SHUT_RDWR)


def test_silent_and_alive_until_the_process_ends() -> None:
    """Nothing on standard error, refused requests included, and a clean end without a call of `close`."""
    script = """
import sys
from pathlib import Path
import httpx
from speceyes.engines.embedded import EmbeddedServer
server = EmbeddedServer(*map(Path, sys.argv[1:]), parallel=1, context=256)
url = server.url + "/v1/chat/completions"
long = {"messages": [{"role": "user", "content": "word " * 2000}]}
print(httpx.post(url, json=long, trust_env=False).status_code)
picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
bad = {"messages": [{"role": "user", "content": [picture]}]}
print(httpx.post(url, json=bad, trust_env=False).status_code)
"""
    command = [sys.executable, "-c", script, str(nano_files().draft), str(nano_files().draft_mmproj)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["400", "400"], "")


# How it stops


@pytest.mark.parametrize("stream", [True, False])
def test_closing_ends_calls_in_flight(stream: bool) -> None:
    """Without hanging up first, llama.cpp would wait for ever for the call that does not stream."""
    files = nano_files()
    server = EmbeddedServer(files.draft, None, parallel=1, context=2048)
    body = {
        "messages": [{"role": "user", "content": "Go on."}],
        "max_tokens": 2000,
        "ignore_eos": True,
        "stream": stream,
        "logprobs": True,
        "top_logprobs": 64,
    }

    def call() -> str:
        try:
            return httpx.post(server.url + "/v1/chat/completions", json=body, timeout=60, trust_env=False).text
        except httpx.HTTPError as error:
            return type(error).__name__

    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(call) for _ in range(2)]  # the second one waits for a slot
        while not httpx.get(server.url + "/slots", trust_env=False).json()[0]["is_processing"]:
            assert not calls[0].done()
        server.close()
        assert not any('"finish_reason":"length"' in future.result(HANGS_S) for future in calls)
    server.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url + "/health", trust_env=False)


async def test_client_of_a_closed_server_is_told() -> None:
    files = nano_files()
    with EmbeddedServer(files.draft, None, parallel=1, context=256) as server:
        pass
    async with ChatClient(server.url, server.model, retries=0) as client:
        with pytest.raises(EngineUnreachable):
            await client.complete(request(text("Hello?")))


def test_closing_at_once_after_starting() -> None:
    """llama.cpp's main loop must run before the server may go: else it never ends, one time in a hundred."""
    for _ in range(30):
        start(parallel=1, context=256, mmproj=None)


def test_files_are_left_as_they_were(tmp_path: Path) -> None:
    """The server holds no lock on its files, and writes nothing beside them."""
    model = tmp_path / "model.gguf"
    shutil.copy(nano_files().draft, model)
    before = model.read_bytes()
    EmbeddedServer(model, None, parallel=1, context=256).close()
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]
    assert model.read_bytes() == before
