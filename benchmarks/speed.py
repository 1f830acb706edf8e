"""Every plan beside the agent alone, the law and the published schedule, on the nano pair.

    python -m benchmarks.speed [--quick] [--json FILE]

Traffic is mixed from generated questions by the share that needs no closer look: easy (all), mixed (three in five),
hard (one in five), all-tools (none). For each traffic and concurrency all arms answer the same questions in parts, each
arm another part in every round (a Latin square), so that whatever else the machine does falls on all of them. A ratio
is taken part by part: the agent's seconds over the arm's.

- *agent*: the tool loop for every query, so many at a time.
- *published*: phases I and II for a whole batch each, with a barrier after each, then the agent's loops one by one. It
  takes the funnel's decisions.
- the plans of the funnel, and *auto*, which has seen 24 queries of the traffic before.

The honest law is agent / (screen + beta draft + (1 - beta alpha) agent after screening), each the mean seconds of this
traffic's own queries on servers that have nothing else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.machine import line, machine
from PIL import Image
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speceyes.config import load_settings
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.law import law_ideal
from speceyes.evals.race import schedule, split
from speceyes.funnel import Funnel
from speceyes.imaging.decode import decode
from speceyes.imaging.looks import look
from speceyes.imaging.resize import PixelLimits
from speceyes.phases import fall_back, gate, gate_screening, screen, speculate
from speceyes.scheduling import Auto, Fixed, Plan, Planner
from speceyes.types import Query
from speceyes.wiring import open_funnel

TRAFFIC = {"easy": 1.0, "mixed": 0.6, "hard": 0.2, "all-tools": 0.0}
"""Share of questions that need no closer look."""
PLANS = (Plan.PAPER, Plan.DRAFT_FIRST, Plan.PARALLEL, Plan.HEDGED)
WARMUP = 24
"""Queries that `auto` has seen before it is measured, and from which the unloaded costs are taken."""
SMALL = PixelLimits(32, 64 * 32**2, 1024 * 32**2)
"""Of a draft model that takes pictures of a megapixel."""

FORGETFUL = {f"{role}.prompt_cache_mib": 0 for role in ("draft", "agent")}
"""Servers that keep no prompt but those in their slots: no arm lives on what another has asked."""

Arm = Callable[[Sequence[Query]], Awaitable[object]]


def questions(traffic: str, count: int, seed: int) -> list[Sample]:
    """So many questions of a traffic, no scene twice."""
    pool = make_samples(12 * count + 40, seed)
    easy = [sample for sample in pool if not sample.tool_helps]
    hard = [sample for sample in pool if sample.tool_helps]
    wanted = round(count * TRAFFIC[traffic])
    chosen = easy[:wanted] + hard[: count - wanted]
    order = np.random.default_rng(seed).permutation(len(chosen))
    return [chosen[i] for i in order]


def planned(funnel: Funnel, planner: Planner, places: int) -> Funnel:
    """The same servers under another planner, with so many places for each part of the work."""
    return Funnel(funnel.draft, funnel.agent, funnel.calibration, stateless=places, loops=places, planner=planner)


def at_a_time(funnel: Funnel, clients: int) -> Arm:
    """So many clients, each of which asks its next question when it has been answered."""

    async def run(queries: Sequence[Query]) -> None:
        places = asyncio.Semaphore(clients)

        async def one(query: Query) -> None:
            async with places:
                await funnel.answer(query)

        await asyncio.gather(*map(one, queries))

    return run


def published(funnel: Funnel, batch: int) -> Arm:
    """The published schedule over the same models and gate."""
    draft, agent, calibration = funnel.draft, funnel.agent, funnel.calibration

    async def run(queries: Sequence[Query]) -> None:
        for low in range(0, len(queries), batch):
            block = queries[low : low + batch]
            views = await asyncio.gather(*(look(query.images, agent.dialect.limits) for query in block))
            screened = await asyncio.gather(*(screen(q, v, agent) for q, v in zip(block, views, strict=True)))
            through = [i for i, found in enumerate(screened) if gate_screening(found, calibration) is None]
            drafts = await asyncio.gather(*(speculate(block[i], views[i], draft) for i in through))
            accepted = {i for i, d in zip(through, drafts, strict=True) if gate(d, calibration).accepted}
            for i in range(len(block)):
                if i not in accepted:
                    await fall_back(block[i], views[i], agent)

    return run


async def unloaded(funnel: Funnel, samples: Sequence[Sample]) -> dict[str, float]:
    """Mean seconds of each part of the work, one query after another, and the shares that pass.

    The agent's run after screening is timed on the queries that fall back, the run without it on every query; between
    the two another query is asked, so that the second finds no picture of its own in the server's cache.
    """
    times: dict[str, list[float]] = {name: [] for name in ("screen", "draft", "agent", "agent_after_screen")}
    let = accepted = 0
    for sample in samples:
        query = sample.query()
        began = time.perf_counter()
        views = await look(query.images, funnel.agent.dialect.limits)
        screening = await screen(query, views, funnel.agent)
        times["screen"].append(time.perf_counter() - began)
        passed = False
        if gate_screening(screening, funnel.calibration) is None:
            let += 1
            began = time.perf_counter()
            draft = await speculate(query, await look(query.images, funnel.draft.limits, like=views), funnel.draft)
            times["draft"].append(time.perf_counter() - began)
            passed = gate(draft, funnel.calibration).accepted
            accepted += passed
        if not passed:
            began = time.perf_counter()
            await fall_back(query, views, funnel.agent)
            times["agent_after_screen"].append(time.perf_counter() - began)
    for sample in samples:
        query = sample.query()
        began = time.perf_counter()
        await fall_back(query, await look(query.images, funnel.agent.dialect.limits), funnel.agent)
        times["agent"].append(time.perf_counter() - began)
    found = {name: statistics.fmean(values) if values else 0.0 for name, values in times.items()}
    beta = let / len(samples)
    return found | {"beta": beta, "alpha": accepted / let if let else 0.0}


def law_of(costs: dict[str, float]) -> dict[str, float | None]:
    """The two laws by a traffic's own costs and shares."""
    left = 1.0 - costs["beta"] * costs["alpha"]
    spent = costs["screen"] + costs["beta"] * costs["draft"] + left * costs["agent_after_screen"]
    return {"law_honest": costs["agent"] / spent, "law_ideal": law_ideal(costs["alpha"], costs["beta"])}


