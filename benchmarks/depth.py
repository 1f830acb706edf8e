"""What closer looks of the draft model are worth: the agent alone, and SpecEyes with up to 0, 1 and 2 of them.

    python -m benchmarks.depth [--questions 96] [--rounds 2] [--at-once 1] [--threshold T] [--json FILE]

All arms use the same two servers and answer the same fresh questions, part by part, each arm another part at a time (a
Latin square), so that whatever else the machine does falls on all of them, and none finds its prompts in a cache that
another has just filled. Each number of looks has the calibration that ships for it; `--threshold` sets one by hand for
all. A speedup is taken part by part: the agent's seconds over the arm's.

What the looks have won is counted over the queries that the first look left over: the share that a closer look answers,
how many of these answers are right and how many of the agent's own to the same questions, and the seconds of the looks
beside those of the agent's runs: alone, and after a screening, as it falls back without looks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import line, machine
from benchmarks.speed import FORGETFUL, compare, planned, questions, spread
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speceyes.config import load_settings
from speceyes.errors import ConfigError
from speceyes.evals.datasets.samples import Sample
from speceyes.evals.matching import is_right
from speceyes.evals.race import split
from speceyes.funnel import Funnel
from speceyes.gating import Calibration, wilson
from speceyes.phases import AgentModel, DraftModel
from speceyes.scheduling import Fixed, Plan
from speceyes.types import Answer, Query, Reason
from speceyes.wiring import open_agent, open_draft
from speceyes.wiring.funnel import nano_calibration_file

TRAFFIC = ("mixed", "hard", "all-tools")
DEPTHS = (0, 1, 2)
AGENT = "agent"
WARMUP = 2
"""Questions that each arm answers before the clock starts."""


@dataclass
class Arm:
    """One system, so many queries at a time, and what it has answered, by the queries' ids."""

    funnel: Funnel
    at_once: int
    answers: dict[str, Answer] = field(default_factory=dict)

    async def __call__(self, queries: Sequence[Query]) -> None:
        places = asyncio.Semaphore(self.at_once)

        async def one(query: Query) -> None:
            async with places:
                self.answers[query.id] = await self.funnel.answer(query)

        await asyncio.gather(*map(one, queries))


def name_of(depth: int) -> str:
    """What an arm is called."""
    return f"{depth} look{'s' * (depth != 1)}"


def depth_of(answer: Answer) -> int:
    """Closer looks after which the draft has answered; -1 where the agent has."""
    if answer.reason is Reason.ACCEPTED_CLOSER:
        return len(answer.trace.closer)
    return 0 if answer.reason is Reason.ACCEPTED else -1


def calibrations(threshold: float | None) -> dict[int, Calibration]:
    """One for each depth: by hand, or those that ship with the nano pair.

    Raises:
        ConfigError: One of them is not there.
    """
    if threshold is not None:
        return {depth: Calibration.manual(threshold, notes="by hand, for a benchmark") for depth in DEPTHS}
    files = {depth: nano_calibration_file(depth) for depth in DEPTHS}
    if missing := [str(file) for file in files.values() if not file.is_file()]:
        raise ConfigError(f"not there: {', '.join(missing)}. Set a threshold for all depths with --threshold.")
    return {depth: Calibration.load(file) for depth, file in files.items()}


def make_arms(draft: DraftModel, agent: AgentModel, gates: Mapping[int, Calibration], at_once: int) -> dict[str, Arm]:
    """The agent alone, and the funnel with each number of looks."""
    funnels = {depth: Funnel(replace(draft, max_depth=depth), agent, gate) for depth, gate in gates.items()}
    arms = {AGENT: Arm(planned(funnels[0], Fixed(Plan.OFF), at_once), at_once)}
    return arms | {
        name_of(depth): Arm(planned(funnel, Fixed(Plan.PAPER), at_once), at_once) for depth, funnel in funnels.items()
    }


