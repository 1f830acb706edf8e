"""Running an evaluation: every system answers every question, in turns, and each answer is kept at once.

Where it is needed, phases I to III first judge every question (`judging`). Then the systems take turns at blocks of
questions (`evals/race.py`), once for each concurrency. Before each of these races the models are opened anew, and one
question warms them up. A block whose lap is written down without errors is done. Any other is run again, all of it, for
its time is only worth something as a whole.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from speceyes.config import Settings
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
from speceyes.evals.serving import open_models
from speceyes.evals.systems import Answering, Question, Reply, SystemName
from speceyes.imaging.looks import look
from speceyes.phases import fall_back, screen, speculate
from speceyes.types import Query
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
    """Blocks, and the order in which they are run.

    Attributes:
        blocks: The questions, cut up.
        steps: Who takes which block, in order. None of them is empty.
        places: Questions under way at a time, at most.
    """

    blocks: Sequence[Sequence[Item]]
    steps: Sequence[Step] = ()
    places: int = 1


Open = Callable[[int], AbstractAsyncContextManager[Models]]
"""Opens the pair for so many questions at a time."""


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
    urls = {"draft": settings.draft.url, "agent": settings.agent.url}
    return await evaluate_with(
        partial(open_models, settings, calibration), dataset, folder, options, progress, urls=urls
    )


async def evaluate_with(
    open_pair: Open,
    dataset: Dataset,
    folder: Path,
    options: EvalOptions,
    progress: Progress | None = None,
    *,
    urls: Mapping[str, object] | None = None,
) -> EvalRun:
    """`evaluate` with models that are opened otherwise. They are opened anew for each race, so that nothing of one is
    left in a cache when the next begins.

    Args:
        open_pair: Opens the pair and the gate.
        dataset: As there; so the rest.
        folder: As there.
        options: As there.
        progress: As there.
        urls: Where the models are served, by role, for the run's header.

    Raises:
        ConfigError: The folder holds something else.
        EngineError: As `evaluate`.
    """
    items = dataset.items[: options.limit]
    races = [race for race in (front_race(items, options), *main_races(items, options)) if race.steps]
    with ExitStack() as stack:
        evaluation: _Evaluation | None = None
        for race in races:
            if evaluation is not None and not evaluation.left(race):
                continue
            async with open_pair(race.places) as models:
                if evaluation is None:
                    header = make_header(dataset, models, options, urls or {})
                    kept = stack.enter_context(RunKeeper(folder, header, list(map(sample_line, items))))
                    evaluation = _Evaluation(items, options, kept, progress or Progress())
                    evaluation.begin(races)
                await evaluation.run(race, models)
        kept.finish()
        run = open_run(folder)
        kept.summary(summarise(run))
    return run


class _Evaluation:
    """One stretch of running."""

    def __init__(self, items: Sequence[Item], options: EvalOptions, kept: RunKeeper, progress: Progress) -> None:
        self._items, self._options, self._kept, self._progress = items, options, kept, progress
        self._marking = (options.rule, kept.before.header.dataset.kind)
        self._failures = 0
        self._laps = {(lap.system, lap.concurrency, lap.block): lap for lap in kept.before.laps}
        self._judged = dict(kept.before.judged)
        self._there = Counter((row.system, row.block) for rows in kept.before.results.values() for row in rows)

    def begin(self, races: Sequence[Race]) -> None:
        """Tell how much there is to do, and how much is done."""
        self._progress.begin(_stages([(race, self.left(race)) for race in races]))

    def left(self, race: Race) -> list[Step]:
        """What is not done yet."""
        return [step for step in race.steps if not self._done(race, step)]

    async def run(self, race: Race, models: Models) -> None:
        """Do it."""
        steps = self.left(race)
        if not steps:
            return
        self._models: Models = models
        self._systems: dict[str, Answering] = {}
        await self._warm_up()
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
        if step.system not in self._systems:
            self._systems[step.system] = (
                Stateless(self._models)
                if step.system == STATELESS
                else make_system(SystemName(step.system), self._models, step.concurrency, self._drawn())
            )
        return self._systems[step.system]

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
    return Race(blocks, [step for step in steps if blocks[step.block]], max(sizes))


def main_races(items: Sequence[Item], options: EvalOptions) -> list[Race]:
    """All systems on all blocks, once at each concurrency."""
    names = options.systems
    blocks = split(items, len(names), options.block)
    return [
        Race(
            blocks,
            [
                Step(names[index].value, concurrency, block)
                for index, block in schedule(len(names), len(blocks))
                if blocks[block]
            ],
            concurrency,
        )
        for concurrency in options.concurrency
    ]


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
