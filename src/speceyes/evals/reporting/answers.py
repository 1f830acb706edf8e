"""What lies under an accuracy: errors and unparsed answers on lines of their own, named averages, times and tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from speceyes.evals.reporting.names import system_words
from speceyes.evals.reporting.study import Study
from speceyes.evals.reporting.table import Cell, Row, Section, Table
from speceyes.evals.reporting.tables import dashed
from speceyes.evals.reporting.words import NONE, Ranged, count, finite, percent, seconds
from speceyes.evals.runs import EvalRun, Result
from speceyes.evals.statistics.shares import Share, share


@dataclass(frozen=True, slots=True)
class _Own:
    """What a benchmark's authors report beside plain accuracy.

    Attributes:
        key: Its place among the summary's metrics.
        parts: The place of the same figures by split or category.
        title: What it is.
        text: How to read it.
        columns: (place, words) of each figure.
    """

    key: str
    parts: str
    title: str
    text: str
    columns: tuple[tuple[str, str], ...]


_OWN: Final = (
    _Own(
        "rotations",
        "categories",
        "both averages",
        "Every question is asked several times, its options turned. Each rotation: every asking counts by itself. All "
        "rotations: a question counts where it was right in every asking. The two are not to be mixed up.",
        (
            ("each_rotation", "each rotation (%)"),
            ("all_rotations", "all rotations (%)"),
            ("incomplete", "questions not asked in all"),
        ),
    ),
    _Own(
        "pope",
        "splits",
        "POPE's figures",
        'Yes is the positive class. "Said yes" is taken from the answers, not from the labels; an unparsed answer is '
        "neither yes nor no, and counts as not right.",
        (
            ("accuracy", "accuracy (%)"),
            ("precision", "precision (%)"),
            ("recall", "recall (%)"),
            ("f1", "F1 (%)"),
            ("yes_ratio", "said yes (%)"),
            ("label_yes_ratio", "is yes (%)"),
            ("unparsed", "unparsed"),
            ("errors", "errors"),
        ),
    ),
)


def errors_table(study: Study) -> Table:
    """For each system: what failed, what could not be read, and the accuracy with and without it."""
    return Table(
        "errors",
        "Errors and unparsed answers",
        "Errors count as wrong in every accuracy above, and so do unparsed answers: answers in which the rule finds no "
        "letter or word, or two. An unparsed answer is never guessed at.",
        (
            "system",
            "questions",
            "errors",
            "unparsed",
            "accuracy, all (%)",
            "accuracy, answered (%)",
            "how the answers were found",
        ),
        _sections(study, _errors),
    )


def _errors(run: EvalRun, system: str) -> tuple[Cell, ...]:
    rows = run.results[system]
    known = [row for row in rows if row.right is not None]
    errors = sum(row.error is not None for row in rows)
    unparsed = sum(row.unparsed for row in rows)
    every = share(bool(row.right) for row in known)
    answered = share(bool(row.right) for row in known if row.error is None)
    ways = Counter(row.how for row in rows if row.error is None and not row.unparsed)
    said = ", ".join(f"{way.replace('_', ' ') or 'not said'} {number:,}" for way, number in ways.most_common())
    return (
        Cell(f"{len(rows):,}", "" if len(rows) == len(run.samples) else f"of {len(run.samples):,}"),
        Cell(count(errors), kind="bad" if errors else ""),
        Cell(count(unparsed), kind="bad" if unparsed else ""),
        _share(every),
        _share(answered),
        Cell(said or NONE, kind="words"),
    )


def _share(found: Share) -> Cell:
    ranged = Ranged.of(found)
    return Cell(percent(ranged.value), dashed(ranged))


def time_table(study: Study) -> Table:
    """For each system: seconds and tokens of a question."""
    return Table(
        "time",
        "Time, depth and tokens",
        "Seconds of a question's own work, waiting for its turn left out; failed questions have none. Tokens are those "
        "of all calls, refused drafts and screening included; a server that does not count leaves them unknown.",
        (
            "system",
            "mean time",
            "median",
            "tool calls a question",
            "answered by the draft (%)",
            "prompt tokens a question",
            "written tokens a question",
        ),
        _sections(study, _times),
    )


def _times(run: EvalRun, system: str) -> tuple[Cell, ...]:
    rows = run.results[system]
    spent = sorted(row.seconds for row in rows if row.seconds is not None)
    depths = [row.depth for row in rows if row.depth is not None]
    routed = [row for row in rows if row.route is not None]
    by_draft = sum(row.accepted for row in routed) / len(routed) if routed else None
    return (
        Cell(seconds(sum(spent) / len(spent) if spent else None)),
        Cell(seconds(_median(spent))),
        Cell(f"{sum(depths) / len(depths):.2f}" if depths else NONE),
        Cell(percent(by_draft)),
        Cell(_tokens(rows, "prompt_tokens")),
        Cell(_tokens(rows, "completion_tokens")),
    )


def _median(ordered: Sequence[float]) -> float | None:
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _tokens(rows: Sequence[Result], what: str) -> str:
    counts = [getattr(usage, what) for row in rows if row.error is None for usage in row.usage.values()]
    answered = sum(row.error is None and bool(row.usage) for row in rows)
    if not answered or any(number is None for number in counts):
        return NONE
    return f"{sum(counts) / answered:,.0f}"


def average_tables(study: Study) -> list[Table]:
    """HR-Bench's two averages and POPE's figures, over all and by part, for the runs that have them."""
    found = []
    for number, label in enumerate(study.labels):
        systems = study.summaries[number]["systems"]
        for own in _OWN:
            metrics = {name: systems[name]["metrics"][own.key] for name in study.systems if _has(systems, name, own)}
            if metrics:
                heads = ("system", *(words for _, words in own.columns))
                sections = _own_sections(own, metrics)
                found.append(Table(f"{own.key}-{number}", f"{label}: {own.title}", own.text, heads, sections))
    return found


def _has(systems: Mapping[str, Any], name: str, own: _Own) -> bool:
    return name in systems and own.key in systems[name]["metrics"]


def _own_sections(own: _Own, metrics: Mapping[str, Mapping[str, Any]]) -> tuple[Section, ...]:
    """All questions together, then part by part where there are several."""
    parts = list(dict.fromkeys(part for figures in metrics.values() for part in figures[own.parts]))
    if len(parts) < 2:
        return (Section(_own_rows(own, metrics)),)
    by_part = [
        Section(_own_rows(own, {n: f[own.parts][part] for n, f in metrics.items() if part in f[own.parts]}), part)
        for part in parts
    ]
    return (Section(_own_rows(own, metrics), "all together"), *by_part)


def _own_rows(own: _Own, metrics: Mapping[str, Mapping[str, Any]]) -> tuple[Row, ...]:
    return tuple(
        Row(system_words(name), tuple(_metric(figures[key]) for key, _ in own.columns), "", name)
        for name, figures in metrics.items()
    )


def _metric(value: object) -> Cell:
    """A share with its interval, a share alone, or a list's length."""
    if isinstance(value, Mapping):
        ranged = Ranged.read(value)
        return Cell(percent(ranged.value), dashed(ranged))
    if isinstance(value, Sequence):
        return Cell(count(len(value)))
    return Cell(percent(finite(value)))


def _sections(study: Study, cells: Callable[[EvalRun, str], tuple[Cell, ...]]) -> tuple[Section, ...]:
    sections = []
    for run, label in zip(study.runs, study.labels, strict=True):
        names = [name for name in study.systems if name in run.header.systems]
        rows = tuple(Row(system_words(name), cells(run, name), "", name) for name in names)
        sections.append(Section(rows, label if len(study.runs) > 1 else ""))
    return tuple(sections)
