"""What the gateway costs: latency and processor time that it adds, beside LiteLLM's proxy in front of the same stub.

    python benchmarks/gateway.py [--litellm PATH] [--requests 400] [--rounds 5] [--json FILE]

A stub upstream (`stub_upstream.py`) answers at once with 64 log-probs a token. The same requests, each with a picture
of one megapixel, go to the stub itself, to the gateway's funnel (two upstream calls: screening and draft), to its draft
route (one call, as a plain proxy makes), and to LiteLLM's proxy (one call). The four take turns within each round.

Latency is wall time of a request; what a proxy adds is its latency less the stub's own. Processor time is user and
system time of the proxy's whole process tree, from /proc, over the requests of a round. LiteLLM is not a dependency:

    python -m venv .venv-litellm && .venv-litellm/bin/pip install 'litellm[proxy]'
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from machine import line, machine

HERE = Path(__file__).parent
PICTURES = 16
KEY = "sk-7f0c1a52be9d4e63a8d1"
"""LiteLLM does not start without one. The gateway on loopback takes any."""
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Target:
    """Somewhere that requests go to: a port, the model to ask for, and the process to weigh (None: not weighed)."""

    name: str
    port: int
    model: str
    pid: int | None = None
    fields: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Lap:
    """One target's part of a round: seconds of each request, wall seconds in all, processor seconds."""

    seconds: list[float]
    wall: float
    processor: float | None


def picture(seed: int, side: int = 1024) -> str:
    """A JPEG with the detail of a photo, as a data URL."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(128, 40, (side // 8, side // 8, 3)).clip(0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(out, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()


def requests(target: Target, pictures: list[str]) -> list[bytes]:
    """The bytes of one HTTP request for each picture."""
    made = []
    for url in pictures:
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What digit is shown?"}]
        body = {"model": target.model, **dict(target.fields), "messages": [{"role": "user", "content": content}]}
        data = json.dumps(body).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        made.append(head.encode() + data)
    return made


async def drive(target: Target, sent: list[bytes], count: int, concurrency: int) -> Lap:
    """Send `count` requests, so many at a time, each as soon as the one before it is answered."""
    numbers = iter(range(count))
    seconds: list[float] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
        for i in numbers:
            began = time.perf_counter()
            writer.write(sent[i % len(sent)])
            await writer.drain()
            status, body = await response(reader)
            seconds.append(time.perf_counter() - began)
            if status != 200 or b'"content":' not in body:
                raise SystemExit(f"{target.name} answered {status}: {body[:400]!r}")
        writer.close()

    before, began = processor_seconds(target.pid), time.perf_counter()
    await asyncio.gather(*(client() for _ in range(concurrency)))
    wall, after = time.perf_counter() - began, processor_seconds(target.pid)
    return Lap(seconds, wall, None if before is None or after is None else after - before)


async def response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One response: its status and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(maxsplit=2)[1])
    if b"transfer-encoding: chunked" in head:
        body = b""
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
        return status, body
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    return status, await reader.readexactly(length)


def processor_seconds(pid: int | None) -> float | None:
    """User and system time of a process and its children so far."""
    if pid is None:
        return None
    total = 0
    for each in [pid, *children(pid)]:
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children(int(child))]
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def serving(command: list[str], port: int, wait_s: float = 120, **options: Any) -> Iterator[int]:
    """A server as a process of its own, until it accepts connections; yields its process id."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **options)
        try:
            deadline = time.monotonic() + wait_s
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise SystemExit(f"{' '.join(command)} did not start:\n{log.read().decode()[-2000:]}")
                time.sleep(0.1)
            yield process.pid
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def gateway_command(upstream: str, port: int) -> list[str]:
    given = ["--draft", upstream, "--draft-model", "stub", "--agent", upstream, "--agent-model", "stub"]
    pixels = ["--set", "agent.factor=32"]
    return [
        str(Path(sys.executable).with_name("speceyes")),
        "serve",
        *given,
        *pixels,
        "--threshold",
        "1",
        "--port",
        str(port),
    ]


def litellm_command(litellm: Path, upstream: str, port: int, folder: Path) -> list[str]:
    config = folder / "litellm.json"  # YAML takes JSON
    params = {"model": "openai/stub", "api_base": f"{upstream}/v1", "api_key": "sk-none"}
    settings = {"master_key": KEY}
    models = [{"model_name": "stub", "litellm_params": params}]
    config.write_text(json.dumps({"model_list": models, "general_settings": settings}))
    return [str(litellm), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]