async def measure(
    traffic: str, chosen: argparse.Namespace, gates: Mapping[int, Calibration], bars: Progress
) -> dict[str, Any]:
    """One traffic, on servers of its own."""
    places = {"funnel.stateless": chosen.at_once, "funnel.loops": chosen.at_once}
    settings = load_settings(overrides=places | FORGETFUL)
    async with AsyncExitStack() as held:
        draft = await held.enter_async_context(open_draft(settings))
        agent = await held.enter_async_context(open_agent(settings))
        arms = make_arms(draft, agent, gates, chosen.at_once)
        for number, arm in enumerate(arms.values()):
            await arm([sample.query() for sample in questions(traffic, WARMUP, chosen.seed + 1000 + number)])
            arm.answers.clear()
        parts_wanted = len(arms) * chosen.rounds
        size = max(1, chosen.questions // parts_wanted)
        samples = questions(traffic, size * parts_wanted, chosen.seed)
        parts = split(samples, len(arms), size)
        task = bars.add_task(traffic, total=len(arms) * len(parts))
        took = await compare(dict(arms), parts, lambda: bars.advance(task))
    return figures(traffic, samples, {name: arm.answers for name, arm in arms.items()}, took)


def figures(
    traffic: str,
    samples: Sequence[Sample],
    answers: Mapping[str, Mapping[str, Answer]],
    took: Mapping[str, Sequence[float]],
) -> dict[str, Any]:
    """One traffic's row.

    Args:
        traffic: Its name.
        samples: The questions.
        answers: Each arm's, by the questions' ids.
        took: Seconds of each arm for each part.
    """
    agent, looks = took[AGENT], {name_of(depth): depth for depth in DEPTHS}
    rows: dict[str, Any] = {}
    for name, given in answers.items():
        depths = [depth_of(given[sample.id]) for sample in samples]
        rows[name] = {
            "accuracy": share([right(sample, given) for sample in samples]),
            "accepted_at": [depths.count(depth) / len(samples) for depth in DEPTHS],
            "speedup": spread([a / b for a, b in zip(agent, took[name], strict=True)]),
            "seconds": list(took[name]),
            "looks": [won(samples, answers, name, depth) for depth in range(1, looks.get(name, 0) + 1)],
        }
    return {"traffic": traffic, "questions": len(samples), "parts": len(agent), "arms": rows}


def won(
    samples: Sequence[Sample], answers: Mapping[str, Mapping[str, Answer]], name: str, depth: int
) -> dict[str, Any]:
    """What the looks of one depth have won of the queries that an arm's first look left over."""
    given = answers[name]
    left = [sample for sample in samples if depth_of(given[sample.id]) != 0]
    taken = [sample for sample in left if depth_of(given[sample.id]) == depth]
    traces = [given[sample.id].trace for sample in taken]
    glance = [answers[name_of(0)][sample.id].trace for sample in taken]
    return {
        "depth": depth,
        "left": len(left),
        "won": share([depth_of(given[sample.id]) == depth for sample in left]),
        "accuracy": share([right(sample, given) for sample in taken]),
        "agent_accuracy": share([right(sample, answers[AGENT]) for sample in taken]),
        "look_s": mean([trace.phase_seconds["look_closer"] for trace in traces]),
        "agent_s": mean([answers[AGENT][sample.id].trace.seconds for sample in taken]),
        "fall_back_s": mean([trace.phase_seconds["fall_back"] for trace in glance if trace.run is not None]),
    }


def right(sample: Sample, answers: Mapping[str, Answer]) -> bool:
    """Whether an arm's answer states the right choice."""
    return is_right(answers[sample.id].text, sample.gold, sample.options)


def share(flags: Sequence[bool]) -> dict[str, Any] | None:
    """A share with Wilson's interval (95 %); None of nothing."""
    if not flags:
        return None
    low, high = wilson(sum(flags), len(flags))
    return {"value": sum(flags) / len(flags), "low": low, "high": high, "count": sum(flags), "of": len(flags)}


def mean(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return statistics.fmean(values) if values else None


async def run(chosen: argparse.Namespace, bars: Progress) -> dict[str, Any]:
    """All traffics, one after another."""
    gates = calibrations(chosen.threshold)
    record: dict[str, Any] = {
        "machine": machine(),
        "questions": chosen.questions,
        "rounds": chosen.rounds,
        "at_once": chosen.at_once,
        "seed": chosen.seed,
        "calibrations": {
            name_of(depth): {"threshold": gate.threshold, "method": gate.method, "digest": gate.digest}
            for depth, gate in gates.items()
        },
    }
    return record | {"rows": [await measure(traffic, chosen, gates, bars) for traffic in TRAFFIC]}


def report(record: Mapping[str, Any]) -> Table:
    """One line for each traffic and arm."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    columns = ("traffic", "arm", "right", "times the agent", "spread", "accepted at 0, 1, 2", "won", "right there")
    for column in (*columns, "look s", "agent s"):
        table.add_column(column)
    for row in record["rows"]:
        for name, arm in row["arms"].items():
            found, looks = arm["speedup"], arm["looks"]
            cells = [
                row["traffic"],
                name,
                _percent(arm["accuracy"]),
                f"{found['median']:.2f}",
                f"{found['min']:.2f} to {found['max']:.2f} ({found['n']})",
                " ".join(f"{part:.0%}" for part in arm["accepted_at"]),
            ]
            cells += [", ".join(_percent(look[key]) for look in looks) for key in ("won", "accuracy")]
            cells += [", ".join(_seconds(look[key]) for look in looks) for key in ("look_s", "agent_s")]
            table.add_row(*cells)
        table.add_section()
    return table


def _percent(found: Mapping[str, Any] | None) -> str:
    return "-" if found is None else f"{found['value']:.0%}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=96, help="of each traffic; cut to a multiple of the parts")
    parser.add_argument("--rounds", type=int, default=2, help="each arm answers four parts in each")
    parser.add_argument("--at-once", type=int, default=1, help="queries under way at a time")
    parser.add_argument("--threshold", type=float, help="on the raw score, by hand, in place of the calibrations")
    parser.add_argument("--seed", type=int, default=40, help="of the scenes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    chosen = parser.parse_args()
    if min(chosen.questions, chosen.rounds, chosen.at_once) < 1:
        parser.error("--questions, --rounds and --at-once need at least 1")
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Progress(console=Console(stderr=True)) as bars:
            record = asyncio.run(run(chosen, bars))
    except ConfigError as error:
        parser.error(str(error))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    console.print(report(record))
    console.print(line(record["machine"]))
    if chosen.json:
        chosen.json.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
