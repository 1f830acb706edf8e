"""How fast SpecEyes is beside its agent alone and its draft alone: time and throughput on the nano pair.

    python benchmarks/throughput.py [--count 200] [--concurrency 1 8] [--repeats 1] [--json FILE]

The path is the demo's: the same engines, the same race, in which the three systems take turns at parts of the same
questions, so that whatever else the machine does falls on all of them. Each repeat starts with fresh servers, so that
nothing is left in a cache. The spread is that of the parts: each system answers each part, and the ratio of two systems
is taken part by part.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from machine import line, machine
from speceyes.config import Settings, load_settings
from speceyes.evals.demo import Demo, run_demo_on, stages
from speceyes.evals.systems import SystemName

RATIOS = {
    "speceyes_over_agent": (SystemName.AGENT, SystemName.SPECEYES),
    "draft_over_agent": (SystemName.AGENT, SystemName.DRAFT),
}
"""How many times as fast the second one is as the first."""

ORDER = (SystemName.AGENT, SystemName.DRAFT, SystemName.SPECEYES)


async def run_once(settings: Settings, count: int, seed: int, concurrency: int, bars: Progress) -> Demo:
    """One race on servers of its own."""
    task = bars.add_task(f"{concurrency} at a time", total=sum(stages(count).values()))
    return await run_demo_on(
        settings, count=count, seed=seed, concurrency=concurrency, progress=lambda stage: bars.advance(task)
    )


def figures(concurrency: int, demos: Sequence[Demo]) -> dict[str, Any]:
    """One concurrency's figures over its repeats."""
    summaries = [demo.summary for demo in demos]
    return {
        "concurrency": concurrency,
        "systems": {name.value: system_figures(name, demos) for name in ORDER},
        "ratios": {label: ratio(demos, *pair) for label, pair in RATIOS.items()},
        "beta": statistics.mean(summary.beta for summary in summaries),
        "alpha": statistics.mean(summary.alpha for summary in summaries),
        "law_ideal": summaries[0].law_ideal,
        "law_honest": statistics.median(summary.law_honest for summary in summaries),
        "runs": [summary.as_json() for summary in summaries],
    }


def system_figures(name: SystemName, demos: Sequence[Demo]) -> dict[str, Any]:
    """Times and throughput of one system."""
    laps = [lap for demo in demos for lap in demo.courses[name].laps if lap.queries]
    systems = [demo.summary.systems[name] for demo in demos]
    own = [result.reply.seconds for demo in demos for result in demo.courses[name].results if result.reply.seconds]
    return {
        "accuracy": sum(s.right for s in systems) / sum(s.n for s in systems),
        "errors": sum(s.errors for s in systems),
        "seconds": spread([s.seconds for s in systems]),
        "queries_per_s": spread([lap.queries / lap.seconds for lap in laps]),
        "seconds_per_query": {"median": float(np.median(own)), "p95": float(np.quantile(own, 0.95))} if own else None,
    }


def ratio(demos: Sequence[Demo], slow: SystemName, fast: SystemName) -> dict[str, float]:
    """How many times as fast: over all parts together, and the spread over the parts."""
    pairs = [
        (a.seconds, b.seconds)
        for demo in demos
        for a, b in zip(demo.courses[slow].laps, demo.courses[fast].laps, strict=True)
        if a.queries
    ]
    return {"overall": sum(a for a, _ in pairs) / sum(b for _, b in pairs), **spread([a / b for a, b in pairs])}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, quartiles, ends, and how many values these stand on."""
    low, middle, high = (float(v) for v in np.quantile(values, (0.25, 0.5, 0.75)))
    return {"median": middle, "q1": low, "q3": high, "min": min(values), "max": max(values), "n": len(values)}


def report(record: dict[str, Any]) -> Table:
    """One line for each concurrency and system: medians, and in brackets the ratio's quartiles over the parts."""
    columns = ("at once", "system", "right", "seconds", "queries/s", "s/query", "times the agent")
    title = f"{record['count']} questions" + (f", {record['repeats']} times" if record["repeats"] > 1 else "")
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="dim"
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "system" else "right", no_wrap=True)
    for level in record["levels"]:
        for name, row in level["systems"].items():
            own, times = row["seconds_per_query"], level["ratios"].get(f"{name}_over_agent")
            table.add_row(
                str(level["concurrency"]),
                name,
                f"{row['accuracy']:.1%}",
                f"{row['seconds']['median']:.1f}",
                f"{row['queries_per_s']['median']:.2f}",
                f"{own['median']:.3f}" if own else "-",
                f"{times['overall']:.2f} [{times['q1']:.2f}, {times['q3']:.2f}]" if times else "1",
            )
        table.add_section()
    return table


def laws(level: dict[str, Any]) -> str:
    """The measured speedup beside its laws."""
    ideal = "no bound" if level["law_ideal"] is None else f"{level['law_ideal']:.2f}"
    return (
        f"{level['concurrency']} at a time: {level['ratios']['speceyes_over_agent']['overall']:.2f} times the agent's "
        f"speed; by the honest law {level['law_honest']:.2f}, by the ideal one {ideal} "
        f"(beta {level['beta']:.2f}, alpha {level['alpha']:.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="questions")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 8], help="queries under way at a time")
    parser.add_argument("--repeats", type=int, default=1, help="whole races at each concurrency")
    parser.add_argument("--seed", type=int, default=0, help="of the scenes; all repeats ask the same")
    parser.add_argument("--config", type=Path, help="settings that name other models than the nano pair")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    chosen = parser.parse_args()
    if min(chosen.count, chosen.repeats, *chosen.concurrency) < 1:
        parser.error("--count, --concurrency and --repeats need at least 1")
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
    settings = load_settings(chosen.config)
    record = {"count": chosen.count, "repeats": chosen.repeats, "seed": chosen.seed, "machine": machine(), "levels": []}
    with Progress(console=Console(stderr=True)) as bars:
        for concurrency in chosen.concurrency:
            demos = [
                asyncio.run(run_once(settings, chosen.count, chosen.seed, concurrency, bars))
                for _ in range(chosen.repeats)
            ]
            record["levels"].append(figures(concurrency, demos))
    console = Console(highlight=False)
    console.print(report(record))
    for level in record["levels"]:
        console.print(laws(level))
    console.print(line(record["machine"]))
    if chosen.json:
        chosen.json.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
