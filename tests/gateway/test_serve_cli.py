"""`speceyes serve` as a process: how it starts, what it refuses to start with, and how it ends."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_server import agent_says, draft_says
from serve_process import Process, refused, started

from speceyes.engines.scripted import Reply, Script, ScriptedServer


def test_the_first_line_is_the_base_url(nano: Process) -> None:
    assert nano.url.startswith("http://127.0.0.1:")
    assert nano.url.endswith("/v1")
    assert httpx.get(nano.url.removesuffix("/v1") + "/ready", timeout=60).json()["status"] == "ready"


# Starting and ending


def test_what_runs_is_finished_when_the_end_is_wanted(tmp_path: Path, serve_script: ServeScript) -> None:
    """SIGTERM: no new connection, the request under way is answered, exit code 0."""
    go = threading.Event()

    async def pace() -> None:
        import asyncio

        await asyncio.to_thread(go.wait, 60)

    agent = serve_script(agent_says(Reply("<answer>8</answer>", pace=pace)), "large")
    draft = serve_script(draft_says(), "small")
    process = started(tmp_path, *before(draft, agent))
    with ThreadPoolExecutor() as pool:
        running = pool.submit(ask, process.url)
        wait_for(lambda: len(agent.completions) == 1)
        process.popen.send_signal(signal.SIGTERM)
        wait_for(lambda: not accepts(process.url))
        go.set()
        assert running.result(60).json()["choices"][0]["message"]["content"] == "8"
    code, _, err = process.ended()
    assert code == 0, err


def test_who_is_still_waiting_when_the_patience_is_over_is_told(tmp_path: Path, serve_script: ServeScript) -> None:
    from speceyes.engines.scripted import Hang

    agent = serve_script(agent_says(Hang()), "large")
    draft = serve_script(draft_says(), "small")
    process = started(tmp_path, *before(draft, agent), "--set", "serve.drain_s=1")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(ask, process.url)
        wait_for(lambda: len(agent.completions) == 1)
        process.popen.send_signal(signal.SIGTERM)
        reply = running.result(60)
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "shutting_down")
    code, _, err = process.ended()
    assert code == 0, err
    assert "Traceback" not in err


def test_an_interrupt_ends_it_in_order_too(tmp_path: Path, serve_script: ServeScript) -> None:
    process = started(tmp_path, *before(serve_script(draft_says(), "small"), serve_script(agent_says(), "large")))
    code, out, err = process.stop(signal.SIGINT)
    assert (code, out) == (0, ""), err


def test_an_address_beyond_this_machine_needs_a_key_or_a_word(tmp_path: Path) -> None:
    said = refused(tmp_path, "--host", "0.0.0.0", "--port", "0")
    assert "--allow-unauthenticated" in said
    assert "--api-key-file" in said


def test_with_that_word_it_is_served(tmp_path: Path, serve_script: ServeScript) -> None:
    servers = before(serve_script(draft_says(), "small"), serve_script(agent_says(), "large"))
    process = started(tmp_path, "--host", "0.0.0.0", "--allow-unauthenticated", *servers)
    try:
        assert process.url.startswith("http://127.0.0.1:"), "an address that a client can use"
        assert ask(process.url, "speceyes").status_code == 200
    finally:
        process.stop()


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}" in refused(tmp_path, "--port", str(port))


@pytest.mark.parametrize("above", ["refuse", "clip"])
def test_a_draft_with_too_few_log_probs_ends_the_start(tmp_path: Path, serve_script: ServeScript, above: str) -> None:
    """CASES: K above the server's limit is a fault of the set-up, named with the limit and the way out."""
    draft = serve_script(draft_says(), "small", max_top_logprobs=5, above_limit=above)
    agent = serve_script(agent_says(), "large")
    flags = [flag for flag in before(draft, agent) if flag != "serve.check_upstreams=false"]
    said = refused(tmp_path, "--port", "0", *[flag for flag in flags if flag != "--set"])
    assert "the draft's server gives" in said
    assert "--max-logprobs 9" in said
    assert "the gate scores 8" in said


def test_what_else_is_missing_is_a_warning(tmp_path: Path, serve_script: ServeScript) -> None:
    from speceyes.engines.scripted import Logprobs

    draft = serve_script(Reply("7", logprobs=Logprobs.NULL), "small")
    agent = serve_script(lambda request, turn: Reply("yes"), "large")
    flags = [flag for flag in before(draft, agent) if flag not in ("--set", "serve.check_upstreams=false")]
    process = started(tmp_path, *flags)
    told_by = ask(process.url, "speceyes").json()["speceyes"]
    code, _, err = process.stop()
    assert code == 0
    assert "warning: draft (small): The server sends no log-probs (HTTP 200, but `logprobs` is null)" in err
    assert told_by["reason"] in ("screen_unreadable", "logprobs_missing", "tool_would_help")


def test_a_server_that_is_not_there_yet_is_a_warning(tmp_path: Path, serve_script: ServeScript) -> None:
    agent = serve_script(agent_says(), "large")
    gone = ["--draft", "http://127.0.0.1:9", "--draft-model", "small", "--agent", agent.url, "--threshold", "6"]
    process = started(tmp_path, *gone, "--set", "draft.retries=0")
    code, _, err = process.stop()
    assert code == 0
    assert "warning: draft (small): The model does not answer" in err


ServeScript = Callable[..., ScriptedServer]


@pytest.fixture
def serve_script() -> Iterator[ServeScript]:
    """Scripted servers on an event loop in a thread, beside the process under test."""
    import asyncio

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers: list[ScriptedServer] = []

    def serve(script: Script, model: str, **more: Any) -> ScriptedServer:
        server = ScriptedServer(script, models=[model], **more)
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
        servers.append(server)
        return server

    yield serve
    for server in servers:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def before(draft: ScriptedServer, agent: ScriptedServer) -> list[str]:
    """Flags that put the gateway before two servers, with no questions asked at the start."""
    gate = ["--threshold", "6", "--k", "8", "--set", "serve.check_upstreams=false"]
    return ["--draft", draft.url, "--draft-model", "small", "--agent", agent.url, "--agent-model", "large", *gate]


def ask(url: str, model: str = "speceyes/agent") -> httpx.Response:
    from gateway_server import asked

    return httpx.post(f"{url}/chat/completions", json=asked(model=model), timeout=120)


def accepts(url: str) -> bool:
    address = httpx.URL(url)
    try:
        socket.create_connection((address.host, address.port or 80), timeout=5).close()
    except OSError:
        return False
    return True


def wait_for(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not come to hold"
        time.sleep(0.02)
