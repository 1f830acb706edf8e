"""What the funnel itself takes for each query of a long queue: memory and time, for 10 to 10,000 queries.

    python -m benchmarks.queues [--counts 10 100 1000 10000] [--repeats 1] [--json FILE]

No model is asked: `engines.scripted` answers at once, in another process, so that what is measured is our own work: the
picture, the requests, the gate, the bookkeeping. Two ways to queue:

- *answer_many*: one call with a generator, which opens each picture when it is drawn from.
- *tasks*: as many `answer` tasks at once. Their pictures wait as PNG bytes and are unpacked when a query has its place:
  unpacked they are 3 MB each, and 10,000 of them more than many a machine has.

Every picture is a scene of 1024 x 1024 pixels as PNG; eight files serve all queries, so the files' own bytes are not in
the figures. Of ten queries six are answered by their draft, four by the agent in one turn. Each measurement is a
process of its own; memory by `tracemalloc` comes from another one, since that makes Python several times slower. The
growth is the cost of one query in the longest queue over that in a queue of 100; above 1 cost grows faster than length.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import io
import itertools
import json
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from benchmarks.machine import line, machine, peak_mb
from benchmarks.speed import spread
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.engines.client import ChatClient
from speceyes.engines.nano import NANO_LIMITS
from speceyes.engines.scripted import Outcome, Reply, ScriptedServer, token_reply
from speceyes.evals.datasets.samples import make_samples
from speceyes.evals.datasets.scenes import draw_scene
from speceyes.funnel import Funnel
from speceyes.gating import Calibration
from speceyes.imaging.decode import DecodedImage, decode
from speceyes.phases import AgentModel, DraftModel
from speceyes.types import Answer, Query, Route, Sampling

WAYS = ("answer_many", "tasks")
COUNTS = (10, 100, 1_000, 10_000)
BASE = 100
"""The queue that longer ones are compared with."""
PLACES = 8
PICTURES = 8
WARM_UP = 24
"""Queries before anything is counted: connections, threads and caches are there then."""
DRAFTED = 6
"""Of ten queries, those that screening lets through."""
COSTS = ("cpu_ms", "wall_ms", "rss_kb", "traced_kb")
"""Of one query. `rss_kb` and `traced_kb` are peaks over what was there before, by the number of queries."""


# The models


def draft_says(request: dict[str, Any], turn: int) -> Outcome:
    """One sure token."""
    return Reply("star")


def agent_says(request: dict[str, Any], turn: int) -> Outcome:
    """A query is told by its seed, which is its number."""
    if request["max_tokens"] > 1:
        return Reply("<think>I see it.</think><answer>star")
    words = ("no", "yes") if request["seed"] % 10 < DRAFTED else ("yes", "no")
    return Reply(tokens=[token_reply(words[0], list(zip(words, (math.log(0.9), math.log(0.1)), strict=True)))])


class Forgetful:
    """A scripted server, without the ledger: it would keep the picture of every request."""

    def __init__(self, says: Callable[[dict[str, Any], int], Outcome], told: Callable[[], None] = lambda: None) -> None:
        self.server = ScriptedServer(self._answer)
        self._says, self._told = says, told

    def _answer(self, request: dict[str, Any], turn: int) -> Outcome:
        self.server.requests.clear()
        if request["max_tokens"] == 1:
            self._told()
        return self._says(request, turn)


# One measurement, in a process of its own


def pictures(count: int = PICTURES) -> list[bytes]:
    """Scenes as PNG files."""
    files = []
    for sample in make_samples(count, 0):
        file = io.BytesIO()
        draw_scene(sample.scene).save(file, "PNG")
        files.append(file.getvalue())
    return files


def packed(png: bytes) -> DecodedImage:
    """A picture that is unpacked when it is looked at, not before."""
    return DecodedImage(png, "PNG", hashlib.sha256(png).hexdigest(), decode(png).size, plain=True)


def queries(images: Iterator[DecodedImage], count: int) -> Iterator[Query]:
    """So many queries, one after another."""
    for i in range(count):
        yield Query(f"What is number {i}?", (next(images),), id=str(i), sampling=Sampling(seed=i))


async def measured(way: str, count: int, traced: bool, draft_url: str, agent_url: str) -> dict[str, float]:
    """What one queue takes."""
    files = pictures()
    kept = [packed(file) for file in files]
    async with ChatClient(draft_url, "small") as small, ChatClient(agent_url, "large") as large:
        funnel = Funnel(
            DraftModel(small, NANO_LIMITS),
            AgentModel(large, DeepEyes(limits=NANO_LIMITS)),
            Calibration.manual(2.0, k=64),
            stateless=PLACES,
            loops=PLACES,
        )

        async def answer(number: int) -> Sequence[Answer]:
            if way == "answer_many":
                return await funnel.answer_many(queries(map(decode, itertools.cycle(files)), number))
            waiting = (DecodedImage(p.source, p.format, p.sha256, p.size, p.plain) for p in itertools.cycle(kept))
            return await asyncio.gather(*map(funnel.answer, queries(waiting, number)))

        await answer(WARM_UP)
        gc.collect()
        if traced:
            tracemalloc.start()
        before, cpu, began = peak_mb(), time.process_time(), time.perf_counter()
        answers = await answer(count)
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        drafted = sum(found.route is Route.DRAFT for found in answers)
        if drafted != sum(i % 10 < DRAFTED for i in range(count)):
            raise SystemExit(f"{drafted} of {count} queries were answered by their draft: the script is not obeyed")
        if traced:
            return {"traced_kb": tracemalloc.get_traced_memory()[1] / 1e3 / count}
        peak = peak_mb()
        return {
            "cpu_ms": 1e3 * cpu / count,
            "wall_ms": 1e3 * wall / count,
            "rss_kb": 1e3 * (peak - before) / count,
            "peak_rss_mb": peak,
        }


# All of them


async def run(chosen: argparse.Namespace, bars: Progress) -> dict[str, Any]:
    """Every way and length of queue, in turns."""
    cases = [(way, count) for count in chosen.counts for way in WAYS]
    task = bars.add_task("queries", total=2 * chosen.repeats * sum(count + WARM_UP for _, count in cases))
    found: dict[tuple[str, int], list[dict[str, float]]] = {case: [] for case in cases}
    agent = Forgetful(agent_says, told=lambda: bars.advance(task))
    async with AsyncExitStack() as stack:
        small, large = [await stack.enter_async_context(s.server) for s in (Forgetful(draft_says), agent)]
        for _ in range(chosen.repeats):
            for way, count in cases:
                bars.update(task, description=f"{way}, {count:,} queries")
                plain, traced = [await _child(way, count, trace, small.url, large.url) for trace in (False, True)]
                found[way, count].append(plain | traced)
    ways = {}
    for way in WAYS:
        rows = [{"queries": count, **_joined(found[way, count])} for count in chosen.counts]
        ways[way] = {"rows": rows, "growth": growth(rows)}
    return {"machine": machine(), "places": PLACES, "repeats": chosen.repeats, "ways": ways}


async def _child(way: str, count: int, traced: bool, draft_url: str, agent_url: str) -> dict[str, float]:
    words = ["--one", way, str(count), str(int(traced)), draft_url, agent_url]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.queues", *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        said, complaint = await child.communicate()
    except asyncio.CancelledError:
        child.kill()
        raise
    if child.returncode:
        raise SystemExit(f"{way} with {count} queries ended with {child.returncode}:\n{complaint.decode()}")
    found: dict[str, float] = json.loads(said)
    return found


def _joined(repeats: Sequence[dict[str, float]]) -> dict[str, Any]:
    return {name: spread([one[name] for one in repeats]) for name in (*COSTS, "peak_rss_mb")}


def growth(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """The cost of a query in the longest queue over that in one of `BASE`, or in the shortest that is longer.

    Args:
        rows: One for each length, from `queries` and the spread of each cost.

    Returns:
        The ratio of the medians under each cost's name; None where the shorter queue took nothing that can be measured.
    """
    ordered = sorted(rows, key=lambda row: row["queries"])
    base = next((row for row in ordered if row["queries"] >= BASE), ordered[-1])
    medians = {name: (ordered[-1][name]["median"], base[name]["median"]) for name in COSTS}
    return {name: long / short if short > 0 else None for name, (long, short) in medians.items()}


def report(record: dict[str, Any]) -> Table:
    """One line for each way and length, and one for the growth."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    columns = ("", "queries", "CPU ms", "ms", "resident KB", "Python KB", "peak MB")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for way, found in record["ways"].items():
        for row in found["rows"]:
            costs = [f"{row[name]['median']:.1f}" for name in COSTS]
            table.add_row(way, f"{row['queries']:,}", *costs, f"{row['peak_rss_mb']['median']:.0f}")
        ratios = ["-" if ratio is None else f"x {ratio:.2f}" for ratio in found["growth"].values()]
        table.add_row("", "growth", *ratios, "", style="bold")
        table.add_section()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=list(COUNTS), help="lengths of the queue")
    parser.add_argument("--repeats", type=int, default=1, help="measurements of each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        way, count, traced, *urls = chosen.one
        print(json.dumps(asyncio.run(measured(way, int(count), traced == "1", *urls))))
        return
    if min(chosen.repeats, *chosen.counts) < 1:
        parser.error("--counts and --repeats need at least 1")
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
    with Progress(console=Console(stderr=True)) as bars:
        record = asyncio.run(run(chosen, bars))
    console = Console(highlight=False)
    console.print(report(record))
    console.print(line(record["machine"]))
    if chosen.json:
        chosen.json.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
