"""Running an evaluation: every system answers every question, in turns, and each answer is kept at once.

First one question warms both models up. Where it is needed, phases I to III then judge every question (`judging`).
Then the systems take turns at blocks of questions (`evals/race.py`), once for each concurrency. A block whose lap is
written down without errors is done. Any other is run again, all of it, for its time is only worth something as a whole.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from speceyes.config import FunnelSettings, Settings
from speceyes.errors import EngineError, ImageError
from speceyes.evals.baselines import Models, draw, make_system
from speceyes.evals.datasets.readers import Dataset, Item
from speceyes.evals.race import Lap as Timed
from speceyes.evals.race import run_block, schedule, split
from speceyes.evals.runs.format import Lap
from speceyes.evals.runs.headers import EvalOptions, make_header
from speceyes.evals.runs.judging import STATELESS, Stateless
from speceyes.evals.runs.keeping import RunKeeper
from speceyes.evals.runs.loading import EvalRun, open_run
from speceyes.evals.runs.marking import mark_reply, mark_text
from speceyes.evals.runs.rows import judged_line, result_line, sample_line
from speceyes.evals.runs.summary import summarise
from speceyes.evals.systems import Answering, Question, Reply, SystemName
from speceyes.imaging.looks import look
from speceyes.phases import fall_back, screen, speculate
from speceyes.types import Query
from speceyes.wiring import open_agent, open_draft
from speceyes.wiring.funnel import find_calibration

PATIENCE: Final = 20
"""So many queries in a row that no server answers, and the run stops: it would only write down errors."""
AT_LEAST: Final = 3
"""A block of the stateless front has at least so many times as many questions as are under way at a time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Who is told how far a run is.

    Attributes:
        begin: Of each stage, by its name: how many queries are done already, and how many there are.
        done: Of each query that is done, by its stage.
    """

    begin: Callable[[Mapping[str, tuple[int, int]]], None] = lambda stages: None
    done: Callable[[str], None] = lambda stage: None


@dataclass(frozen=True, slots=True)
class Step:
    """One block of questions for one system."""

    system: str
    concurrency: int
    block: int

    @property
    def stage(self) -> str:
        """As what progress shows it."""
        return f"{self.system}, {self.concurrency} at a time"


@dataclass(slots=True)
class Race:
    """Blocks, and the order in which they are run."""

    blocks: Sequence[Sequence[Item]]
    steps: list[Step] = field(default_factory=list)


async def evaluate(
    settings: Settings, dataset: Dataset, folder: Path, options: EvalOptions, progress: Progress | None = None
) -> EvalRun:
    """Evaluate systems on a data set, or go on with that.

    Args:
        settings: Which models, which gate, which plan. The funnel's other settings do not count: its places follow
            from the concurrency, and no query has a deadline.
        dataset: The questions.
        folder: The run's folder.
        options: Who is compared, and how.
        progress: Is told how far it is.

    Raises:
        ConfigError: The settings or options cannot be carried out, or the folder holds something else.
        EngineError: A server is not set up as it must be, or has failed `PATIENCE` times in a row.
    """
    calibration = find_calibration(settings)  # its faults show before anything is started
    most = max(*options.concurrency, *options.batch, 1)
    slots = settings.model_copy(update={"funnel": FunnelSettings(stateless=most, loops=most)})
    async with open_draft(slots) as draft, open_agent(slots) as agent:
        models = Models(draft, agent, calibration, settings.funnel.plan)
        urls = {"draft": settings.draft.url, "agent": settings.agent.url}
        return await evaluate_models(models, dataset, folder, options, progress, urls=urls)


async def evaluate_models(
    models: Models,
    dataset: Dataset,
    folder: Path,
    options: EvalOptions,
    progress: Progress | None = None,
    *,
    urls: Mapping[str, object] | None = None,
) -> EvalRun:
    """`evaluate` with models that are open already.

    Args:
        models: The pair and the gate.
        dataset: As there; so the rest.
        folder: As there.
        options: As there.
        progress: As there.
        urls: Where the models are served, by role, for the run's header.

    Raises:
        ConfigError: The folder holds something else.
        EngineError: As `evaluate`.
    """
    header = make_header(dataset, models, options, urls or {})
    items = dataset.items[: options.limit]
    with RunKeeper(folder, header, list(map(sample_line, items))) as kept:
        await _Evaluation(models, items, options, kept, progress or Progress()).run()
        kept.finish()
        run = open_run(folder)
        kept.summary(summarise(run))
    return run


class _Evaluation:
    """One stretch of running."""

    def __init__(
        self, models: Models, items: Sequence[Item], options: EvalOptions, kept: RunKeeper, progress: Progress
    ) -> None:
        self._marking = (options.rule, kept.before.header.dataset.kind)
        self._models, self._items, self._options, self._kept = models, items, options, kept
        self._progress = progress
        self._failures = 0
        self._systems: dict[tuple[str, int], Answering] = {}
        self._laps = {(lap.system, lap.concurrency, lap.block): lap for lap in kept.before.laps}
        self._judged = dict(kept.before.judged)
        self._there = Counter((row.system, row.block) for rows in kept.before.results.values() for row in rows)

    async def run(self) -> None:
        races = [front_race(self._items, self._options), main_race(self._items, self._options)]
        left = [(race, [step for step in race.steps if not self._done(race, step)]) for race in races]
        self._progress.begin(_stages(left))
        if any(steps for _, steps in left):
            await self._warm_up()
        for race, steps in left:
            for step in steps:
                await self._run(step, race.blocks[step.block])

    async def _run(self, step: Step, block: Sequence[Item]) -> None:
        """One block of questions for one system, and its lap."""
        tell = self._judge if step.system == STATELESS else self._take
        items = {item.id: item for item in block}
        right: list[bool | None] = []
        failed: list[str] = []

        def told(question: Question, reply: Reply) -> None:
            right.append(tell(step, items[question.id], reply))
            if lost := may_pass(reply.error):
                failed.append(question.id)
            self._count(lost, reply)
            self._progress.done(step.stage)

        lap = await run_block(self._system(step), list(map(self._question, block)), step.concurrency, told)
        self._kept.results.sync()
        self._kept.laps.append(_lap(step, lap[1], right, len(failed)))

    def _system(self, step: Step) -> Answering:
        """The same one from block to block: a plan that adapts has something to learn from."""
        key = (step.system, step.concurrency)
        if step.system == STATELESS:
            return Stateless(self._models)
        if key not in self._systems:
            self._systems[key] = make_system(SystemName(step.system), self._models, step.concurrency, self._drawn())
        return self._systems[key]

    def _drawn(self) -> frozenset[str]:
        """What the random gate accepts."""
        let_through = [line.id for line in self._judged.values() if line.let_through]
        return draw(let_through, sum(line.accepted for line in self._judged.values()), self._options.seed)

    def _question(self, item: Item) -> Question:
        def load() -> Query:
            image = item.image()
            self._kept.see(sample_line(item).id, image)
            return Query(item.prompt, (image,), id=item.id)

        return Question(item.id, load, lambda text: mark_text(text, item, *self._marking).right)

    def _take(self, step: Step, item: Item, reply: Reply) -> bool | None:
        """Keep a system's answer, where it is the run's own: the other concurrencies are only timed."""
        mark = mark_reply(reply, item, *self._marking)
        row = result_line(SystemName(step.system), item, step.block, reply, mark, self._models.agent.dialect)
        if step.concurrency == self._options.concurrency[0]:
            self._kept.results.append(row)
        return row.right

    def _judge(self, step: Step, item: Item, reply: Reply) -> bool | None:
        """Keep what the gate says, the first time that it says something."""
        line = judged_line(item, reply, self._models.calibration)
        before = self._judged.get(line.id)
        if before is None or before.error is not None:
            self._judged[line.id] = line
            self._kept.judged.append(line)
        return None

    def _count(self, lost: bool, reply: Reply) -> None:
        self._failures = self._failures + 1 if lost else 0
        if self._failures >= PATIENCE:
            raise EngineError(
                f"{PATIENCE} queries in a row failed, the last one with {reply.error}. Nothing that was answered is "
                "lost. Once the server works again, start the same command again."
            )

    def _done(self, race: Race, step: Step) -> bool:
        lap = self._laps.get((step.system, step.concurrency, step.block))
        if lap is None or lap.errors:
            return False
        if step.system == STATELESS or step.concurrency != self._options.concurrency[0]:
            return True
        return self._there[step.system, step.block] == len(race.blocks[step.block])

    async def _warm_up(self) -> None:
        """One question through all phases: a server's first answers take longer than those that follow.

        It is the last of the set, so that the prompt cache has forgotten it when its turn comes.
        """
        item, agent, draft = self._items[-1], self._models.agent, self._models.draft
        try:
            query = Query(item.prompt, (await asyncio.to_thread(item.image),), id=item.id)
            views = await look(query.images, agent.dialect.limits)
            await screen(query, views, agent)
            await speculate(query, await look(query.images, draft.limits, like=views), draft)
            await fall_back(query, views, agent)
        except ImageError:
            return  # it has a row of its own in its turn
        except EngineError as error:
            if error.misconfigured:
                raise


def front_race(items: Sequence[Item], options: EvalOptions) -> Race:
    """Phases I to III alone: at each of the batch sizes, or once where only the random gate asks for it."""
    sizes = options.batch or ((options.concurrency[0],) if SystemName.RANDOM in options.systems else ())
    if not sizes:
        return Race([])
    blocks = split(items, len(sizes), max(options.block, AT_LEAST * max(sizes)))
    steps = [Step(STATELESS, sizes[index], block) for index, block in schedule(len(sizes), len(blocks))]
    return Race(blocks, [step for step in steps if blocks[step.block]])


def main_race(items: Sequence[Item], options: EvalOptions) -> Race:
    """All systems on all blocks, at one concurrency after another."""
    names = options.systems
    blocks = split(items, len(names), options.block)
    steps = [
        Step(names[index].value, concurrency, block)
        for concurrency in options.concurrency
        for index, block in schedule(len(names), len(blocks))
    ]
    return Race(blocks, [step for step in steps if blocks[step.block]])


def _stages(left: Sequence[tuple[Race, Sequence[Step]]]) -> dict[str, tuple[int, int]]:
    """Of each stage, how many queries are done and how many there are."""
    found: dict[str, tuple[int, int]] = {}
    for race, steps in left:
        missing = set(steps)
        for step in race.steps:
            there, wanted = found.get(step.stage, (0, 0))
            count = len(race.blocks[step.block])
            found[step.stage] = there + (0 if step in missing else count), wanted + count
    return found


def may_pass(error: str | None) -> bool:
    """Whether an error may be gone the next time. A picture that cannot be read stays unreadable."""
    return error is not None and not error.startswith(ImageError.__name__)


def _lap(step: Step, timed: Timed, right: Sequence[bool | None], errors: int) -> Lap:
    known = [flag for flag in right if flag is not None]
    return Lap(
        step.system,
        step.block,
        step.concurrency,
        timed.queries,
        round(timed.seconds, 6),
        sum(known) if known else None,
        errors,
    )
