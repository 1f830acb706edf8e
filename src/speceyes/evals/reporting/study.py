"""Several evaluation runs as one study: their columns, their summaries, and SpecEyes against the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from speceyes.errors import InputError
from speceyes.evals.reporting.columns import (
    Column,
    Figures,
    accuracy_figures,
    averaged,
    columns_of,
    labels_of,
    speed_figures,
)
from speceyes.evals.reporting.intervals import mean_of, widened
from speceyes.evals.reporting.names import AGENT, SPECEYES, ordered
from speceyes.evals.reporting.verdict import Compared
from speceyes.evals.reporting.words import Ranged
from speceyes.evals.runs import EvalRun, open_run
from speceyes.evals.runs.summary import summarise
from speceyes.evals.statistics.bootstrap import Estimate
from speceyes.evals.statistics.paired import CONFIDENCE
from speceyes.evals.statistics.shares import Share
from speceyes.gating.separability import FloatArray


@dataclass(frozen=True)
class Study:
    """The runs of one report.

    Attributes:
        runs: In the order given.
        labels: A name for each.
        summaries: `summarise` of each.
        columns: Of all runs, in their order.
        systems: Who took part in any of them, in the order of the tables.
    """

    runs: tuple[EvalRun, ...]
    labels: tuple[str, ...]
    summaries: tuple[Mapping[str, Any], ...]
    columns: tuple[Column, ...]
    systems: tuple[str, ...]

    @cached_property
    def accuracies(self) -> tuple[Figures, ...]:
        """For each column."""
        return tuple(accuracy_figures(column, self.runs[column.run], self.systems) for column in self.columns)

    @cached_property
    def speeds(self) -> tuple[Figures, ...]:
        """For each column, over the agent."""
        return tuple(speed_figures(column, self.runs[column.run], self.systems) for column in self.columns)

    @cached_property
    def _speed_draws(self) -> tuple[FloatArray, ...]:
        return tuple(figures.draws(self._seed(place)) for place, figures in enumerate(self.speeds))

    def _seed(self, column: int) -> int:
        return self.runs[self.columns[column].run].header.seed

    @cached_property
    def averaged(self) -> tuple[int, ...]:
        """Numbers of the columns that the mean is over; none where it would be over one."""
        kept = averaged(self.columns)
        return tuple(place for place, column in enumerate(self.columns) if column in kept) if len(self.runs) > 1 else ()

    @property
    def nano(self) -> bool:
        """Whether any run is about generated scenes or by the nano models: nothing that published figures are about."""
        return any(is_nano(run) for run in self.runs)

    def accuracy(self, column: int, system: str) -> Ranged:
        """Accuracy with Wilson's interval."""
        figures, place = self.accuracies[column], self.systems.index(system)
        return Ranged.of(Share(int(figures.above[:, place].sum()), int(figures.below[:, place].sum())))

    def speedup(self, column: int, system: str) -> Ranged:
        """Speedup over the agent; the agent's own is 1. That of a whole run is the summary's."""
        figures, place = self.speeds[column], self.systems.index(system)
        if system == AGENT:
            return Ranged(1.0) if figures.below[:, place].sum() > 0 else Ranged(None)
        if self.columns[column].timed:
            return Ranged.read(self.summary_of(column, system).get("speedup"))
        return Ranged.of(Estimate.of(float(figures.values[place]), self._speed_draws[column][:, place], CONFIDENCE))

    def summary_of(self, column: int, system: str) -> Mapping[str, Any]:
        """A system's part of the summary of a column's run; empty where it took no part."""
        found: Mapping[str, Any] = self.summaries[self.columns[column].run]["systems"].get(system, {})
        return found

    def difference(self, column: int, first: str, second: str) -> Ranged:
        """The first's accuracy less the second's on the questions that both were asked, paired."""
        figures = self.accuracies[column]
        mine, theirs = self.systems.index(first), self.systems.index(second)
        both = (figures.below[:, mine] > 0) & (figures.below[:, theirs] > 0)
        step = np.where(both, figures.above[:, mine] - figures.above[:, theirs], 0.0)
        paired = Figures(step[:, None], both[:, None].astype(np.float64), figures.groups)
        found = Estimate.of(float(paired.values[0]), paired.draws(self._seed(column))[:, 0], CONFIDENCE)
        return widened(Ranged.of(found), int((step > 0).sum()), int((step < 0).sum()), int(both.sum()))

    def mean_accuracy(self, system: str) -> Ranged:
        """Unweighted mean over the columns that are averaged."""
        return mean_of([self.accuracy(place, system) for place in self.averaged])

    def mean_speedup(self, system: str) -> Ranged:
        """Unweighted mean of the columns' speedups."""
        return mean_of([self.speedup(place, system) for place in self.averaged])

    @cached_property
    def compared(self) -> Compared | None:
        """SpecEyes against the agent, over everything; None where one of them did not run everywhere."""
        if any(name not in run.header.systems for name in (AGENT, SPECEYES) for run in self.runs):
            return None
        questions = sum(len(_both(run)) for run in self.runs)
        errors = max(
            sum(row.error is not None for run in self.runs for row in run.results[name])
            / max(1, sum(len(run.results[name]) for run in self.runs))
            for name in (AGENT, SPECEYES)
        )
        complete = all(run.complete for run in self.runs)
        if self.averaged:
            return Compared(
                self.mean_accuracy(AGENT), self.mean_accuracy(SPECEYES),
                mean_of([self.difference(place, SPECEYES, AGENT) for place in self.averaged]),
                self.mean_speedup(SPECEYES), questions, len(self.averaged), errors, complete,
            )  # fmt: skip
        whole = self.whole(0)
        return Compared(
            self.accuracy(whole, AGENT), self.accuracy(whole, SPECEYES), self.difference(whole, SPECEYES, AGENT),
            self.speedup(whole, SPECEYES), questions, 1, errors, complete,
        )  # fmt: skip

    def whole(self, run: int) -> int:
        """The column that holds all of a run."""
        return next(place for place, column in enumerate(self.columns) if column.run == run and column.timed)


def study(folders: Sequence[Path]) -> Study:
    """Read the runs.

    Raises:
        DatasetError: A folder holds no run, or a damaged one.
        InputError: A folder is named twice.
    """
    places = [folder.resolve() for folder in folders]
    for place in places:
        if places.count(place) > 1:
            raise InputError(f"{place} is named twice; a report counts each run once.")
    runs = tuple(open_run(folder) for folder in folders)
    labels = labels_of(runs)
    columns = [c for number, run in enumerate(runs) for c in columns_of(number, run, labels[number])]
    systems = ordered([name for run in runs for name in run.header.systems])
    return Study(runs, tuple(labels), tuple(summarise(run) for run in runs), tuple(columns), tuple(systems))


def is_nano(run: EvalRun) -> bool:
    """Whether a run is about generated scenes, or by the nano models."""
    named = any(model.name.startswith("nano") for model in run.header.models.values())
    return named or run.header.dataset.kind == "nano"


def _both(run: EvalRun) -> set[str]:
    return run.answers[AGENT].keys() & run.answers[SPECEYES].keys()
