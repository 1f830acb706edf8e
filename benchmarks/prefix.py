"""How much of their prompts the agent's turns and repeated drafts find in the server's cache, and what that is worth.

    python -m benchmarks.prefix [--quick] [--rounds 3] [--json FILE]
    python -m benchmarks.prefix --agent-url URL [--draft-url URL]

The first is about llama.cpp, in this process. Two arms answer the same questions, each on a server of its own with as
many slots:

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

The second is about servers of the nano pair that run already, vLLM say: one arm, *server*, the same order of calls, and
also what *screenings* find, which come first and so find no picture. A server that has had these scenes before finds
all of them: start it anew, or take another `--seed`, ten further on.
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

import httpx
from benchmarks.machine import line, machine
from benchmarks.speed import questions, spread
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speceyes.config import Settings, load_settings
from speceyes.engines.client import ChatClient, Engine
from speceyes.engines.nano import NANO_LIMITS, NANO_ZOOM_CONTEXT
from speceyes.errors import ConfigError
from speceyes.evals.datasets.samples import Sample
from speceyes.evals.race import split
from speceyes.imaging.looks import look
from speceyes.phases import AgentModel, DraftModel, fall_back, screen, speculate
from speceyes.types import Usage
from speceyes.wiring.funnel import NANO_TURN_TOKENS, open_agent, open_draft

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

    screenings: list[Usage] = field(default_factory=list)
    first: list[Usage] = field(default_factory=list)
    later: list[Usage] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        counted = {"screenings": self.screenings, "first_turns": self.first, "later_turns": self.later}
        return {kind: share(used) for kind, used in counted.items()} | {"seconds": self.seconds}


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


def served(**urls: str) -> Settings:
    """Of servers elsewhere that have the nano models: what they are used to, by role."""
    model = {"factor": NANO_LIMITS.factor, "min_pixels": NANO_LIMITS.min_pixels, "max_pixels": NANO_LIMITS.max_pixels}
    agent = {"zoom_context": NANO_ZOOM_CONTEXT, "max_tokens_per_turn": NANO_TURN_TOKENS}
    more = {"draft": model, "agent": model | agent}
    chosen = {role: more[role] | {"url": url} for role, url in urls.items()}
    return load_settings(overrides={f"{role}.{name}": v for role, found in chosen.items() for name, v in found.items()})


@asynccontextmanager
async def agents(slots: int, url: str | None = None) -> AsyncIterator[dict[str, AgentModel]]:
    """The agent of each arm, on its own server; or of the one arm of a server elsewhere."""
    if url is not None:
        async with open_agent(served(agent=url)) as agent:
            yield {"server": agent}
        return
    settings = load_settings(overrides={"agent.copies": 1, "agent.parallel": slots})
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
            screened = await screen(query, views, agent)
            run = await fall_back(query, views, agent)
        found.screenings.append(screened.usage)
        found.first.append(run.turns[0].usage)
        found.later += [turn.usage for turn in run.turns[1:]]

    await asyncio.gather(*map(one, samples))
    found.seconds.append(time.perf_counter() - began)


async def level(
    at_a_time: int, slots: int, rounds: int, seed: int, done: Callable[[], None], url: str | None = None
) -> dict[str, Any]:
    """All arms at one number of queries at a time; a part has so many rounds of these."""
    queries = PARTS * rounds * at_a_time
    samples = questions("all-tools", queries + slots, seed)
    async with agents(slots, url) as models:
        found = {arm: Found() for arm in models}
        for arm in models:  # every slot has seen system prompt and tools
            await answered(samples[:slots], models[arm], slots, Found())
        for number, part in enumerate(split(samples[slots:], PARTS)):
            for arm in list(models) if number % 2 == 0 else list(models)[::-1]:
                await answered(part, models[arm], at_a_time, found[arm])
                done()
    row: dict[str, Any] = {"at_a_time": at_a_time, "slots": slots if url is None else None, "queries": queries}
    if url is None:
        ratios = [b / a for a, b in zip(found["leases"].seconds, found["server"].seconds, strict=True)]
        row["time"] = spread(ratios)
    return row | {arm: found[arm].figures() for arm in found}


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


async def draft_level(at_a_time: int, seed: int, url: str | None = None) -> dict[str, Any]:
    """The draft, asked about as many pictures as it has slots."""
    settings = load_settings(overrides={"draft.parallel": at_a_time}) if url is None else served(draft=url)
    samples = questions("mixed", at_a_time, seed)
    row: dict[str, Any] = {"at_a_time": at_a_time, "slots": at_a_time if url is None else None}
    async with AsyncExitStack() as stack:
        for arm in ARMS if url is None else ("server",):
            draft = await stack.enter_async_context(open_draft(settings))
            if arm == "server":
                draft = replace(draft, engine=unplaced(draft.engine, stack))
            row |= {arm: share(await drafted(draft, samples, at_a_time))}
    return row


async def run(rounds: int, seed: int, bars: Progress) -> dict[str, Any]:
    """All levels, on llama.cpp in this process."""
    before = machine()
    task = bars.add_task("parts", total=2 * PARTS * len(LEVELS))
    rows = [await level(many, slots, rounds, seed, lambda: bars.advance(task)) for many, slots in LEVELS]
    drafts = [await draft_level(many, seed) for many in dict.fromkeys(many for many, _ in LEVELS)]
    return {"machine": before, "levels": rows, "drafts": drafts}


async def run_on(
    agent_url: str | None, draft_url: str | None, rounds: int, seed: int, bars: Progress
) -> dict[str, Any]:
    """The same on servers that run already.

    Raises:
        ConfigError: They do not say what they had cached.
    """
    before, numbers = machine(), list(dict.fromkeys(many for many, _ in LEVELS))
    servers = {role: url for role, url in (("agent", agent_url), ("draft", draft_url)) if url is not None}
    record: dict[str, Any] = {
        "machine": before,
        "seed": seed,
        "servers": {role: await server_version(url) for role, url in servers.items()},
        "levels": [],
        "drafts": [],
    }
    task = bars.add_task("parts", total=PARTS * len(numbers))
    for number, many in enumerate(numbers):  # another seed each: what one level has asked must be new to the next
        if agent_url is not None:
            row = await level(many, many, rounds, seed + number, lambda: bars.advance(task), agent_url)
            record["levels"].append(row)
        if draft_url is not None:
            record["drafts"].append(await draft_level(many, seed + number, draft_url))
    found = [row["server"].get("first_turns", row["server"]) for row in record["levels"] + record["drafts"]]
    if not any(shares["share"] for shares in found):
        raise ConfigError("the server found nothing, or does not tell. Start vLLM with --enable-prompt-tokens-details")
    return record


async def server_version(url: str) -> str | None:
    """As vLLM tells it. None: another server."""
    async with httpx.AsyncClient(trust_env=False) as http:
        reply = await http.get(f"{url.rstrip('/').removesuffix('/v1')}/version")
    return str(reply.json().get("version")) if reply.status_code == 200 else None


def report(record: dict[str, Any]) -> Table:
    """One line for each level: shares in percent, the least of any one prompt in brackets."""
    if "servers" in record:
        return report_on(record)
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


def report_on(record: dict[str, Any]) -> Table:
    """The same of servers elsewhere, which have one arm and no slots."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("at once", "queries", "screenings", "first turns", "later turns", "drafts"):
        table.add_column(column)
    cells = {row["at_a_time"]: ["", "", "", "", ""] for row in (*record["levels"], *record["drafts"])}
    for row in record["levels"]:
        shares = [_percent(row["server"][kind]) for kind in ("screenings", "first_turns", "later_turns")]
        cells[row["at_a_time"]][:4] = [str(row["queries"]), *shares]
    for row in record["drafts"]:
        cells[row["at_a_time"]][4] = _percent(row["server"])
    for many, told in cells.items():
        table.add_row(str(many), *told)
    return table


def _percent(found: dict[str, Any]) -> str:
    return f"{found['share']:.0%} ({found['least']:.0%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--rounds", type=int, default=3, help="queries of a part, for each that is under way")
    parser.add_argument("--seed", type=int, default=30, help="of the scenes")
    parser.add_argument("--json", metavar="FILE", help="also write the figures here; - for standard output")
    parser.add_argument("--agent-url", metavar="URL", help="a server of the nano agent, in place of llama.cpp here")
    parser.add_argument("--draft-url", metavar="URL", help="one of the nano draft")
    chosen = parser.parse_args()
    rounds, elsewhere = 1 if chosen.quick else chosen.rounds, (chosen.agent_url, chosen.draft_url)
    with Progress(console=Console(stderr=True)) as bars:
        task = run_on(*elsewhere, rounds, chosen.seed, bars) if any(elsewhere) else run(rounds, chosen.seed, bars)
        record = asyncio.run(task)
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
