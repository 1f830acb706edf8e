"""How much of their prompts the agent's turns and repeated drafts find in llama.cpp's cache, and what that is worth.

    python -m benchmarks.prefix [--quick] [--rounds 3] [--json FILE]

Two arms answer the same questions, each on a server of its own with as many slots:

- *leases*: as SpecEyes does it; a query keeps its slot from its screening to its last turn (`engines/slot_leases.py`).
- *server*: the same calls without a word about slots; llama.cpp chooses for each.

Every question needs the nano agent's zoom, so every query is a screening and a loop of two or more turns, and no draft
comes between. One, four and eight queries are under way at a time, on as many slots, and eight on four slots. The arms
take turns part by part, each in turn going first. By the server's own counts (`cached_tokens` of `prompt_tokens`):

- *first turns*: what a loop's first turn finds of its screening. All that it can find is system prompt, tools, image
  and question.
- *later turns*: what each further turn finds of the one before.
- *time*: wall time of *server* over that of *leases*, part by part.

Then the draft: questions about a few pictures in turns, all but the first about each picture counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.machine import line, machine
from benchmarks.speed import questions, spread
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speceyes.config import load_settings
from speceyes.engines.client import ChatClient, Engine
from speceyes.evals.datasets.samples import Sample
from speceyes.evals.race import split
from speceyes.imaging.looks import look
from speceyes.phases import AgentModel, DraftModel, fall_back, screen, speculate
from speceyes.types import Usage
from speceyes.wiring.funnel import open_agent, open_draft

ARMS = ("leases", "server")
LEVELS = ((1, 1), (4, 4), (8, 8), (8, 4))
"""Queries at a time, slots."""
PARTS = 4
ASKED_AGAIN = 4
"""Questions about each picture that the draft is asked after the first."""
WORDS = ("What is it?", "Is there a star?", "How many signs are there?", "What digit is it?", "Is there a circle?")


@dataclass
class Found:
    """What one arm has counted at one level."""

    first: list[Usage] = field(default_factory=list)
    later: list[Usage] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        return {"first_turns": share(self.first), "later_turns": share(self.later), "seconds": self.seconds}


def share(used: Sequence[Usage]) -> dict[str, Any]:
    """Cached tokens of the prompts' tokens: of all together, and the least of any one prompt."""
    counts = [(usage.cached_tokens or 0, usage.prompt_tokens or 0) for usage in used]
    return {
        "share": sum(cached for cached, _ in counts) / max(1, sum(prompt for _, prompt in counts)),
        "least": min((cached / max(1, prompt) for cached, prompt in counts), default=0.0),
        "n": len(counts),
    }


def unplaced(engine: Engine, stack: AsyncExitStack) -> ChatClient:
    """A client of the same server that says nothing of slots."""
    assert isinstance(engine, ChatClient)
    client = ChatClient(engine.url, engine.model)
    stack.push_async_callback(client.aclose)
    return client


@asynccontextmanager
async def agents(slots: int) -> AsyncIterator[dict[str, AgentModel]]:
    """The agent of each arm, on its own server."""
    settings = load_settings(overrides={"agent.parallel": slots})
    async with AsyncExitStack() as stack:
        found = {arm: await stack.enter_async_context(open_agent(settings)) for arm in ARMS}
        found["server"] = replace(found["server"], engine=unplaced(found["server"].engine, stack))
        yield found


async def answered(samples: Sequence[Sample], agent: AgentModel, at_a_time: int, found: Found) -> None:
    """All questions of a part, and what they count."""
    places, began = asyncio.Semaphore(at_a_time), time.perf_counter()

    async def one(sample: Sample) -> None:
        async with places:
            query = sample.query()
            views = await look(query.images, agent.dialect.limits)
            await screen(query, views, agent)
            run = await fall_back(query, views, agent)
        found.first.append(run.turns[0].usage)
        found.later += [turn.usage for turn in run.turns[1:]]

    await asyncio.gather(*map(one, samples))
    found.seconds.append(time.perf_counter() - began)


