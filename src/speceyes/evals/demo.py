"""The demo: three systems on the same engines and the same fresh scenes, in one run; then figures and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from speceyes.config import Settings
from speceyes.errors import ConfigError, InputError
from speceyes.evals.baselines import Models, make_system
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.datasets.seeds import MADE, SPAN
from speceyes.evals.gallery import Tile, choose_tiles
from speceyes.evals.law import measure_costs
from speceyes.evals.pages import write_page
from speceyes.evals.pictures import draw_demo
from speceyes.evals.race import Course, race
from speceyes.evals.serving import measured
from speceyes.evals.summary import Summary, summarise
from speceyes.evals.systems import SystemName
from speceyes.gating import Calibration
from speceyes.phases import AgentModel, DraftModel
from speceyes.wiring import open_funnel

COST_QUERIES = 10
"""Queries for each unloaded cost: the first half of the samples' plan, which is balanced."""
WARMING_UP, COSTS = "warming up", "costs"
SYSTEMS = (SystemName.AGENT, SystemName.DRAFT, SystemName.SPECEYES)
"""Who takes part."""

Progress = Callable[[str], None]
"""Is told the name of the stage (`warming up`, `costs`, or a system's) whenever one of its steps is done."""


@dataclass(frozen=True, slots=True)
class Demo:
    """A finished demo.

    Attributes:
        courses: What each system did.
        summary: The figures.
        tiles: Queries to show.
    """

    courses: Mapping[SystemName, Course]
    summary: Summary
    tiles: Sequence[Tile]

    @property
    def subtitle(self) -> str:
        """One line that says what was run."""
        run = self.summary.run
        return (
            f"{run['count']} questions about fresh 1024 x 1024 scenes (seed {run['seed']}), {run['concurrency']} at a "
            f"time. Draft: {run['draft_model']}. Agent: {run['agent_model']}."
        )


async def run_demo(
    draft: DraftModel,
    agent: AgentModel,
    calibration: Calibration,
    *,
    count: int = 60,
    seed: int = 0,
    concurrency: int = 4,
    progress: Progress = lambda stage: None,
) -> Demo:
    """Measure the three systems.

    First one query warms each engine up, then the unloaded costs are measured, then the systems take turns.

    Args:
        draft: The draft model.
        agent: The agent.
        calibration: The gate's.
        count: Questions.
        seed: Of the scenes.
        concurrency: Queries that each system has under way at a time.
        progress: Is told of each step.

    Raises:
        InputError: The count or the seed is out of range.
        EngineError: A server failed while the costs were measured. Later failures are counted, not raised.
    """
    if count < 1:
        raise InputError(f"The count is {count}; it must be 1 or more.")
    samples = make_samples(count, seed)
    models = Models(draft, agent, calibration)
    systems = [make_system(name, models, concurrency) for name in SYSTEMS]
    for_phases, for_agent = _samples_for_costs(seed)
    await measure_costs(draft, agent, for_phases[COST_QUERIES:], for_agent[COST_QUERIES:])
    progress(WARMING_UP)
    costs = await measure_costs(
        draft, agent, for_phases[:COST_QUERIES], for_agent[:COST_QUERIES], done=lambda: progress(COSTS)
    )
    courses = await race(systems, samples, concurrency, done=lambda name: progress(name.value))
    run = {
        "count": count,
        "seed": seed,
        "concurrency": concurrency,
        "draft_model": draft.engine.model,
        "agent_model": agent.engine.model,
        "score": calibration.score,
        "k": calibration.k,
        "aggregate": calibration.aggregate,
        "threshold": calibration.threshold,
        "screen_threshold": calibration.screen_threshold,
        "max_depth": draft.max_depth,
        "version": version("speceyes"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return Demo(courses, summarise(courses, costs, run), choose_tiles(courses, calibration))


async def run_demo_on(
    settings: Settings, *, count: int, seed: int, concurrency: int, progress: Progress = lambda stage: None
) -> Demo:
    """`run_demo` on the models and the gate that the settings choose, with slots for `concurrency` queries.

    Raises:
        ConfigError: The settings cannot be carried out.
        InputError: As `run_demo`.
        EngineError: As `run_demo`, or an engine does not start.
    """
    async with open_funnel(measured(settings, concurrency)) as funnel:
        return await run_demo(
            funnel.draft,
            funnel.agent,
            funnel.calibration,
            count=count,
            seed=seed,
            concurrency=concurrency,
            progress=progress,
        )


def stages(count: int) -> dict[str, int]:
    """How many steps `progress` will be told of, by stage."""
    return {WARMING_UP: 1, COSTS: COST_QUERIES, **{name.value: count for name in SYSTEMS}}


def make_folder(folder: Path) -> None:
    """Make the folder, before any work is done for it.

    Raises:
        ConfigError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(folder, error) from error


def save_demo(demo: Demo, folder: Path) -> list[Path]:
    """Write `summary.json`, `answers.jsonl` (every answer of every system), `demo.png` and `demo.html`.

    Raises:
        ConfigError: The folder cannot be written.
    """
    files = [folder / name for name in ("summary.json", "answers.jsonl", "demo.png", "demo.html")]
    make_folder(folder)
    try:
        files[0].write_text(json.dumps(demo.summary.as_json(), indent=1) + "\n")
        files[1].write_text("".join(f"{json.dumps(row)}\n" for row in answer_rows(demo.courses)))
        draw_demo(demo.summary, demo.tiles, demo.subtitle).save(files[2])
        files[3].write_text(write_page(demo.summary, demo.tiles, demo.subtitle), encoding="utf-8")
    except OSError as error:
        raise _not_writable(folder, error) from error
    return files


def _not_writable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(f"{folder} cannot be written: {error.strerror or error}. Choose another folder (--out).")


def answer_rows(courses: Mapping[SystemName, Course]) -> list[dict[str, Any]]:
    """One row for each sample and system."""
    return [_row(name, course, i) for name, course in courses.items() for i in range(len(course.results))]


def _row(name: SystemName, course: Course, index: int) -> dict[str, Any]:
    result = course.results[index]
    sample, reply = result.sample, result.reply
    row: dict[str, Any] = {
        "system": name.value,
        "id": sample.id,
        "kind": sample.kind.value,
        "size": sample.size.value,
        "tool_helps": sample.tool_helps,
        "question": sample.question,
        "gold": sample.gold,
        "answer": reply.text,
        "right": result.right,
        "seconds": reply.seconds,
        "error": reply.error,
    }
    if name is SystemName.SPECEYES and reply.answer is not None:
        trace = reply.answer.trace
        row["route"], row["reason"], row["score"] = reply.answer.route, reply.answer.reason, reply.answer.score
        row["help_probability"] = trace.screening.help_probability if trace.screening else None
        row["draft"] = trace.draft.text if trace.draft else None
        row["looks"] = [draft.text for draft in trace.closer]
        row["depth"] = trace.run.depth if trace.run else trace.answering.depth if trace.answering else 0
    return row


def _samples_for_costs(seed: int) -> tuple[list[Sample], list[Sample]]:
    """Two sets with the same mix of questions, and one more of each to warm up with.

    Their scenes come from the far end of the seed's, where the race does not get to.
    """
    first = MADE + seed * SPAN + SPAN // 2
    return make_samples(COST_QUERIES + 1, 0, first), make_samples(COST_QUERIES + 1, 0, first + SPAN // 4)
