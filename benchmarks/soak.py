"""A soak of the gateway: many requests of all kinds, and then nothing may be left of them.

    python benchmarks/soak.py [--requests 10000] [--concurrency 64] [--json FILE]

`speceyes serve` stands before a stub upstream that answers at once (`stub_upstream.py`), but now and then fails: an
error, or a reply that breaks off. What comes (`soak_load.py`): whole answers and streams by all routes, agents that
zoom, clients with tools, requests without an image, bad requests, and clients that hang up, early or late.

Counted: what each request got, and the resident memory, open files, sockets, threads, tasks and Python objects of the
gateway's process, before, meanwhile and after. It ends with code 1 when a request gets no answer or a wrong one, or
when something grows with the number of requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from gateway import free_port, response, serving
from machine import line, machine
from soak_load import KINDS, SEED, Kind, Stumbling, bodies, schedule

WARM_UP = 0.2
"""Share of the requests after which the process has all its caches and pools."""
SAMPLES = 50
SETTLE_S = 60.0
IDLE_S = 6.0
"""Longer than the gateway keeps an idle connection to a model's server."""
SPARE = {"tasks": 0, "files": 2, "sockets": 2, "threads": 2, "os_threads": 2}

CHILD = """
import asyncio, gc, json, os, signal, sys, threading

answer, sys.argv[1:] = sys.argv[1], sys.argv[2:]

def tell(*_):
    gc.collect()
    told = {"tasks": len(asyncio.all_tasks()), "threads": threading.active_count(), "objects": len(gc.get_objects())}
    with open(answer + ".new", "w") as out:
        json.dump(told, out)
    os.replace(answer + ".new", answer)

signal.signal(signal.SIGUSR1, tell)
from speceyes.cli import main
main()
"""
"""`speceyes serve` as it is, but for a signal that makes it count what it holds."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What the gateway's process holds at a moment."""

    done: int
    rss_mb: float
    files: int
    sockets: int
    os_threads: int
    tasks: int | None = None
    threads: int | None = None
    objects: int | None = None


class Watch:
    """Looks at the gateway's process from outside, and asks it what it holds inside."""

    def __init__(self, pid: int, answer: Path) -> None:
        self._pid, self._answer = pid, answer

    def outside(self, done: int) -> Holding:
        """Cheap: from /proc."""
        status = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        numbers = {
            name: int(rest.split()[0])
            for name, _, rest in (row.partition(":") for row in status)
            if "VmRSS" in name or name == "Threads"
        }
        links = []
        for link in Path(f"/proc/{self._pid}/fd").iterdir():
            try:
                links.append(os.readlink(link))
            except FileNotFoundError:  # closed meanwhile
                continue
        sockets = sum(name.startswith("socket:") for name in links)
        return Holding(done, numbers["VmRSS"] / 1024, len(links), sockets, numbers["Threads"])

    async def inside(self, done: int) -> Holding:
        """With tasks and objects, after the process has collected its garbage."""
        self._answer.unlink(missing_ok=True)
        os.kill(self._pid, signal.SIGUSR1)
        async with asyncio.timeout(60):
            while not self._answer.exists():  # noqa: ASYNC110, a file tells nobody
                await asyncio.sleep(0.02)
        seen = self.outside(done)
        return Holding(**{**asdict(seen), **json.loads(self._answer.read_text())})

    async def settled(self, done: int, like: Holding | None = None) -> Holding:
        """When nothing is under way any more: what is held, once it is as little as before, or for good."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            seen = await self.inside(done)
            if like is None or not more(asdict(like), asdict(seen)) or time.monotonic() > deadline:
                return seen
            await asyncio.sleep(0.5)


class Crowd:
    """The clients: each opens a connection, sends a few requests over it, and closes it."""

    def __init__(self, port: int) -> None:
        self._port, self._bodies = port, bodies()
        self._rng = random.Random(SEED)
        self.got: Counter[tuple[str, str]] = Counter()

    async def one(self, number: int, name: str) -> None:
        kind, body = KINDS[name], self._bodies[name][number % 4]
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            writer.write(head.encode() + body)
            await writer.drain()
            if kind.leaves:
                await self._leave(reader)
                self.got[name, "left"] += 1
                return
            status, said = await response(reader)
            self.got[name, _outcome(kind, status, said)] += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            self.got[name, f"lost: {type(error).__name__}"] += 1
        finally:
            writer.close()

    async def _leave(self, reader: asyncio.StreamReader) -> None:
        try:
            async with asyncio.timeout(self._rng.uniform(0, 0.1)):
                await reader.readuntil(b"\r\n\r\n")
        except (TimeoutError, asyncio.IncompleteReadError):
            pass


def _outcome(kind: Kind, status: int, said: bytes) -> str:
    """How a response is counted: its status, or what is wrong with it."""
    if status not in kind.expected:
        return f"wrong: {status}"
    if b'"error"' in said:
        return "an error after the first byte" if status == 200 else str(status)
    streamed = bool(kind.fields and kind.fields.get("stream"))
    whole = said.endswith(b"data: [DONE]\n\n") if streamed else said.endswith(b"}")
    return str(status) if status != 200 or whole else "lost: no end"


async def drive(port: int, watch: Watch, count: int, concurrency: int) -> dict[str, Any]:
    """Send everything, and look at the process meanwhile."""
    crowd, names, seen = Crowd(port), schedule(count), list[Holding]()
    warm = int(WARM_UP * count)
    with Progress(console=Console(stderr=True)) as bars:
        bar = bars.add_task("requests", total=count)
        began = time.monotonic()

        async def send(numbers: Iterator[int]) -> None:
            for number in numbers:
                await crowd.one(number, names[number])
                bars.advance(bar)
                if number % max(1, count // SAMPLES) == 0:
                    seen.append(watch.outside(number))

        async def crowd_of(numbers: range) -> None:
            shared = iter(numbers)
            await asyncio.gather(*(send(shared) for _ in range(concurrency)))

        await crowd_of(range(warm))
        await let_go(port)
        before = await watch.settled(warm)
        await crowd_of(range(warm, count))
        seconds = time.monotonic() - began
        bars.update(bar, description="settling")
        await let_go(port)
        after = await watch.settled(count, before)
    rows = sorted((one for one in seen if one.done >= warm), key=lambda one: one.done)
    return {
        "seconds": seconds,
        "before": asdict(before),
        "after": asdict(after),
        "memory": memory(rows),
        "got": {f"{name}: {outcome}": n for (name, outcome), n in sorted(crowd.got.items())},
        "lost": sum(n for (_, outcome), n in crowd.got.items() if outcome.startswith(("lost", "wrong"))),
        "counted": sum(crowd.got.values()),
        "samples": [asdict(one) for one in rows],
    }


async def let_go(port: int) -> None:
    """Let the gateway close its idle connections to the models: their time is up, and a call makes it look."""
    await asyncio.sleep(IDLE_S)
    for name in ("draft", "agent, whole"):
        await Crowd(port).one(0, name)


def memory(rows: list[Holding]) -> dict[str, float]:
    """Of the resident memory after the warm-up: the first and the last fifth, and the slope by least squares."""
    sizes = [row.rss_mb for row in rows]
    fifth = max(1, len(sizes) // 5)
    done = [row.done for row in rows]
    slope = float(np.polyfit(done, sizes, 1)[0]) if len(rows) > 2 else 0.0
    return {
        "first_fifth_mb": statistics.median(sizes[:fifth]),
        "last_fifth_mb": statistics.median(sizes[-fifth:]),
        "largest_mb": max(sizes),
        "kb_per_request": 1024 * slope,
    }


def more(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What there is more of than before, beyond what comes and goes by itself."""
    return [name for name, spare in SPARE.items() if after[name] > before[name] + spare]


