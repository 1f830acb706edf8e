"""How long users wait when queries come as they please: latency under load, up to where it grows without bound.

    python -m benchmarks.open_loop [--quick] [--json FILE] [--picture FILE]

Queries arrive at random (a Poisson process), whether or not earlier ones have been answered. A query's latency counts
from the moment at which it was to arrive, so what it waits behind others is in it, and so is any delay of this program
(a closed loop asks more slowly where the system is slow, and so hides just that: coordinated omission).

Three arms: the agent alone, the plan `paper`, and `auto`, over one pair of servers, with as many places for each.
Traffic is mixed: three in five questions need no closer look. First each arm's capacity is measured in a closed loop,
as many clients as places; loads are shares of what the agent alone can do. At each load the arms take turns at the same
questions, at the same times. Between them every slot of the servers is given another picture, and prompts that were
pushed out of a slot are not kept, so that no arm lives on what another has left.

An arm is saturated where more than a quarter of a load's queries wait beyond the places that there are. It is stopped
there, has no percentiles, and is not asked at higher loads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.arriving import PERCENTILES, Course, figures, is_saturated, most_waiting, offered, poisson, turned
from benchmarks.machine import line, machine
from benchmarks.speed import FORGETFUL, WARMUP, at_a_time, compare, planned, questions, spread
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speceyes.config import load_settings
from speceyes.evals.datasets.samples import Sample
from speceyes.evals.race import split
from speceyes.evals.sweeps.charts.style import LINES, Chart, axes, in_percent, legend
from speceyes.funnel import Funnel
from speceyes.imaging.looks import look
from speceyes.phases import screen, speculate
from speceyes.scheduling import Auto, Fixed, Plan, Planner
from speceyes.wiring import open_funnel

PLACES = 8
LOADS = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0)
QUICK_LOADS = (0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0)
"""Shares of the agent's capacity."""
QUERIES, QUICK_QUERIES = 60, 24
SLOTS = {"draft.parallel": PLACES, "agent.copies": 2, "agent.parallel": PLACES}
"""One for each call that may be under way: the draft's, and of the agent screenings and loops."""


# On the models


async def forget(funnel: Funnel, other: Sample) -> None:
    """Put another picture's prompt into every slot: so many calls at once as there are, each with one to itself."""
    queries = [other.query() for _ in range(SLOTS["agent.parallel"] * SLOTS["agent.copies"])]
    views = await look(queries[0].images, funnel.agent.dialect.limits)
    await asyncio.gather(*(screen(query, views, funnel.agent) for query in queries))
    await asyncio.gather(*(speculate(query, views, funnel.draft) for query in queries[: SLOTS["draft.parallel"]]))


async def run(chosen: argparse.Namespace, bars: Progress) -> dict[str, Any]:
    """Capacities, then load after load until no arm is left."""
    places = {"funnel.stateless": PLACES, "funnel.loops": PLACES}
    count, seed = chosen.queries, chosen.seed
    async with open_funnel(load_settings(overrides=places | SLOTS | FORGETFUL)) as funnel:
        planners: dict[str, Planner] = {"agent": Fixed(Plan.OFF), "paper": Fixed(Plan.PAPER), "auto": Auto()}
        arms = {name: planned(funnel, planner, PLACES) for name, planner in planners.items()}
        await at_a_time(arms["auto"], PLACES)(
            [sample.query() for sample in questions("mixed", chosen.warmup, seed + 1)]
        )
        capacity = await capacities(arms, questions("mixed", count * len(arms), seed + 2), bars)
        unit = capacity["agent"]["median"]
        other = questions("mixed", 1, seed + 3)[0]
        levels: list[dict[str, Any]] = []
        left = list(arms)
        for number, load in enumerate(chosen.loads):
            if not left:
                break
            task = bars.add_task(f"{load:.0%} of the agent's capacity", total=len(left) * chosen.repeats)
            courses: dict[str, list[Course]] = {name: [] for name in left}
            for repeat in range(chosen.repeats):
                samples = questions("mixed", count, seed + 10 + 100 * number + repeat)
                times = poisson(count, load * unit, (seed, number, repeat))
                for name in turned(left, number + repeat):
                    await forget(funnel, other)
                    queries = await asyncio.to_thread(list, map(Sample.query, samples))
                    courses[name].append(await offered(arms[name].answer, queries, times, most_waiting(count, PLACES)))
                    bars.advance(task)
            found = {name: figures(courses[name]) for name in left}
            levels.append({"load": load, "queries_per_s": load * unit, "arms": found})
            left = [name for name in left if not is_saturated(found[name])]
    return {
        "quick": chosen.quick,
        "machine": machine(),
        "places": PLACES,
        "queries": count,
        "repeats": chosen.repeats,
        "seed": seed,
        "capacity": capacity,
        "levels": levels,
    }


async def capacities(arms: Mapping[str, Funnel], samples: Sequence[Sample], bars: Progress) -> dict[str, Any]:
    """Queries a second of each arm in a closed loop, over its parts of the questions."""
    parts = [part for part in split(samples, len(arms)) if part]
    task = bars.add_task("capacity", total=len(arms) * len(parts))
    closed = {name: at_a_time(funnel, PLACES) for name, funnel in arms.items()}
    took = await compare(closed, parts, lambda: bars.advance(task))
    return {
        name: spread([len(part) / s for part, s in zip(parts, seconds, strict=True)]) for name, seconds in took.items()
    }


