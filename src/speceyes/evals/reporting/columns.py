"""The columns of the paper's table: benchmarks and their parts, and what every system did in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from speceyes.evals.published import COLUMNS
from speceyes.evals.reporting.names import AGENT, SETS
from speceyes.evals.runs import EvalRun, Lap, Result
from speceyes.evals.runs.summary import clusters
from speceyes.evals.statistics.bootstrap import resamples
from speceyes.evals.statistics.paired import REPLICATES
from speceyes.gating.separability import FloatArray, IntArray

_SPLIT: Final = ("vstar", "pope")
"""Formats whose categories are columns of the published table."""
_PARTS: Final = {
    "direct_attributes": "attributes",
    "relative_position": "positions",
    "adversarial": "adversarial",
    "popular": "popular",
    "random": "random",
}


@dataclass(frozen=True, slots=True)
class Column:
    """Some or all questions of a run.

    Attributes:
        run: Number of the run.
        span: The benchmark, for the head above.
        head: The part of it; "all" beside parts, empty where there are no parts.
        key: The published column that it stands for; empty for none.
        ids: Its questions.
        part: Whether it is one part of several. The mean is taken over parts, and over what has none.
        timed: Whether its speedup is from wall times. Those of a part are from its questions' own times.
    """

    run: int
    span: str
    head: str
    key: str
    ids: tuple[str, ...]
    part: bool
    timed: bool

    @property
    def name(self) -> str:
        """Span and head in one."""
        return f"{self.span} {self.head}".strip()


def columns_of(number: int, run: EvalRun, label: str) -> list[Column]:
    """A run's columns: its parts where it has some, then all of it."""
    kind = run.header.dataset.kind
    ids = tuple(sample.id for sample in run.samples)
    parts: dict[str, list[str]] = {}
    if kind in _SPLIT:
        for sample in run.samples:
            parts.setdefault(sample.category, []).append(sample.id)
    found = [
        Column(number, label, _PARTS.get(part, part), _key(kind, part), tuple(members), True, False)
        for part, members in parts.items()
        if len(parts) > 1
    ]
    only = next(iter(parts), "") if len(parts) == 1 else _resolution(run)
    return [*found, Column(number, label, "all" if found else "", "" if found else _key(kind, only), ids, False, True)]


def averaged(columns: Sequence[Column]) -> list[Column]:
    """Those that the mean is over: parts, and benchmarks without parts."""
    return [column for column in columns if column.part or column.head != "all"]


def labels_of(runs: Sequence[EvalRun]) -> list[str]:
    """A name for each run; where two would have the same, their folders tell them apart."""
    plain = [_label(run) for run in runs]
    return [
        f"{label} ({run.folder.name})" if plain.count(label) > 1 else label
        for label, run in zip(plain, runs, strict=True)
    ]


def _label(run: EvalRun) -> str:
    facts = run.header.dataset
    label = SETS.get(facts.kind, facts.kind)
    if facts.kind == "hrbench" and (size := _resolution(run)):
        return f"{label} {size.upper()}"
    return label


def _resolution(run: EvalRun) -> str:
    """4k or 8k, where the set's name says so."""
    name = run.header.dataset.name.casefold()
    return next((size for size in ("4k", "8k") if size in name), "") if run.header.dataset.kind == "hrbench" else ""


def _key(kind: str, part: str) -> str:
    key = f"{kind}/{part}"
    return key if key in COLUMNS else ""


# Figures


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over a column's units, from which shares and speedups are ratios: of questions, or of blocks.

    Attributes:
        above: What is divided. Shape (M, S): units, systems.
        below: By what. A unit that a system did not do is 0 in both.
        groups: Units that are drawn together, numbered from 0. Shape (M,).
    """

    above: FloatArray
    below: FloatArray
    groups: IntArray

    @property
    def values(self) -> FloatArray:
        """The ratios, NaN where nothing is there. Shape (S,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.above.sum(axis=0) / self.below.sum(axis=0))

    def draws(self, seed: int = 0) -> FloatArray:
        """The ratios in resamples that all systems share. Shape (R, S); R is 0 where there is one group only."""
        drawn = []
        for weights in resamples(self.groups, REPLICATES, seed):
            with np.errstate(divide="ignore", invalid="ignore"):
                drawn.append((weights @ self.above) / (weights @ self.below))
        return np.concatenate(drawn) if drawn else np.empty((0, self.above.shape[1]))


def accuracy_figures(column: Column, run: EvalRun, systems: Sequence[str]) -> Figures:
    """Right answers among those with a known right answer; failed questions are wrong ones."""
    marks = _each(column, run, systems, lambda result: None if result.right is None else float(result.right))
    known = ~np.isnan(marks)
    return Figures(np.nan_to_num(marks), known.astype(np.float64), clusters(run, column.ids))


def speed_figures(column: Column, run: EvalRun, systems: Sequence[str]) -> Figures:
    """The agent's seconds over each system's: of blocks for a whole run, of the questions themselves for a part."""
    if column.timed:
        return _timed(run, systems)
    seconds = _each(column, run, [AGENT, *systems], lambda result: result.seconds)
    agent, others = seconds[:, :1], seconds[:, 1:]
    both = ~np.isnan(agent) & ~np.isnan(others)
    return Figures(np.where(both, agent, 0.0), np.where(both, others, 0.0), clusters(run, column.ids))


def _timed(run: EvalRun, systems: Sequence[str]) -> Figures:
    """As the summary has it: the blocks in which neither the agent nor the system had an error."""
    at = run.header.concurrency[0]
    laps: dict[str, Mapping[int, float]] = {
        name: {lap.block: lap.seconds for lap in run.laps if _counts(lap, name, at)} for name in [AGENT, *systems]
    }
    blocks = sorted(laps[AGENT])
    pairs = [
        [(laps[AGENT][block], laps[name][block]) if block in laps[name] else (0.0, 0.0) for name in systems]
        for block in blocks
    ]
    found = np.array(pairs, dtype=np.float64).reshape(len(blocks), len(systems), 2)
    return Figures(found[..., 0], found[..., 1], np.arange(len(blocks)))


def _counts(lap: Lap, name: str, concurrency: int) -> bool:
    return lap.system == name and lap.concurrency == concurrency and lap.queries > 0 and not lap.errors


def _each(column: Column, run: EvalRun, systems: Sequence[str], what: Callable[[Result], float | None]) -> FloatArray:
    rows: list[list[float]] = []
    for sample in column.ids:
        values = []
        for name in systems:
            result: Result | None = run.answers.get(name, {}).get(sample)
            value = None if result is None else what(result)
            values.append(np.nan if value is None else value)
        rows.append(values)
    return np.array(rows, dtype=np.float64).reshape(len(column.ids), len(systems))
