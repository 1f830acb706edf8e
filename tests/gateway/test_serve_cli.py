"""`speceyes serve` as people start it: a process of its own, with the nano pair, under the clients that people use."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from gateway_server import agent_says, draft_says

from speceyes.engines.scripted import Reply, Script, ScriptedServer
from speceyes.evals.datasets.samples import Sample, make_samples

PROGRAM = [sys.executable, "-c", "from speceyes.cli import main; main()", "serve"]


@dataclass
class Process:
    """A gateway process. `url` is what it printed first."""

    popen: subprocess.Popen[str]
    url: str

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Exit code, the rest of standard output, and standard error."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        out, err = self.popen.communicate(timeout=60)
        return self.popen.returncode, out, err


def start(folder: Path, *flags: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPECEYES_")}
    return subprocess.Popen(
        [*PROGRAM, *flags],
        cwd=folder,
        env=clean | {"XDG_STATE_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started(folder: Path, *flags: str) -> Process:
    popen = start(folder, "--port", "0", *flags)
    assert popen.stdout is not None
    url = popen.stdout.readline().strip()
    if not url:
        pytest.fail(f"the gateway did not start: {popen.communicate()[1]}", pytrace=False)
    return Process(popen, url)


def refused(folder: Path, *flags: str) -> str:
    """What a start that must fail says; with code 2, in one line, and without a URL."""
    popen = start(folder, *flags)
    out, err = popen.communicate(timeout=120)
    assert (popen.returncode, out) == (2, ""), err
    assert err.count("error: ") == 1
    assert "Traceback" not in err
    return err


@pytest.fixture(scope="session")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The gateway over the nano pair, without any configuration."""
    process = started(tmp_path_factory.mktemp("serve"))
    yield process
    code, out, err = process.stop()
    assert (code, out) == (0, ""), err


@pytest.fixture(scope="session")
def samples() -> list[Sample]:
    return list(make_samples(8, seed=3))


def question(sample: Sample, **fields: Any) -> dict[str, Any]:
    query = sample.query()
    url = f"data:image/png;base64,{base64.b64encode(query.images[0].source).decode()}"
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": query.question}]
    return {"model": "speceyes", "messages": [{"role": "user", "content": content}], **fields}


def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=300)


def told(answer: Any) -> dict[str, Any]:
    """The field `speceyes`, which OpenAI's client keeps although it does not know it."""
    found: dict[str, Any] = answer.model_extra["speceyes"]
    return found


def test_the_first_line_is_the_base_url(nano: Process) -> None:
    assert nano.url.startswith("http://127.0.0.1:")
    assert nano.url.endswith("/v1")
    assert httpx.get(nano.url.removesuffix("/v1") + "/ready", timeout=60).json()["status"] == "ready"


def test_openais_client_gets_answers_by_both_routes(nano: Process, samples: list[Sample]) -> None:
    """Real models: which route a question takes is theirs to decide; eight of all kinds take both."""
    asker = client(nano.url)
    routes = set()
    for sample in samples:
        answer = asker.chat.completions.create(**question(sample))
        assert answer.choices[0].message.content
        assert "<" not in answer.choices[0].message.content
        assert answer.usage is not None
        models = told(answer)["usage_by_model"]
        assert answer.usage.prompt_tokens == sum(one["prompt_tokens"] for one in models.values())
        routes.add(told(answer)["route"])
    assert routes == {"draft", "agent"}


@pytest.mark.parametrize("model", ["speceyes/draft", "speceyes/agent"])
def test_a_stream_says_the_same_as_the_whole(nano: Process, samples: list[Sample], model: str) -> None:
    asker = client(nano.url)
    whole = asker.chat.completions.create(**question(samples[0], model=model))
    chunks = list(
        asker.chat.completions.create(
            **question(samples[0], model=model, stream=True, stream_options={"include_usage": True})
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert [chunk.usage is not None for chunk in chunks].count(True) == 1
    last = [chunk for chunk in chunks if chunk.choices][-1]
    assert last.choices[0].finish_reason == whole.choices[0].finish_reason
    assert told(last)["route"] == told(whole)["route"]


def test_the_agents_run_is_in_the_trace(nano: Process, samples: list[Sample]) -> None:
    asker = client(nano.url)
    for sample in samples:
        extra = {"speceyes": {"trace": True, "reasoning": True}}
        answer = asker.chat.completions.create(**question(sample, model="speceyes/agent"), extra_body=extra)
        run = told(answer)["trace"]["run"]
        if run["depth"]:
            break
    assert run["depth"] >= 1, "none of eight questions made the agent zoom"
    assert run["turns"][0]["crops"][0]["size"] == [192, 192]
    assert answer.choices[0].message.model_extra["reasoning_content"]  # type: ignore[index]


async def test_openais_asynchronous_client_works(nano: Process, samples: list[Sample]) -> None:
    async with openai.AsyncOpenAI(base_url=nano.url, api_key="none", max_retries=0) as asker:
        text = ""
        async for chunk in await asker.chat.completions.create(**question(samples[1], stream=True)):
            text += chunk.choices[0].delta.content or ""
        assert text


def test_without_an_image_the_agents_server_answers(nano: Process) -> None:
    answer = client(nano.url).chat.completions.create(
        model="speceyes", messages=[{"role": "user", "content": "What digit is on the red sign?"}], max_tokens=8
    )
    assert told(answer)["reason"] == "no_image"
    assert answer.usage is not None
    assert 0 < answer.usage.completion_tokens <= 8


def test_curl_sees_the_stream(nano: Process, samples: list[Sample], tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps(question(samples[0], stream=True)))
    curl = ["curl", "-sSN", f"{nano.url}/chat/completions", "-H", "content-type: application/json"]
    said = subprocess.run([*curl, "--data-binary", f"@{body}"], capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("data: {")
    assert said.stdout.endswith("data: [DONE]\n\n")


async def test_inspect_works(nano: Process, samples: list[Sample]) -> None:
    """The evaluation tool, with its own provider for servers of this kind."""
    from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, GenerateConfig, get_model

    image, text = question(samples[0])["messages"][0]["content"]
    content = [ContentImage(image=image["image_url"]["url"]), ContentText(text=text["text"])]
    model = get_model(
        "openai-api/gateway/speceyes", base_url=nano.url, api_key="none", config=GenerateConfig(max_tokens=16, seed=1)
    )
    found = await model.generate([ChatMessageUser(content=content)])
    assert found.completion
    assert found.stop_reason == "stop"
    assert found.usage is not None
    assert found.usage.input_tokens > 0


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
    code, _, err = process.stop()
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
    code, _, err = process.stop()
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