# What is shown


def report(record: Mapping[str, Any]) -> Table:
    """One line for each load and arm."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, column in enumerate(("load", "queries/s", "arm", "p50 s", "p95 s", "p99 s", "by drafts", "saturated")):
        table.add_column(column, justify="left" if number == 2 else "right", no_wrap=True)
    for level in record["levels"]:
        for name, found in level["arms"].items():
            cells = ["-"] * len(PERCENTILES)
            if not is_saturated(found):
                cells = [_with_spread(found[f"p{percentile}"]) for percentile in PERCENTILES]
            stopped = f"{found['saturated']} of {found['repeats']}" if found["saturated"] else ""
            drafted = "-" if found["drafted"] is None else f"{found['drafted']:.0%}"
            table.add_row(f"{level['load']:.0%}", f"{level['queries_per_s']:.2f}", name, *cells, drafted, stopped)
        table.add_section()
    return table


def _with_spread(found: Mapping[str, float]) -> str:
    said = f"{found['median']:.2f}"
    return said if found["n"] == 1 else f"{said} ({found['min']:.2f} to {found['max']:.2f})"


def chart(record: Mapping[str, Any]) -> Chart:
    """Latency over load: for each arm the median and the 95th percentile, and where it can bear no more."""
    title = "Latency under open-loop load, nano pair, mixed traffic"
    figure, ax = axes("queries that arrive, as a share of what the agent alone can answer (%)", "seconds", title)
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    names = {"agent": "agent alone", "paper": "plan paper", "auto": "plan auto"}
    for row, ((name, label), (color, _, marker)) in enumerate(zip(names.items(), LINES, strict=False)):
        measured = [(level["load"], level["arms"][name]) for level in record["levels"] if name in level["arms"]]
        borne = [(load, found) for load, found in measured if not is_saturated(found)]
        for key, style, width in (("p50", (0, (2, 1.2)), 1.2), ("p95", "-", 1.8)):
            middle = [found[key]["median"] for _, found in borne]
            ends = [[abs(found[key]["median"] - found[key][end]) for _, found in borne] for end in ("min", "max")]
            ax.errorbar(
                [load for load, _ in borne], middle, ends, color=color, linestyle=style, linewidth=width,
                marker=marker, markersize=4.5, elinewidth=0.8, label=f"{label}, {key}",
            )  # fmt: skip
        for load in [load for load, found in measured if is_saturated(found)]:
            ax.axvline(load, color=color, linestyle=":", linewidth=1.4)
            ax.annotate(
                f"{label} saturated", (load, 0.98 - 0.28 * row), xycoords=("data", "axes fraction"), rotation=90,
                xytext=(-3, 0), textcoords="offset points", ha="right", va="top", fontsize=7.5, color=color,
            )  # fmt: skip
    in_percent(ax, "x")
    legend(ax, "below", ncols=3)
    text = (
        "Latency counts from the moment at which a query was to arrive. At a dotted line the queue of that system "
        "grows as long as queries come, so it has no latency there."
    )
    return Chart("open-loop", title, text, figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer loads and queries, one repeat: some five minutes")
    parser.add_argument("--queries", type=int, help=f"of each load (default: {QUERIES}, quick {QUICK_QUERIES})")
    parser.add_argument("--repeats", type=int, help="of each load, each with its own questions (default: 3, quick 1)")
    parser.add_argument("--loads", type=float, nargs="+", help="shares of the agent's capacity, rising")
    parser.add_argument("--warmup", type=int, default=WARMUP, help="queries that `auto` has seen before")
    parser.add_argument("--seed", type=int, default=40, help="of the scenes and the arrival times")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="also draw latency over load, as PNG")
    chosen = parser.parse_args()
    chosen.queries = chosen.queries or (QUICK_QUERIES if chosen.quick else QUERIES)
    chosen.repeats = chosen.repeats or (1 if chosen.quick else 3)
    chosen.loads = chosen.loads or (QUICK_LOADS if chosen.quick else LOADS)
    if min(chosen.queries, chosen.repeats, chosen.warmup) < 1:
        parser.error("--queries, --repeats and --warmup need at least 1")
    if min(chosen.loads) <= 0 or list(chosen.loads) != sorted(chosen.loads):
        parser.error("--loads needs positive numbers that rise")
    for path in filter(None, (chosen.json, chosen.picture)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with Progress(console=Console(stderr=True)) as bars:
        record = asyncio.run(run(chosen, bars))
    console = Console(highlight=False)
    console.print(report(record))
    rates = ", ".join(f"{name} {found['median']:.2f}" for name, found in record["capacity"].items())
    console.print(f"capacity in a closed loop of {PLACES}, queries a second: {rates}")
    console.print(line(record["machine"]))
    if chosen.json:
        chosen.json.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if chosen.picture:
        chosen.picture.write_bytes(chart(record).png)


if __name__ == "__main__":
    main()
