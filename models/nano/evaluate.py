"""Measure the pair on held-out scenes, greedy, through llama.cpp, as it is served.

    python models/nano/evaluate.py [--folder DIR] [--split test] [--count 400] [--dialect deepeyes] [--json FILE]

Prints accuracy of the draft, from a glance and after a look of its own, and of the agent in its loop by question kind
and size of the sign asked about, the box's overlap with its target, and how well screening and the gate's score rank.
Needs no torch.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import random
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speceyes.config import AgentSettings, Settings
from speceyes.config.sandbox import SandboxSettings
from speceyes.engines.client import ChatClient
from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.nano import NANO_CONTEXT, NANO_LIMITS, NANO_ZOOM_CONTEXT, nano_files
from speceyes.evals.datasets.questions import Kind, SceneQuestion, ask_any
from speceyes.evals.datasets.scenes import Scene, draw_scene, make_scene
from speceyes.evals.datasets.seeds import CALIBRATION, TEST
from speceyes.evals.matching import is_right
from speceyes.gating import confidence, wilson
from speceyes.imaging.decode import decode
from speceyes.imaging.geometry import Box
from speceyes.imaging.looks import look
from speceyes.phases import AgentModel, DraftModel, fall_back, screen, speculate, speculate_closer
from speceyes.types import AgentRun, Draft, Query, Screening
from speceyes.wiring.code import code_tools
from speceyes.wiring.funnel import looks_of, make_agent_dialect

SPLITS = {"calibration": CALIBRATION, "test": TEST}
"""First scene seeds of what may be measured."""
SLOTS = 4


@dataclass(frozen=True)
class Outcome:
    """What both models said to one question."""

    scene: Scene
    question: SceneQuestion
    screening: Screening
    draft: Draft
    closer: Draft
    run: AgentRun

    @property
    def size(self) -> str:
        sign = self.scene.find(self.question.targets[0])
        if self.question.kind is Kind.POSITION:
            return "any"
        return "absent" if sign is None else "small" if sign.small else "large"

    def right(self, text: str) -> bool:
        return is_right(text, self.question.gold, self.question.options)

    def first_crop(self) -> tuple[Box, Box] | None:
        """The first part that the agent looked at and the sign it was about; None without a crop or a sign."""
        sign = self.scene.find(self.question.targets[0])
        crops = [crop for turn in self.run.turns for crop in turn.crops]
        return None if sign is None or not crops else (Box(*crops[0].box), Box(*sign.box))

    def looked_at_it(self) -> bool | None:
        """Whether the draft's look shows the whole sign; None where the question names none that is there."""
        sign = self.scene.find(self.question.targets[0])
        if sign is None:
            return None
        return bool(self.closer.crops) and Box(*self.closer.crops[-1].box).contains(Box(*sign.box))

    def overlap(self) -> float | None:
        """Overlap (IoU) of the box that the first call named with the sign; None as `first_crop`."""
        if (found := self.first_crop()) is None:
            return None
        shown, sign = found
        x, y = shown.centre
        shares = 2 * (1 + 2 * NANO_ZOOM_CONTEXT)  # the crop's sides over half of the box's
        across, down = shown.width / shares, shown.height / shares
        return Box(x - across, y - down, x + across, y + down).iou(sign)

    def covered(self) -> bool | None:
        """Whether the first crop shows the whole sign; None as `first_crop`."""
        found = self.first_crop()
        return None if found is None else found[0].contains(found[1])


def question_of(split: str, i: int) -> tuple[Scene, SceneQuestion]:
    """The i-th scene of a split with its question: kinds in turn, half of them with options."""
    scene = make_scene(SPLITS[split] + i)
    rng = random.Random(f"{split}-question-{i}")
    kinds = (Kind.DIGIT, Kind.SHAPE, Kind.POSITION, Kind.EXISTENCE)
    question = ask_any(rng, scene, kinds[i % 4]) or ask_any(rng, scene, Kind.DIGIT)
    assert question is not None
    return scene, question.with_options(rng) if rng.random() < 0.5 else question


async def ask(split: str, i: int, draft: DraftModel, agent: AgentModel) -> Outcome:
    scene, question = question_of(split, i)
    data = io.BytesIO()
    draw_scene(scene).save(data, "PNG", compress_level=1)
    query = Query(question.prompt, (decode(data.getvalue()),), id=f"{split}-{i}")
    views = await look(query.images, agent.dialect.limits)
    screening = await screen(query, views, agent)
    drafted = await speculate(query, views, draft)
    closer = await speculate_closer(query, views, draft, drafted)
    return Outcome(scene, question, screening, drafted, closer, await fall_back(query, views, agent))