async def compare(
    arms: dict[str, Arm], parts: Sequence[Sequence[Sample]], done: Callable[[], None]
) -> dict[str, list[float]]:
    """Seconds of each arm for each part of the questions. There are a multiple of the arms' number of parts."""
    names = list(arms)
    took: dict[str, list[float]] = {name: [0.0] * len(parts) for name in names}
    for index, place in schedule(len(names), len(parts)):
        queries = await asyncio.to_thread(_drawn, parts[place])
        began = time.perf_counter()
        await arms[names[index]](queries)
        took[names[index]][place] = time.perf_counter() - began
        done()
    return took


def _drawn(samples: Sequence[Sample]) -> list[Query]:
    return [sample.query() for sample in samples]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


async def measure(
    traffic: str, clients: int, part: int, arms_wanted: Sequence[str], seed: int, bars: Progress, rounds: int = 1
) -> Any:
    """One traffic at one concurrency, on servers of its own: in each round each arm answers as many parts as arms."""
    settings = load_settings(overrides={"funnel.stateless": clients, "funnel.loops": clients} | FORGETFUL)
    async with open_funnel(settings) as funnel:
        costs = await unloaded(funnel, questions(traffic, WARMUP, seed + 1))
        auto = Auto()
        planners: dict[str, Planner] = {
            "agent": Fixed(Plan.OFF),
            "auto": auto,
            **{plan.value: Fixed(plan) for plan in PLANS},
        }
        every = {name: at_a_time(planned(funnel, planner, clients), clients) for name, planner in planners.items()}
        every["published"] = published(funnel, clients)
        arms = {name: every[name] for name in arms_wanted}
        if "auto" in arms:
            await arms["auto"]([sample.query() for sample in questions(traffic, WARMUP, seed + 2)])
        samples = questions(traffic, part * len(arms) * rounds, seed)
        parts = split(samples, len(arms), part)
        task = bars.add_task(f"{traffic}, {clients} at a time", total=len(arms) * len(parts))
        took = await compare(arms, parts, lambda: bars.advance(task))
        explained = auto.report()
    laws = law_of(costs)
    ratios = {name: [a / b for a, b in zip(took["agent"], took[name], strict=True)] for name in arms}
    row: dict[str, Any] = {
        "traffic": traffic,
        "concurrency": clients,
        "queries_per_part": part,
        "unloaded": costs,
        **laws,
        "speedup": {name: spread(values) for name, values in ratios.items() if name != "agent"},
        "seconds": took,
    }
    if "auto" in arms:
        row["share_of_law"] = spread([value / (laws["law_honest"] or 1.0) for value in ratios["auto"]])
        row["auto"] = explained
    if "published" in arms:
        row["vs_published_schedule"] = spread([a / b for a, b in zip(took["published"], took["auto"], strict=True)])
    return row


