"""The report in other forms: Markdown, LaTeX, JSON."""

from __future__ import annotations

from typing import Any, Final

from speceyes.evals.published import CONDITIONS, ROWS, SOURCE
from speceyes.evals.reporting.answers import average_tables, errors_table, time_table
from speceyes.evals.reporting.comparisons import paired_table
from speceyes.evals.reporting.latex import latex
from speceyes.evals.reporting.manifest import facts, manifest_tables, ran
from speceyes.evals.reporting.markdown import markdown
from speceyes.evals.reporting.page import title
from speceyes.evals.reporting.study import Study
from speceyes.evals.reporting.table import Table
from speceyes.evals.reporting.tables import law_table, main_table, not_comparable
from speceyes.evals.reporting.verdict import judge

FORMAT: Final = 1
"""Version of the JSON's layout."""


def write_markdown(study: Study) -> str:
    """Verdict, tables and what was run, as Markdown."""
    verdict = judge(study.compared)
    lead = [
        verdict.sentence,
        verdict.reading,
        *(ran(run, label) for run, label in zip(study.runs, study.labels, strict=True)),
        not_comparable(study),
    ]
    tables: list[Table] = [
        main_table(study),
        law_table(study),
        paired_table(study),
        errors_table(study),
        *average_tables(study),
        time_table(study),
        *manifest_tables(study),
    ]
    return markdown(title(study), [text for text in lead if text], tables)


def write_latex(study: Study) -> str:
    """The main table and the laws as LaTeX."""
    return latex([main_table(study), law_table(study)])


def report_json(study: Study) -> dict[str, Any]:
    """Everything that the tables hold, as strict JSON; shares are of 1, null is what is not known."""
    return {
        "format": FORMAT,
        "verdict": judge(study.compared).as_json(),
        "nano": study.nano,
        "complete": all(run.complete for run in study.runs),
        "columns": [
            {
                "run": column.run,
                "name": column.name,
                "published": column.key or None,
                "questions": len(column.ids),
                "timed": "wall time of blocks" if column.timed else "the questions' own times",
                "systems": {
                    name: {
                        "accuracy": study.accuracy(place, name).as_json(),
                        "speedup": study.speedup(place, name).as_json(),
                    }
                    for name in study.systems
                },
            }
            for place, column in enumerate(study.columns)
        ],
        "mean": {
            name: {"accuracy": study.mean_accuracy(name).as_json(), "speedup": study.mean_speedup(name).as_json()}
            for name in (study.systems if study.averaged else ())
        }
        or None,
        "published": {
            "source": SOURCE,
            "conditions": CONDITIONS,
            "measured_here": False,
            "comparable": not study.nano,
            "unit": "percent",
            "systems": [row.as_json() for row in ROWS],
        },
        "runs": [
            {"label": label, "folder": run.folder.name, "facts": dict(facts(run)), "summary": summary}
            for run, label, summary in zip(study.runs, study.labels, study.summaries, strict=True)
        ],
    }
