"""The paper's table, with what it rests on, and the published one beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speceyes.evals.published import COLUMNS, CONDITIONS, ROWS, SOURCE, PublishedCell, PublishedRow
from speceyes.evals.reporting.names import ABOUT, AGENT, system_words
from speceyes.evals.reporting.study import Study
from speceyes.evals.reporting.table import Cell, Row, Section, Table
from speceyes.evals.reporting.words import NONE, Ranged, percent, seconds, times

MEAN = "mean"


def main_table(study: Study) -> Table:
    """Systems as rows; accuracy and speedup for each benchmark, and their mean."""
    columns, spans = [study.columns[place].head for place in range(len(study.columns))], _spans(study)
    if study.averaged:
        columns, spans = [*columns, ""], (*spans, (MEAN, 1))
    rows = tuple(
        Row(system_words(name), tuple(_cells(study, name)), ABOUT.get(name, ""), name) for name in study.systems
    )
    sections = [Section(rows)]
    if published := _published(study):
        said = f"Published in {SOURCE}, measured by others on other machines and models"
        sections.append(Section(tuple(published), said, published=True))
    return Table(
        "main",
        "Accuracy and speedup",
        "Accuracy in %, and how many times as fast as the agent alone, with 95 % intervals.",
        ("system", *columns),
        tuple(sections),
        spans,
        tuple(_notes(study)),
    )


def _spans(study: Study) -> tuple[tuple[str, int], ...]:
    spans: list[tuple[str, int]] = []
    for number, label in enumerate(study.labels):
        spans.append((label, sum(column.run == number for column in study.columns)))
    return tuple(spans)


def _cells(study: Study, system: str) -> list[Cell]:
    cells = [_pair(study.accuracy(p, system), study.speedup(p, system)) for p in range(len(study.columns))]
    if study.averaged:
        cells.append(_pair(study.mean_accuracy(system), study.mean_speedup(system)))
    return cells


def _pair(accuracy: Ranged, speedup: Ranged) -> Cell:
    return Cell(percent(accuracy.value), dashed(accuracy), times(speedup.value), times_dashed(speedup))


def dashed(share: Ranged) -> str:
    """The interval of a share in few characters."""
    return f"{percent(share.low)}–{percent(share.high)}" if share.bounded else ""


def times_dashed(speedup: Ranged) -> str:
    """The interval of a speedup in few characters."""
    return f"{speedup.low:.2f}–{speedup.high:.2f}" if speedup.low is not None and speedup.high is not None else ""


def _published(study: Study) -> list[Row]:
    """Published rows in the columns that both have; none where there is no such column."""
    keys = [column.key for column in study.columns]
    return [_published_row(row, keys, bool(study.averaged)) for row in ROWS] if any(keys) else []


def _published_row(row: PublishedRow, keys: list[str], mean: bool) -> Row:
    cells = [_published_cell(row.cell(key), row.system) if key else Cell(NONE) for key in keys]
    if mean:
        whole = set(COLUMNS) <= set(keys)
        cells.append(_published_cell(row.mean, row.system) if whole else Cell(NONE))
    return Row(row.name, tuple(cells))


def _published_cell(cell: PublishedCell, system: str) -> Cell:
    speed = 1.0 if system == AGENT else cell.speedup
    return Cell(f"{cell.accuracy:.2f}", "", times(speed))


def published_table() -> Table:
    """The published table, all of it."""
    spans = (("V*", 2), ("HR-Bench", 2), ("POPE", 3), (MEAN, 1))
    heads = [name.removeprefix(f"{span} ") for name in COLUMNS.values() for span, _ in spans if name.startswith(span)]
    rows = tuple(
        Row(row.name, tuple(_published_cell(cell, row.system) for cell in (*row.cells, row.mean))) for row in ROWS
    )
    return Table(
        "published",
        "Published figures, measured by others",
        f"Accuracy in % and speedup over the agent's own loop, from {SOURCE}: {CONDITIONS}. Nothing here was measured "
        "by this kit.",
        ("system", *heads, ""),
        (Section(rows, published=True),),
        spans,
    )


def not_comparable(study: Study) -> str:
    """What must be said where the runs are about nano data; empty where they are not."""
    if not study.nano:
        return ""
    return (
        "This was run on generated nano scenes, or by the nano models. They have the published benchmarks' file "
        "formats and nothing else of them: these figures cannot be compared with the published ones. What can be "
        "compared is one system here with another."
    )


def _notes(study: Study) -> list[str]:
    notes = []
    if any(column.key for column in study.columns):
        notes.append(f"Published figures: {CONDITIONS}.")
    if any(column.part for column in study.columns):
        notes.append(
            "Speedup on a whole benchmark: by the wall time of blocks that the systems took in turns. On a part of "
            "one: by the questions' own times, since blocks mix the parts."
        )
    if study.averaged:
        names = ", ".join(study.columns[place].name for place in study.averaged)
        notes.append(f"Mean: unweighted, over {names}.")
    if any(not run.complete for run in study.runs):
        notes.append("A run is not complete: figures are of the questions that were answered so far.")
    return notes


# Speed


def law_table(study: Study) -> Table:
    """The measured speedup of SpecEyes beside what the laws say it should be."""
    rows = []
    for summary, label in zip(study.summaries, study.labels, strict=True):
        law: Mapping[str, Any] | None = summary["law"]
        if law is None:
            continue
        measured, costs = Ranged.read(law["measured"]), law["costs"] or {}
        cells = (
            Cell(times(measured.value), _stands_on(measured, law["measured"]["blocks"])),
            Cell(times(law["honest"])),
            Cell(times(law["ideal"]) if law["ideal"] is not None else "no bound"),
            *(Cell(percent(law[name])) for name in ("beta", "alpha", "acceptance")),
            *(Cell(seconds(costs.get(name))) for name in ("screen", "draft", "agent")),
        )
        rows.append(Row(label, cells))
    return Table(
        "law",
        "The speedup of SpecEyes, and the law",
        "Beta: share of the questions that screening lets through. Alpha: share of those that the gate accepts. Ideal "
        "law: 1 / (1 - beta alpha), as if phases I to III cost nothing. Honest law: screening and drafting paid for, "
        "at the mean cost of each in this run.",
        (
            "",
            "measured",
            "honest law",
            "ideal law",
            "beta (%)",
            "alpha (%)",
            "draft answers (%)",
            "screening",
            "draft",
            "agent's run",
        ),
        (Section(tuple(rows)),),
        notes=tuple(_lots(study)),
    )


def _stands_on(measured: Ranged, blocks: int) -> str:
    return ", ".join(filter(None, [times_dashed(measured), f"{blocks:,} block{'s' * (blocks != 1)}"]))


def _lots(study: Study) -> list[str]:
    """How far the random gate's luck lies from the share that it is to copy."""
    found = []
    for summary, label in zip(study.summaries, study.labels, strict=True):
        drawn = summary["random"]
        if drawn and drawn["realised_share"] is not None:
            found.append(
                f"{label}: the random gate accepted {percent(drawn['realised_share'])} % of all questions, SpecEyes "
                f"{percent(drawn['speceyes_share'])} %."
            )
    return found
