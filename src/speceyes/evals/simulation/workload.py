"""What queries take, as recorded: the only thing about models that a simulation knows.

A simulation draws whole queries from a record, so that whatever belongs together stays together: a query that a tool
helps has a long agent run and is rarely let through.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from speceyes.errors import InputError
from speceyes.evals.records import RecordTable, load_run, read_rows
from speceyes.evals.records.manifest import Manifest
from speceyes.evals.records.schema import Row
from speceyes.evals.records.table import BoolArray
from speceyes.gating import AnswerTable, Calibration
from speceyes.gating.separability import FloatArray
from speceyes.scheduling import kind_of
from speceyes.scheduling.plan import Chances, Times


@dataclass(frozen=True, slots=True)
class QueryTimes:
    """One query's seconds on servers that have nothing else to do, and what phases I and III say of it.

    Attributes:
        screen: Phase I.
        draft: Phase II.
        agent: A whole agent run of a query that was not screened.
        agent_after_screen: Of one that was.
        let_through: Whether phase I lets it through.
        passed: Whether the gate passes its draft.
        closer: The draft model's own closer looks, made where the draft is refused. 0: there are none.
        passed_closer: Whether the gate passes what it says after one of them.
        look: Resizing and encoding its images, which is done beside the servers.
        turns: Calls of its agent run.
        kind: What it is like, for `auto`.
    """

    screen: float
    draft: float
    agent: float
    agent_after_screen: float
    let_through: bool
    passed: bool
    closer: float = 0.0
    passed_closer: bool = False
    look: float = 0.0
    turns: int = 1
    kind: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the draft is the answer, where both phases are asked."""
        return self.let_through and self.passed


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries to draw from.

    Attributes:
        queries: What each takes.
        left_out: Recorded queries that are not among them, since a phase failed or did not run.
        concurrency: The most queries that were under way at a time while they were recorded; None: not known.

    Raises:
        InputError: There are no queries, or one of their times is negative or no number.
    """

    queries: tuple[QueryTimes, ...]
    left_out: int = 0
    concurrency: int | None = None

    def __post_init__(self) -> None:
        if not self.queries:
            raise InputError("There are no service times to simulate with: no query was recorded with all its phases.")
        for query in self.queries:
            seconds = (query.look, query.screen, query.draft, query.closer, query.agent, query.agent_after_screen)
            if not all(0.0 <= value < float("inf") for value in seconds) or query.turns < 1:
                raise InputError(f"{query}: seconds must be at least 0, and an agent run has at least one turn.")

    def drawn(self, count: int, rng: np.random.Generator) -> list[QueryTimes]:
        """So many queries, each as likely as any other, with replacement."""
        return [self.queries[i] for i in rng.integers(len(self.queries), size=count)]

    def in_order(self, count: int) -> list[QueryTimes]:
        """The queries as they stand, over again where there are too few."""
        return [self.queries[i % len(self.queries)] for i in range(count)]

    @property
    def at_a_glance(self) -> Workload:
        """The same without the draft model's own closer looks."""
        glances = (replace(query, closer=0.0, passed_closer=False) for query in self.queries)
        return replace(self, queries=tuple(glances))

    @property
    def times(self) -> Times:
        """Mean seconds of each part over all queries."""
        means = (
            statistics.fmean(getattr(query, name) for query in self.queries) for name in Times.__dataclass_fields__
        )
        return Times(*means)

    @property
    def left_over(self) -> float:
        """Share of the queries that the agent answers where both phases and the draft model's own looks come first."""
        return statistics.fmean(not (query.accepted or query.passed_closer) for query in self.queries)

    @property
    def chances(self) -> Chances:
        """How often phases I and III agree on the first look."""
        count = len(self.queries)
        let, passed, accepted = (
            sum(getattr(query, name) for query in self.queries) / count
            for name in ("let_through", "passed", "accepted")
        )
        return Chances.nearest(let, passed, accepted)