def targets(stack: ExitStack, litellm: Path | None) -> list[Target]:
    """Start everything; what is measured last is what the others are measured against."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    stub, gate = free_port(), free_port()
    stack.enter_context(serving([sys.executable, str(HERE / "stub_upstream.py"), str(stub)], stub))
    upstream = f"http://127.0.0.1:{stub}"
    pid = stack.enter_context(serving(gateway_command(upstream, gate), gate, cwd=folder))
    found = [
        Target("stub alone", stub, "stub"),
        Target("gateway, funnel", gate, "speceyes", pid),
        Target("gateway, draft route", gate, "speceyes/draft", pid),
    ]
    if litellm is not None:
        port = free_port()
        proxy = stack.enter_context(serving(litellm_command(litellm, upstream, port, folder), port))
        found.append(Target("LiteLLM", port, "stub", proxy))
    return found


def row(name: str, laps: list[Lap], base: list[Lap]) -> dict[str, Any]:
    """One target's figures; spreads are over the rounds."""

    def quantile(lap: Lap, q: float) -> float:
        return 1e3 * float(np.quantile(lap.seconds, q))

    pairs = list(zip(laps, base, strict=True))
    cost = [1e3 * lap.processor / len(lap.seconds) for lap in laps if lap.processor is not None]
    return {
        "target": name,
        "p50_ms": spread([quantile(lap, 0.5) for lap in laps]),
        "p99_ms": spread([quantile(lap, 0.99) for lap in laps]),
        "added_p50_ms": spread([quantile(lap, 0.5) - quantile(zero, 0.5) for lap, zero in pairs]),
        "added_p99_ms": spread([quantile(lap, 0.99) - quantile(zero, 0.99) for lap, zero in pairs]),
        "requests_per_s": spread([len(lap.seconds) / lap.wall for lap in laps]),
        "processor_ms": spread(cost) if cost else None,
    }


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


async def run(options: argparse.Namespace) -> dict[str, Any]:
    ran_on = machine()
    pictures = [picture(seed) for seed in range(PICTURES)]
    with ExitStack() as stack, Progress(console=Console(stderr=True)) as bars:
        chosen = targets(stack, options.litellm)
        sent = {target.name: requests(target, pictures) for target in chosen}
        tables = []
        for concurrency in options.concurrency:
            bar = bars.add_task(f"{concurrency} at a time", total=options.rounds * len(chosen))
            for target in chosen:  # connections, caches, code that is compiled at first use
                await drive(target, sent[target.name], 4 * PICTURES, concurrency)
            laps: dict[str, list[Lap]] = {target.name: [] for target in chosen}
            for turn in range(options.rounds):
                for target in chosen[turn % len(chosen) :] + chosen[: turn % len(chosen)]:
                    laps[target.name].append(await drive(target, sent[target.name], options.requests, concurrency))
                    bars.advance(bar)
            rows = [row(target.name, laps[target.name], laps[chosen[0].name]) for target in chosen]
            tables.append({"concurrency": concurrency, "rows": rows, "ratios": ratios(rows)})
    sizes = {"pictures": PICTURES, "bytes": statistics.mean(len(p) * 3 // 4 for p in pictures), "side": 1024}
    return {"machine": ran_on, "requests": options.requests, "rounds": options.rounds, **sizes, "tables": tables}


def ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Each gateway route's processor time over LiteLLM's."""
    cost = {r["target"]: r["processor_ms"]["median"] for r in rows if r["processor_ms"]}
    proxy = cost.pop("LiteLLM", None)
    return {} if proxy is None else {name: value / proxy for name, value in cost.items()}


def show(found: dict[str, Any]) -> None:
    console = Console()
    console.print(line(found["machine"]))
    for part in found["tables"]:
        table = Table(box=SIMPLE_HEAD, title=f"{part['concurrency']} at a time, 1 MP JPEG")
        for column in ("", "p50 ms", "p99 ms", "added p50", "added p99", "requests/s", "processor ms/request"):
            table.add_column(column, justify="left" if not column else "right")
        for r in part["rows"]:
            cost = r["processor_ms"]
            cells = [r[key]["median"] for key in ("p50_ms", "p99_ms", "added_p50_ms", "added_p99_ms")]
            low_high = f"{cost['median']:.2f} ({cost['low']:.2f}-{cost['high']:.2f})" if cost else "-"
            table.add_row(r["target"], *(f"{c:.2f}" for c in cells), f"{r['requests_per_s']['median']:.0f}", low_high)
        console.print(table)
        for name, value in part["ratios"].items():
            console.print(f"{name}: {value:.2f} of LiteLLM's processor time a request")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litellm", type=Path, help="the command `litellm`; without it, the gateway alone")
    parser.add_argument("--requests", type=int, default=400, help="of each target in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = asyncio.run(run(options))
    show(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
