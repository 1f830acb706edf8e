"""What a run is: from options, settings and open models to the content of `run.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speceyes.errors import ConfigError
from speceyes.evals.baselines import Models
from speceyes.evals.datasets.readers import Dataset
from speceyes.evals.race import split
from speceyes.evals.records.manifest import machine, now, versions
from speceyes.evals.records.session import make_manifest
from speceyes.evals.runs.format import DatasetFacts, GateFacts, Header, ModelFacts, Session
from speceyes.evals.systems import SystemName
from speceyes.gating import Calibration

BLOCK = 20


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """Who is compared, and how.

    Attributes:
        systems: Who, each once.
        rule: What counts as right.
        limit: Only the first so many questions. None: all.
        concurrency: Queries that each system has under way at a time; the answers are kept of the first, the others
            are only timed.
        batch: Sizes at which screening and drafting alone are timed.
        block: About how many questions a block may have.
        seed: Of the random gate and of the resamples.
        images: Keep thumbnails.
        command: How it was started, for the run's header.

    Raises:
        ConfigError: A number is out of range, or no system is named.
    """

    systems: tuple[SystemName, ...]
    rule: str = "strict"
    limit: int | None = None
    concurrency: tuple[int, ...] = (1,)
    batch: tuple[int, ...] = ()
    block: int = BLOCK
    seed: int = 0
    images: bool = True
    command: str = ""

    def __post_init__(self) -> None:
        if not self.systems or len(set(self.systems)) != len(self.systems):
            raise ConfigError("name the systems to compare, each once")
        for name, numbers in (("concurrency", self.concurrency), ("batch", self.batch)):
            if any(number < 1 for number in numbers) or len(set(numbers)) != len(numbers):
                raise ConfigError(f"{name} {numbers}: these must be 1 or more, each once")
        if not self.concurrency:
            raise ConfigError("concurrency needs a number")
        if self.block < 1 or (self.limit is not None and self.limit < 1) or self.seed < 0:
            raise ConfigError("block and limit must be 1 or more, and seed 0 or more")


def make_header(dataset: Dataset, models: Models, options: EvalOptions, urls: Mapping[str, object]) -> Header:
    """The header of a run that begins now; `urls` says where each role's model is served, if it is on a server."""
    manifest = make_manifest(dataset, models.draft, models.agent)
    prompts = {name: value for name, value in manifest.bound_to.items() if name.endswith("prompt")}
    asked = len(dataset.items[: options.limit])
    names = [name.value for name in options.systems]
    return Header(
        dataset=DatasetFacts(
            dataset.name,
            dataset.kind,
            dataset.digest,
            len(dataset.items),
            asked,
            dataset.shuffle_seed,
            dataset.form,
            dict(dataset.files),
        ),
        systems=tuple(names),
        models={
            "draft": ModelFacts(models.draft.engine.model, models.draft.identity, _shown(urls.get("draft"))),
            "agent": ModelFacts(models.agent.engine.model, models.agent.identity, _shown(urls.get("agent"))),
        },
        gate=gate_facts(models.calibration),
        rule=options.rule,
        concurrency=options.concurrency,
        batch=options.batch,
        block=options.block,
        blocks=len([block for block in split(range(asked), len(names), options.block) if block]),
        seed=options.seed,
        images=options.images,
        settings={**manifest.setup, **prompts, "logprobs": models.draft.logprobs, "plan": models.plan},
        sessions=(Session(now(), options.command, versions(), machine()),),
    )


def gate_facts(calibration: Calibration) -> GateFacts:
    """What a run keeps of its calibration."""
    return GateFacts(
        score=calibration.score,
        k=calibration.k,
        aggregate=calibration.aggregate,
        threshold=calibration.threshold,
        screen_threshold=calibration.screen_threshold,
        method=calibration.method,
        alpha=calibration.alpha,
        delta=calibration.delta,
    )


def _shown(url: object) -> str | None:
    """A server's address without what may be secret in it."""
    return None if url is None else str(url).rpartition("@")[2] if "@" in str(url) else str(url)