async def measure(folder: Path | None, split: str, count: int, dialect_name: str = "deepeyes") -> list[Outcome]:
    files = nano_files(folder)
    chosen = AgentSettings(dialect=dialect_name)
    code = await code_tools(make_agent_dialect(chosen), SandboxSettings(provider="auto"))
    options = {"parallel": SLOTS, "context": NANO_CONTEXT, "limits": NANO_LIMITS}
    with (
        EmbeddedServer(files.draft, files.draft_mmproj, alias="nano-draft", **options) as small,
        EmbeddedServer(files.agent, files.agent_mmproj, alias="nano-agent", **options) as large,
    ):
        async with ChatClient(small.url, small.model) as a, ChatClient(large.url, large.model) as b:
            dialect = make_agent_dialect(chosen, NANO_LIMITS, code)
            draft, agent = DraftModel(a, NANO_LIMITS, **looks_of(Settings())), AgentModel(b, dialect)
            gate = asyncio.Semaphore(SLOTS)
            with Progress(console=Console(stderr=True)) as progress:
                bar = progress.add_task(f"{split} questions", total=count)

                async def one(i: int) -> Outcome:
                    async with gate:
                        outcome = await ask(split, i, draft, agent)
                    progress.advance(bar)
                    return outcome

                return await asyncio.gather(*map(one, range(count)))


def mean(values: list[float]) -> float | None:
    """None where there is nothing to take it of."""
    return float(np.mean(values)) if values else None


def auroc(scores: list[float], positive: list[bool]) -> float | None:
    """Chance that a positive outranks a negative, ties counted half. None where one of the two is missing."""
    up = np.array([s for s, p in zip(scores, positive, strict=True) if p])
    down = np.array([s for s, p in zip(scores, positive, strict=True) if not p])
    if not len(up) or not len(down):
        return None
    return float(((up[:, None] > down) + 0.5 * (up[:, None] == down)).mean())


def summary(outcomes: list[Outcome]) -> dict[str, object]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for o in outcomes:
        groups[f"{o.question.kind} {o.size}"].append(o)
        groups["all"].append(o)
    table = {
        name: {
            "n": len(group),
            "draft": float(np.mean([o.right(o.draft.text) for o in group])),
            "look": float(np.mean([o.right(o.closer.text) for o in group])),
            "agent": float(np.mean([o.right(o.run.text) for o in group])),
            "agent_interval": wilson(sum(o.right(o.run.text) for o in group), len(group)),
            "depth": float(np.mean([o.run.depth for o in group])),
            "says_tool_helps": float(np.mean([(o.screening.help_probability or 0.0) > 0.5 for o in group])),
        }
        for name, group in sorted(groups.items())
    }
    overlaps = [v for o in outcomes if (v := o.overlap()) is not None]
    covered = [v for o in outcomes if (v := o.covered()) is not None]
    details = [o for o in outcomes if o.question.kind is not Kind.POSITION]
    scored = [(o, confidence(o.draft.tokens).score) for o in outcomes]
    known = [(o, s) for o, s in scored if s is not None]
    looked = [(o, s) for o in outcomes if (s := confidence(o.closer.tokens).score) is not None]
    return {
        "groups": table,
        "mean_box_iou": mean(overlaps),
        "crop_covers_target": mean(covered),
        "look_covers_target": mean([float(seen) for o in outcomes if (seen := o.looked_at_it()) is not None]),
        "screening_auroc_small": auroc(
            [o.screening.help_probability or 0.0 for o in details], [o.size == "small" for o in details]
        ),
        "separability_auroc": auroc([s for _, s in known], [o.right(o.draft.text) for o, _ in known]),
        "looks_separability_auroc": auroc([s for _, s in looked], [o.right(o.closer.text) for o, _ in looked]),
        "unscored_drafts": len(scored) - len(known),
        "agent_tokens_per_turn": float(
            np.mean([(o.run.usage.completion_tokens or 0) / max(1, len(o.run.turns)) for o in outcomes])
        ),
    }


def show(result: dict[str, object]) -> None:
    table = Table(
        "questions", "n", "draft", "look", "agent", "95 %", "depth", "tool helps", title="Nano pair, held-out scenes"
    )
    for name, row in result["groups"].items():
        low, high = row["agent_interval"]
        table.add_row(
            name,
            str(row["n"]),
            *(f"{row[k]:.3f}" for k in ("draft", "look", "agent")),
            f"{low:.3f}-{high:.3f}",
            *(f"{row[k]:.2f}" for k in ("depth", "says_tool_helps")),
        )
    console = Console()
    console.print(table)
    for key, value in result.items():
        if key != "groups":
            console.print(f"{key.replace('_', ' ')}: {value:.3f}" if isinstance(value, float) else f"{key}: {value}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="the GGUF files; by default those that are shipped")
    parser.add_argument("--split", choices=SPLITS, default="test")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--dialect", default="deepeyes", help="the agent's: deepeyes, or thyme in a sandbox")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    outcomes = asyncio.run(measure(options.folder, options.split, options.count, options.dialect))
    result = summary(outcomes)
    show(result)
    print(f"{options.count} questions in {time.monotonic() - began:.0f} s")
    if options.json:
        asked = {"split": options.split, "count": options.count, "dialect": options.dialect}
        options.json.write_text(json.dumps(asked | result, indent=2) + "\n")


if __name__ == "__main__":
    main()