async def level(at_a_time: int, slots: int, rounds: int, seed: int, done: Callable[[], None]) -> dict[str, Any]:
    """Both arms at one number of queries at a time; a part has so many rounds of these."""
    queries = PARTS * rounds * at_a_time
    samples = questions("all-tools", queries + slots, seed)
    found = {arm: Found() for arm in ARMS}
    async with agents(slots) as models:
        for arm in ARMS:  # every slot has seen system prompt and tools
            await answered(samples[:slots], models[arm], slots, Found())
        for number, part in enumerate(split(samples[slots:], PARTS)):
            for arm in ARMS if number % 2 == 0 else ARMS[::-1]:
                await answered(part, models[arm], at_a_time, found[arm])
                done()
    ratios = [b / a for a, b in zip(found["leases"].seconds, found["server"].seconds, strict=True)]
    row: dict[str, Any] = {"at_a_time": at_a_time, "slots": slots, "queries": queries, "time": spread(ratios)}
    return row | {arm: found[arm].figures() for arm in ARMS}


async def drafted(draft: DraftModel, samples: Sequence[Sample], at_a_time: int) -> list[Usage]:
    """Several questions about each picture, the pictures in turns; the first about each is not counted."""
    places, used = asyncio.Semaphore(at_a_time), list[Usage]()

    async def one(sample: Sample, words: str) -> Usage:
        async with places:
            query = replace(sample.query(), question=words)
            return (await speculate(query, await look(query.images, draft.limits), draft)).usage

    for number, words in enumerate(WORDS[: 1 + ASKED_AGAIN]):
        answers = await asyncio.gather(*(one(sample, words) for sample in samples))
        used += answers if number else []
    return used


async def draft_level(at_a_time: int, seed: int) -> dict[str, Any]:
    """The draft, asked about as many pictures as it has slots."""
    settings = load_settings(overrides={"draft.parallel": at_a_time})
    samples = questions("mixed", at_a_time, seed)
    row: dict[str, Any] = {"at_a_time": at_a_time, "slots": at_a_time}
    async with AsyncExitStack() as stack:
        for arm in ARMS:
            draft = await stack.enter_async_context(open_draft(settings))
            if arm == "server":
                draft = replace(draft, engine=unplaced(draft.engine, stack))
            row |= {arm: share(await drafted(draft, samples, at_a_time))}
    return row


async def run(rounds: int, seed: int, bars: Progress) -> dict[str, Any]:
    """All levels."""
    before = machine()
    task = bars.add_task("parts", total=2 * PARTS * len(LEVELS))
    rows = [await level(many, slots, rounds, seed, lambda: bars.advance(task)) for many, slots in LEVELS]
    drafts = [await draft_level(many, seed) for many in dict.fromkeys(many for many, _ in LEVELS)]
    return {"machine": before, "levels": rows, "drafts": drafts}


def report(record: dict[str, Any]) -> Table:
    """One line for each level: shares in percent, the least of any one prompt in brackets."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    columns = ("at once", "slots", "first turns, leases", "server", "later, leases", "server", "time")
    for column in columns:
        table.add_column(column)
    for row in record["levels"]:
        cells = [_percent(row[arm][kind]) for kind in ("first_turns", "later_turns") for arm in ARMS]
        ratio = row["time"]
        told = f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
        table.add_row(str(row["at_a_time"]), str(row["slots"]), *cells, told)
    table.add_section()
    for row in record["drafts"]:
        table.add_row(f"draft, {row['at_a_time']}", str(row["slots"]), *(_percent(row[arm]) for arm in ARMS))
    return table


def _percent(found: dict[str, Any]) -> str:
    return f"{found['share']:.0%} ({found['least']:.0%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--rounds", type=int, default=3, help="queries of a part, for each that is under way")
    parser.add_argument("--seed", type=int, default=30, help="of the scenes")
    parser.add_argument("--json", metavar="FILE", help="also write the figures here; - for standard output")
    chosen = parser.parse_args()
    with Progress(console=Console(stderr=True)) as bars:
        record = asyncio.run(run(1 if chosen.quick else chosen.rounds, chosen.seed, bars))
    text = json.dumps(record, indent=2, allow_nan=False)
    if chosen.json == "-":
        print(text)
        return
    console = Console(highlight=False)
    console.print(report(record))
    console.print("share of the prompts' tokens that came from the cache (the least of any one prompt)")
    console.print(line(record["machine"]))
    if chosen.json:
        Path(chosen.json).parent.mkdir(parents=True, exist_ok=True)
        Path(chosen.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