def load_workload(path: str | Path, calibration: Calibration, max_depth: int | None = None) -> Workload:
    """The queries of a recorded run, judged by a calibration.

    A record times the agent's run after screening only. It stands here for the run without it, too, which takes a
    little longer; so speedups are rather under- than overestimated.

    Args:
        path: The run's folder.
        calibration: Names score, K, aggregate and both thresholds.
        max_depth: Closer looks of the draft model's own. None: as many as the calibration was made for.

    Raises:
        DatasetError: There is no run, it has no rows, or it is damaged.
        CalibrationMismatch: It was made with other models or prompts than the calibration, or that for other looks.
        ConfigError: It cannot be scored so, or pyarrow is not installed.
        InputError: No query has all its phases, the run was recorded with fewer closer looks than the calibration
            allows, or it grew while it was read.
    """
    table = load_run(path)
    rows = list(read_rows(path, ["look_seconds", "agent_turns", "image_width", "image_height", "question"]))
    if len(rows) != len(table):
        raise InputError(f"{path} is being recorded right now and grew while it was read. Try again.")
    sessions = Manifest.load(Path(path)).sessions
    return workload_of(table, rows, calibration, max((s.concurrency for s in sessions), default=None), max_depth)


def workload_of(
    table: RecordTable,
    rows: Sequence[Row],
    calibration: Calibration,
    concurrency: int | None = None,
    max_depth: int | None = None,
) -> Workload:
    """As `load_workload`, of a run that has been read.

    Args:
        table: The run as arrays.
        rows: The same run's `look_seconds`, `agent_turns`, `image_width`, `image_height` and `question`.
        calibration: Names score, K, aggregate and both thresholds.
        concurrency: Of the recording.
        max_depth: As for `load_workload`.
    """
    depth = (calibration.max_depth or 0) if max_depth is None else max_depth
    calibration.check(**table.bound_to, max_depth=depth)
    if depth > len(table.closer):
        raise InputError(
            f"The draft model is to look closer up to {depth} times, and the run was recorded with "
            f"{len(table.closer)}: record it again with --max-depth {depth}."
        )
    passed = _passes(table.answers, table.draft_usable, calibration)
    let = table.screened(calibration.screen_threshold)
    closer, passed_closer = _looks(table, calibration, depth)
    queries = []
    for i in np.flatnonzero(table.complete_to(depth)).tolist():
        row, agent = rows[i], float(table.agent_seconds[i])
        sizes = list(zip(row["image_width"] or (), row["image_height"] or (), strict=True))
        queries.append(
            QueryTimes(
                screen=float(table.screen_seconds[i]),
                draft=float(table.draft_seconds[i]),
                agent=agent,
                agent_after_screen=agent,
                let_through=bool(let[i]),
                passed=bool(passed[i]),
                closer=float(closer[i]),
                passed_closer=bool(passed_closer[i]),
                look=row["look_seconds"] or 0.0,
                turns=max(1, row["agent_turns"] or 1),
                kind=kind_of(sizes, row["question"]),
            )
        )
    return Workload(tuple(queries), len(table) - len(queries), concurrency)


def _passes(answers: AnswerTable, usable: BoolArray, calibration: Calibration) -> BoolArray:
    scores = answers.score(calibration.score, calibration.k, calibration.aggregate).values
    passes: BoolArray = usable & (scores >= (np.inf if calibration.threshold is None else calibration.threshold))
    return passes


def _looks(table: RecordTable, calibration: Calibration, depth: int) -> tuple[FloatArray, BoolArray]:
    """Of each query the seconds of its closer looks, up to the first that the gate passes or that fails, and whether
    there is one that it passes. After a draft that failed there are none."""
    seconds, passed, looking = np.zeros(len(table)), np.zeros(len(table), np.bool_), ~np.isnan(table.draft_seconds)
    for closer in table.closer[:depth]:
        looking = looking & ~np.isnan(closer.seconds)
        seconds += np.where(looking, np.nan_to_num(closer.seconds), 0.0)
        now = looking & _passes(closer.answers, closer.usable, calibration)
        passed |= now
        looking &= ~now
    return seconds, passed
