"""Systems held against each other on the same questions, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from speceyes.evals.reporting.intervals import widened
from speceyes.evals.reporting.names import system_words
from speceyes.evals.reporting.study import Study
from speceyes.evals.reporting.table import Cell, Row, Section, Table
from speceyes.evals.reporting.words import Ranged, count, p_value, points, points_range

LEVEL: Final = 0.05
"""Below this a difference is called more than chance. It is a convention, for single comparisons."""


def paired_table(study: Study) -> Table:
    """Every system against the agent, and every baseline against SpecEyes."""
    sections = [
        Section(tuple(map(_row, summary["pairs"])), label if len(study.runs) > 1 else "")
        for summary, label in zip(study.summaries, study.labels, strict=True)
    ]
    return Table(
        "paired",
        "Who is right where the other is wrong",
        "Two systems answer the same questions, so only questions on which they differ tell them apart. p: how often a "
        "fair coin would fall at least so unevenly over these (McNemar's exact test). Difference: the first one's "
        "accuracy less the second's, in points, with a 95 % interval: the wider of one from resampled questions, those "
        "about one picture drawn together, and of an adjusted Wald interval, for where the two hardly ever differ.",
        (
            "first against second",
            "both right",
            "only the first",
            "only the second",
            "neither",
            "difference",
            "p",
            "in words",
        ),
        tuple(section for section in sections if section.rows),
        notes=(
            f"There are many comparisons here, and of twenty without any difference one has p < {LEVEL} by chance.",
        ),
    )


def _row(pair: Mapping[str, Any]) -> Row:
    """A pair of the summary, whose difference is that of the second to the first: it is read the other way round."""
    counts = (pair["only_second"], pair["only_first"], pair["n"])
    difference = widened(Ranged.read(pair["difference"]), *counts)
    return Row(
        f"{system_words(pair['second'])} against {system_words(pair['first'])}",
        (
            *(Cell(count(pair[name])) for name in ("both", "only_second", "only_first", "neither")),
            Cell(points(difference.value), points_range(difference)),
            Cell(p_value(pair["mcnemar_p"])),
            Cell(in_words(pair), kind="words"),
        ),
    )


def in_words(pair: Mapping[str, Any]) -> str:
    """What a paired test says."""
    if pair["only_first"] == pair["only_second"] == 0:
        return "right and wrong on the very same questions"
    if pair["mcnemar_p"] >= LEVEL:
        return "may be chance"
    better = pair["first"] if pair["only_first"] > pair["only_second"] else pair["second"]
    return f"{system_words(better)} is right more often"
