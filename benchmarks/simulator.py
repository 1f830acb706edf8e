"""What the simulator of `speceyes plan` predicts, beside what the nano pair then does.

    python -m benchmarks.simulator [--quick] [--json FILE]

1. *Recorded*: each question is screened, drafted and run by the agent, one after another on servers that have nothing
   else to do; then each once more by the agent alone.
2. *Batching*: on servers of their own, other questions, so many agent runs (and so many drafts) under way at a time:
   how much slower each gets. The numbers at a time are others than those that are measured later.
3. *Measured*: the agent alone, the plan `paper` and the published schedule answer the recorded questions in a closed
   loop, and the first two also as they come at random, at three fifths of what they could do.
4. *Predicted*: the same, simulated from 1 and 2 alone. The errors are relative to what was measured; throughput is over
   the whole run, its begin and end included, and so is the simulated one.

Then the same recorded times on servers that decode in batches (the preset `gpu`, an assumption and no measurement): how
many times as many queries the plans answer as the published schedule does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.arriving import offered, turned
from benchmarks.machine import line, machine
from benchmarks.speed import FORGETFUL, Arm, at_a_time, planned, published, questions, spread
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speceyes.config import load_settings
from speceyes.evals.datasets.samples import Sample
from speceyes.evals.simulation import (
    Arrivals,
    BatchingCurve,
    Closed,
    Open,
    QueryTimes,
    Scenario,
    Servers,
    Simulated,
    System,
    Workload,
    demand,
    law_honest,
    least_seconds,
    simulate,
)
from speceyes.funnel import Funnel
from speceyes.imaging.looks import look
from speceyes.phases import fall_back, gate, gate_screening, screen, speculate
from speceyes.scheduling import Fixed, Plan
from speceyes.types import Answer, Query
from speceyes.wiring import open_funnel

TRAFFIC = "mixed"
CONCURRENCIES = (1, 4, 8)
LEVELS = (1, 2, 6, 10)
"""Calls at a time from which the batching curves are made; none but 1 is measured later."""
LOAD = 0.6
"""Of what a system answers in a closed loop: the rate at which queries come at random."""
GOAL = 0.15
PLANNERS = {"agent": Fixed(Plan.OFF), "paper": Fixed(Plan.PAPER)}
GPU_CLIENTS = (8, 16, 32, 64)
BATCHING_PLANS = (System.PAPER, System.DRAFT_FIRST, System.PARALLEL, System.HEDGED, System.AUTO)


@asynccontextmanager
async def opened(places: int, seed: int) -> AsyncIterator[Funnel]:
    """Fresh servers for so many queries at a time, that keep no prompt but those in their slots.

    Each has answered once, since a server's first answer takes longer.
    """
    settings = load_settings(overrides={"funnel.stateless": places, "funnel.loops": places} | FORGETFUL)
    async with open_funnel(settings) as funnel:
        (sample,) = questions(TRAFFIC, 1, seed + 2)
        query = sample.query()
        views = await look(query.images, funnel.agent.dialect.limits)
        await screen(query, views, funnel.agent)
        await speculate(query, views, funnel.draft)
        await fall_back(query, views, funnel.agent)
        yield funnel


async def recorded(samples: Sequence[Sample], seed: int, done: Callable[[], None]) -> Workload:
    """Each query's own times, and what phases I and III say of it.

    The agent runs alone in a second round, so that it finds no picture of its own in the server's cache.
    """
    found: list[QueryTimes] = []
    async with opened(1, seed) as funnel:
        for sample in samples:
            query, marks = sample.query(), [time.perf_counter()]
            views = await look(query.images, funnel.agent.dialect.limits)
            marks.append(time.perf_counter())
            screening = await screen(query, views, funnel.agent)
            marks.append(time.perf_counter())
            drafted = await speculate(query, await look(query.images, funnel.draft.limits, like=views), funnel.draft)
            marks.append(time.perf_counter())
            run = await fall_back(query, views, funnel.agent)
            marks.append(time.perf_counter())
            looked, screened, speculated, ran = np.diff(marks).tolist()
            let = gate_screening(screening, funnel.calibration) is None
            passed = gate(drafted, funnel.calibration).accepted
            found.append(QueryTimes(screened, speculated, ran, ran, let, passed, looked, max(1, len(run.turns))))
            done()
        for i, sample in enumerate(samples):
            query = sample.query()
            views = await look(query.images, funnel.agent.dialect.limits)
            began = time.perf_counter()
            await fall_back(query, views, funnel.agent)
            found[i] = replace(found[i], agent=time.perf_counter() - began)
            done()
    return Workload(tuple(found), concurrency=1)


async def batching(
    samples: Sequence[Sample], levels: Sequence[int], seed: int, done: Callable[[], None]
) -> dict[str, Any]:
    """How much slower agent runs, and drafts, are with so many under way, as points of a curve each."""
    rates: dict[str, dict[int, float]] = {"draft": {}, "agent": {}}
    for level in levels:
        async with opened(level, seed) as funnel:

            async def agent(query: Query, funnel: Funnel = funnel) -> None:
                await fall_back(query, await look(query.images, funnel.agent.dialect.limits), funnel.agent)

            async def draft(query: Query, funnel: Funnel = funnel) -> None:
                await speculate(query, await look(query.images, funnel.draft.limits), funnel.draft)

            for name, one in (("agent", agent), ("draft", draft)):
                queries = [sample.query() for sample in samples]
                rates[name][level] = await _rate(one, queries, level)
                done()
    return {name: _points(found) for name, found in rates.items()}


async def _rate(one: Callable[[Query], Awaitable[None]], queries: Sequence[Query], level: int) -> float:
    """Calls a second while all places are taken; those under way when the last one begins count half."""
    places, began, last = asyncio.Semaphore(level), time.perf_counter(), 0.0

    async def placed(query: Query) -> None:
        nonlocal last
        async with places:
            last = time.perf_counter() - began
            await one(query)

    await asyncio.gather(*map(placed, queries))
    return (len(queries) - level / 2) / last


def _points(rates: dict[int, float]) -> list[tuple[int, float]]:
    """Slowdowns from rates. They cannot fall; where a measurement says so, it is noise."""
    points: list[tuple[int, float]] = []
    for level, rate in sorted(rates.items()):
        points.append((level, max(points[-1][1] if points else 1.0, level * rates[1] / rate)))
    return [(1, 1.0), *points[1:]]


@dataclass(slots=True)
class Timed:
    """A funnel whose queries are timed: what `at_a_time` takes for a funnel."""

    funnel: Funnel
    seconds: list[float]

    async def answer(self, query: Query) -> Answer:
        began = time.perf_counter()
        answer = await self.funnel.answer(query)
        self.seconds.append(time.perf_counter() - began)
        return answer


async def measured(
    samples: Sequence[Sample], clients: int, repeats: int, seed: int, done: Callable[[], None]
) -> dict[str, Any]:
    """Throughput and mean latency of each system in a closed loop; the published schedule has no latency here."""
    rows: dict[str, dict[str, list[float]]] = {}
    for repeat in range(repeats):
        async with opened(clients, seed) as funnel:
            for name in turned(("agent", "paper", "published"), repeat):
                seconds: list[float] = []
                queries = [sample.query() for sample in samples]
                began = time.perf_counter()
                await _arm(name, funnel, clients, seconds)(queries)
                took = time.perf_counter() - began
                row = rows.setdefault(name, {"throughput": [], "mean": []})
                row["throughput"].append(len(queries) / took)
                row["mean"] += [statistics.fmean(seconds)] if seconds else []
                done()
    return rows


def _arm(name: str, funnel: Funnel, clients: int, seconds: list[float]) -> Arm:
    if name == "published":
        return published(funnel, clients)
    timed = Timed(planned(funnel, PLANNERS[name], clients), seconds)
    return at_a_time(timed, clients)  # type: ignore[arg-type]


async def arriving(samples: Sequence[Sample], rates: dict[str, float], seed: int, done: Callable[[], None]) -> Any:
    """Mean latency where queries come at random."""
    found: dict[str, Any] = {}
    async with opened(16, seed) as funnel:
        for name, rate in rates.items():
            times = np.cumsum(Open(rate).gaps(len(samples), np.random.default_rng(seed))).tolist()
            arm = planned(funnel, PLANNERS[name], 16)
            queries = [sample.query() for sample in samples]
            course = await offered(arm.answer, queries, times, len(samples))
            found[name] = {"rate": rate, "mean": statistics.fmean(course.latencies), "most_under_way": course.most}
            done()
    return found


def predicted(name: str, workload: Workload, servers: dict[str, Servers], arrivals: Arrivals, seed: int) -> Simulated:
    """The same questions in the same order, and in an open loop at the same moments."""
    scenario = Scenario(System(name), servers["draft"], servers["agent"], arrivals, len(workload.queries), seed)
    return simulate(workload, replace(scenario, steady=False, in_order=True))


def on_gpus(workload: Workload, queries: int) -> list[dict[str, Any]]:
    """Times as many queries as the published schedule answers, on servers that decode in batches."""
    servers = Servers(1, BatchingCurve.gpu())
    rows = []
    for clients in GPU_CLIENTS:
        found = {
            system: simulate(workload, Scenario(system, servers, servers, Closed(clients), queries, loops=clients))
            for system in (System.PUBLISHED, *BATCHING_PLANS)
        }
        base = found.pop(System.PUBLISHED).throughput
        ratios = {system.value: one.throughput / base for system, one in found.items()}
        best = max(ratios, key=lambda name: ratios[name])
        rows.append({"clients": clients, "ratios": ratios, "best": best, "auto": ratios["auto"]})
    return rows


async def run(chosen: argparse.Namespace, bars: Progress) -> dict[str, Any]:
    """Record, measure, predict, compare."""
    count = chosen.count or (24 if chosen.quick else 80)
    levels = LEVELS[:3] if chosen.quick else LEVELS
    calibrated = max(count * 3 // 4, 2 * max(levels))
    concurrencies = (1, 8) if chosen.quick else CONCURRENCIES
    repeats = 1 if chosen.quick else chosen.repeats

    def bar(what: str, total: int) -> Callable[[], None]:
        task = bars.add_task(what, total=total)
        return lambda: bars.advance(task)

    samples = questions(TRAFFIC, count, chosen.seed)
    workload = await recorded(samples, chosen.seed, bar("one at a time", 2 * count))
    others = questions(TRAFFIC, calibrated, chosen.seed + 1)
    points = await batching(others, levels, chosen.seed, bar("batching", 2 * len(levels)))
    servers = {name: Servers(1, BatchingCurve(name, tuple(found), 64)) for name, found in points.items()}
    step = bar("closed loop", 3 * repeats * len(concurrencies))
    closed = {clients: await measured(samples, clients, repeats, chosen.seed, step) for clients in concurrencies}
    busiest = closed[max(concurrencies)]
    rates = {name: LOAD * statistics.median(busiest[name]["throughput"]) for name in ("agent", "paper")}
    open_loop = await arriving(samples, rates, chosen.seed, bar("at random", len(rates)))

    rows = []
    for clients, found in closed.items():
        for name, seen in found.items():
            ours = predicted(name, workload, servers, Closed(clients), chosen.seed)
            rows.append(_compared(name, f"{clients} at a time", "queries/s", seen["throughput"], ours.throughput))
            if seen["mean"]:
                rows.append(_compared(name, f"{clients} at a time", "mean s", seen["mean"], ours.mean))
    for name, seen in open_loop.items():
        ours = predicted(name, workload, servers, Open(seen["rate"]), chosen.seed)
        rows.append(_compared(name, f"random, {seen['rate']:.2f}/s", "mean s", [seen["mean"]], ours.mean))
    errors = [abs(row["error"]) for row in rows]
    return {
        "quick": chosen.quick,
        "machine": machine(),
        "questions": count,
        "repeats": repeats,
        "law_honest": law_honest(workload),
        "workload": {
            "seconds": {name: getattr(workload.times, name) for name in workload.times.__dataclass_fields__},
            "chances": {name: getattr(workload.chances, name) for name in workload.chances.__dataclass_fields__},
        },
        "batching": {name: {"points": found, "slots": 64} for name, found in points.items()},
        "rows": rows,
        "largest_error": max(errors),
        "median_error": statistics.median(errors),
        "within_goal": sum(error <= GOAL for error in errors),
        "share_of_work_conserving": _share_of_bound(workload, servers, closed),
        "on_gpus": on_gpus(workload, 1000 if chosen.quick else 4000),
    }


def _compared(name: str, load: str, figure: str, seen: Sequence[float], ours: float) -> dict[str, Any]:
    middle = statistics.median(seen)
    return {
        "system": name,
        "load": load,
        "figure": figure,
        "measured": spread(seen),
        "predicted": ours,
        "error": ours / middle - 1.0,
    }


def _share_of_bound(workload: Workload, servers: dict[str, Servers], closed: dict[int, Any]) -> dict[str, float]:
    """Throughput that was measured under `paper`, over the most that a work-conserving schedule could reach."""
    asked, count = demand(Plan.PAPER, workload), len(workload.queries)
    return {
        str(clients): statistics.median(found["paper"]["throughput"])
        * least_seconds(asked, servers["draft"], servers["agent"], clients=clients)
        / count
        for clients, found in closed.items()
    }


def report(record: dict[str, Any]) -> list[Table]:
    """What was predicted beside what was measured, and the ratios on servers that batch."""
    tables = []
    for columns, rows in (
        (
            ("system", "load", "figure", "measured", "predicted", "error"),
            [
                (
                    row["system"],
                    row["load"],
                    row["figure"],
                    "{median:.3f} ({min:.2f}-{max:.2f})".format(**row["measured"]),
                    f"{row['predicted']:.3f}",
                    f"{row['error']:+.1%}",
                )
                for row in record["rows"]
            ],
        ),
        (
            ("clients, gpu", *(system.value for system in BATCHING_PLANS)),
            [
                (str(row["clients"]), *(f"{row['ratios'][system.value]:.2f}" for system in BATCHING_PLANS))
                for row in record["on_gpus"]
            ],
        ),
    ):
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        for column in columns:
            table.add_column(column, no_wrap=True)
        for cells in rows:
            table.add_row(*cells)
        tables.append(table)
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few questions, one repeat")
    parser.add_argument("--count", type=int, help="questions; 80, or 24 where it is quick")
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement in a closed loop")
    parser.add_argument("--seed", type=int, default=50, help="of the scenes and of the arrivals")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    chosen = parser.parse_args()
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
    with Progress(console=Console(stderr=True)) as bars:
        record = asyncio.run(run(chosen, bars))
    console = Console(highlight=False)
    for table in report(record):
        console.print(table)
    console.print(
        f"{record['within_goal']} of {len(record['rows'])} within {GOAL:.0%}; largest error "
        f"{record['largest_error']:.1%}, median {record['median_error']:.1%}"
    )
    console.print(line(record["machine"]))
    if chosen.json:
        chosen.json.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