def leaks(found: dict[str, Any], requests: int) -> list[str]:
    """What is wrong, each in a line with its figures."""
    before, after = found["before"], found["after"]
    wrong = [f"{name}: {before[name]} before, {after[name]} after" for name in more(before, after)]
    served = requests * (1 - WARM_UP)
    if after["objects"] - before["objects"] > 3000 + 0.2 * served:
        wrong.append(f"Python objects: {before['objects']} before, {after['objects']} after")
    grown = found["memory"]["last_fifth_mb"] - found["memory"]["first_fifth_mb"]
    spare = 16 if served >= 2000 else 64  # a short run is a warm-up throughout
    if grown > spare + 0.001 * served:
        wrong.append(f"memory: grown by {grown:.1f} MB between the first and the last fifth of {served:.0f} requests")
    if found["lost"] or found["counted"] != requests:
        wrong.append(f"answers: {found['counted']} of {requests} requests counted, {found['lost']} lost or wrong")
    return wrong


@contextmanager
def gateway(upstream: str, folder: Path) -> Iterator[tuple[int, Watch]]:
    """`speceyes serve` with its request log and its store, which are part of what may leak."""
    port, answer = free_port(), folder / "holding.json"
    models = ["--draft", upstream, "--draft-model", "stub", "--agent", upstream, "--agent-model", "stub"]
    settings = {
        "agent.factor": "32",
        "transparent.enabled": "true",
        "store.url": f"sqlite:///{folder / 'requests.db'}",
        "breaker.failures": "1000",
    }
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = [sys.executable, "-c", CHILD, str(answer), "serve", "--port", str(port), *models, "--threshold", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPECEYES_")}
    with serving([*command, *flags], port, cwd=folder, env=environment) as pid:
        yield port, Watch(pid, answer)


def run(options: argparse.Namespace) -> dict[str, Any]:
    ran_on = machine()
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        stub = [sys.executable, __file__, "--upstream", str(port), "--delay", str(options.delay)]
        with serving(stub, port), gateway(f"http://127.0.0.1:{port}", Path(folder)) as (gate, watch):
            found = asyncio.run(drive(gate, watch, options.requests, options.concurrency))
    asked = {"requests": options.requests, "concurrency": options.concurrency, "delay_s": options.delay}
    return {"machine": ran_on, **asked, **found, "wrong": leaks(found, options.requests)}


def show(found: dict[str, Any]) -> None:
    console = Console()
    console.print(line(found["machine"]))
    table = Table(box=SIMPLE_HEAD, title=f"{found['requests']} requests, {found['concurrency']} at a time")
    for column in ("", "after the warm-up", "at the end"):
        table.add_column(column, justify="left" if not column else "right")
    for name in ("tasks", "threads", "os_threads", "files", "sockets", "objects"):
        table.add_row(name, str(found["before"][name]), str(found["after"][name]))
    grown = found["memory"]
    table.add_row("memory, MB (median of a fifth)", f"{grown['first_fifth_mb']:.1f}", f"{grown['last_fifth_mb']:.1f}")
    console.print(table)
    console.print(f"{grown['kb_per_request']:.2f} KB a request by least squares; {found['seconds']:.0f} s")
    for name, count in found["got"].items():
        console.print(f"  {count:6d}  {name}", highlight=False)
    for fault in found["wrong"]:
        console.print(f"LEAK OR LOSS  {fault}", style="red", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--delay", type=float, default=0.005, help="seconds before each reply of the stub")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--upstream", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.upstream is not None:
        app = Stumbling(options.delay)
        uvicorn.run(app, host="127.0.0.1", port=options.upstream, log_level="critical", http="httptools")
        return
    found = run(options)
    show(found)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=2, allow_nan=False) + "\n")
    if found["wrong"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