async def image_path(repeats: int = 7) -> dict[str, float]:
    """How many times as fast a 12-megapixel JPEG becomes the draft's input as by full decode, resize, PNG, base64."""
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 255, (375, 500, 3), dtype=np.uint8))
    file = io.BytesIO()
    small.resize((4000, 3000), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    data, ratios = file.getvalue(), []
    for _ in range(repeats):
        began = time.perf_counter()
        (view,) = await look([decode(data)], SMALL)
        ours = time.perf_counter() - began
        began = time.perf_counter()
        picture = Image.open(io.BytesIO(data)).convert("RGB").resize(view.size, Image.Resampling.BICUBIC)
        out = io.BytesIO()
        picture.save(out, "PNG")
        base64.b64encode(out.getvalue())
        ratios.append((time.perf_counter() - began) / ours)
    return spread(ratios)


async def run(chosen: argparse.Namespace, bars: Progress) -> dict[str, Any]:
    """All rows, and the figures by which the goals are judged."""
    everything = ("agent", "published", *(plan.value for plan in PLANS), "auto")
    beside = ("agent", "paper", "auto")
    if chosen.quick:
        cases = [("mixed", 8, 14, everything), ("all-tools", 8, 12, ("agent", "auto")), ("easy", 8, 12, beside)]
        cases.append(("hard", 8, 12, beside))
    else:
        cases = [(name, clients, 24, everything) for name in TRAFFIC for clients in (1, 4, 8, 16)]
    rows = []
    for traffic, clients, part, arms in cases:
        rounds = 4 if len(arms) == 2 else 1  # pairs enough for a median
        rows.append(await measure(traffic, clients, part, arms, chosen.seed, bars, rounds))
    by = {(row["traffic"], row["concurrency"]): row for row in rows}
    mixed, tools = by["mixed", 8], by["all-tools", 8]
    return {
        "quick": chosen.quick,
        "machine": machine(),
        "alpha": mixed["unloaded"]["alpha"],
        "beta": mixed["unloaded"]["beta"],
        "law_ideal": mixed["law_ideal"],
        "law_honest": mixed["law_honest"],
        "share_of_law": mixed["share_of_law"],
        "vs_published_schedule": mixed["vs_published_schedule"],
        "all_tools_ratio": tools["speedup"]["auto"],
        "speedup": {f"{row['traffic']} at {row['concurrency']}": row["speedup"] for row in rows},
        "image_path_ratio": await image_path(),
        "rows": rows,
    }


def report(record: dict[str, Any]) -> Table:
    """One line for each traffic, concurrency and arm."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("traffic", "at once", "arm", "times the agent", "spread", "honest law", "ideal"):
        table.add_column(column)
    for row in record["rows"]:
        for name, found in row["speedup"].items():
            ideal = "no bound" if row["law_ideal"] is None else f"{row['law_ideal']:.2f}"
            table.add_row(
                row["traffic"],
                str(row["concurrency"]),
                name,
                f"{found['median']:.2f}",
                f"{found['min']:.2f} to {found['max']:.2f} ({found['n']})",
                f"{row['law_honest']:.2f}",
                ideal,
            )
        table.add_section()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one concurrency, fewer arms: under five minutes")
    parser.add_argument("--seed", type=int, default=20, help="of the scenes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    chosen = parser.parse_args()
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
    with Progress(console=Console(stderr=True)) as bars:
        record = asyncio.run(run(chosen, bars))
    console = Console(highlight=False)
    console.print(report(record))
    for name in ("share_of_law", "vs_published_schedule", "all_tools_ratio", "image_path_ratio"):
        found = record[name]
        console.print(f"{name}: {found['median']:.2f} ({found['min']:.2f} to {found['max']:.2f}, {found['n']} parts)")
    console.print(line(record["machine"]))
    if chosen.json:
        chosen.json.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
