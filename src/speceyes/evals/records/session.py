"""One stretch of recording: the models that the settings choose, a data set, and the run that they go into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from speceyes.agents import default_budget
from speceyes.config import FunnelSettings, Settings
from speceyes.errors import InputError
from speceyes.evals.datasets.readers import Dataset
from speceyes.evals.records.manifest import MAX_DEPTH, DatasetFacts, Manifest, Session, machine, now, versions
from speceyes.evals.records.recorder import record
from speceyes.evals.records.schema import Row
from speceyes.evals.records.writer import ROWS_PER_PART, RunWriter
from speceyes.imaging.resize import PixelLimits
from speceyes.phases import AgentModel, DraftModel
from speceyes.phases.gate import in_use
from speceyes.wiring import open_agent, open_draft

RAW = "raw"
"""How llama.cpp in this process gives log-probs: before temperature and the like."""


async def record_dataset(
    settings: Settings,
    dataset: Dataset,
    folder: Path,
    *,
    limit: int | None = None,
    concurrency: int = 1,
    retry_errors: bool = False,
    rows_per_part: int = ROWS_PER_PART,
    command: str = "",
    begin: Callable[[int, int], None] = lambda there, wanted: None,
    done: Callable[[Row], None] = lambda row: None,
) -> None:
    """Record a data set into a run, or what the run lacks of it.

    Args:
        settings: Which models, and how they are asked.
        dataset: The questions.
        folder: The run's folder.
        limit: Only the first so many questions. None: all.
        concurrency: Questions under way at a time.
        retry_errors: Record questions again whose rows hold an error.
        rows_per_part: Rows of one Parquet file.
        command: How this was started, for the manifest.
        begin: Is told, once, how many of the wanted questions are there already, and how many are wanted.
        done: Is told of each new row.

    Raises:
        InputError: The limit is below 1.
        ConfigError: The settings cannot be carried out, or the folder holds something else.
        EngineError: As `record`, or an engine does not start.
    """
    if limit is not None and limit < 1:
        raise InputError(f"The limit is {limit}; it must be 1 or more.")
    items = dataset.items[:limit]
    slots = settings.model_copy(update={"funnel": FunnelSettings(stateless=concurrency, loops=concurrency)})
    session = Session(
        started=now(),
        command=command,
        concurrency=concurrency,
        limit=limit,
        versions=versions(),
        machine=machine(),
    )
    async with open_draft(slots) as draft, open_agent(slots) as agent:
        mode = RAW if settings.draft.url is None else None
        manifest = make_manifest(dataset, draft, agent, logprob_mode=mode)
        with RunWriter(folder, manifest, session=session, rows_per_part=rows_per_part) as writer:
            if retry_errors:
                writer.drop_failed()
            begin(sum(item.id in writer.ids for item in items), len(items))
            await record(items, draft, agent, writer, concurrency=concurrency, done=done)


def make_manifest(
    dataset: Dataset, draft: DraftModel, agent: AgentModel, *, logprob_mode: str | None = None
) -> Manifest:
    """What a run of these models on this data set is recorded with.

    Args:
        dataset: The questions.
        draft: The draft model.
        agent: The agent.
        logprob_mode: `raw` or `processed`, where the draft's server is known to give the one or the other.
    """
    mode = {} if logprob_mode is None else {"logprob_mode": logprob_mode}
    budget = agent.budget or default_budget(agent.dialect)
    return Manifest(
        dataset=DatasetFacts(name=dataset.name, kind=dataset.kind, digest=dataset.digest, samples=len(dataset.items)),
        bound_to=in_use(draft, agent) | mode,
        k=draft.logprobs,
        setup={
            "draft_pixels": _pixels(draft.limits),
            "draft_max_tokens": draft.max_tokens,
            MAX_DEPTH: draft.max_depth,
            "agent_pixels": _pixels(agent.dialect.limits),
            "agent_dialect": agent.dialect.name,
            **{f"agent_{name}": value for name, value in asdict(budget).items()},
        },
    )


def _pixels(limits: PixelLimits) -> str:
    return f"{limits.min_pixels} to {limits.max_pixels} in steps of {limits.factor}"
