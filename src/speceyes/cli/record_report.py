"""What `speceyes record` says at its end: a few figures, each with what it means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from speceyes.cli.output import visible

if TYPE_CHECKING:
    from speceyes.evals.records.summary import RunSummary


def report(summary: RunSummary, folder: Path) -> Group:
    """Two tables and what can be done next."""
    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value, meaning in _facts(summary):
        facts.add_row(Text(name), Text(value, justify="right"), Text(meaning, style="dim"))
    costs = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("phase", "median s", "mean s", "tokens read", "of them cached", "tokens written"):
        costs.add_column(head, justify="left" if head == "phase" else "right")
    for phase, name in (("screen", "I   screen"), ("draft", "II  draft"), ("agent", "IV  agent")):
        seconds, tokens = summary.seconds[phase], summary.tokens[phase]
        numbers = (tokens["prompt"], tokens["cached"], tokens["completion"])
        times = (seconds["median"], seconds["mean"])
        costs.add_row(name, *(_number(value, 3) for value in times), *(_number(value, 1) for value in numbers))
    parts: list[Table | Text] = [facts, Text(), costs, Text()]
    parts += [part for look in summary.closer for part in (Text(_look(look)), Text())]
    if any(session.concurrency > 1 for session in summary.manifest.sessions):
        parts.append(Text("Several questions were under way at a time: the times are those of a loaded machine."))
    if summary.failed:
        parts.append(Text("Questions that failed are tried again with --retry-errors."))
    parts.append(Text(f"Next: speceyes sweep {visible(str(folder))}"))
    return Group(*parts)


def _look(look: Mapping[str, Any]) -> str:
    times = look["seconds"]
    return (
        f"Look {look['depth']} of the draft model: it names a part for {_percent(look['looked'])} of the questions, "
        f"and {_percent(look['accuracy'])} of its answers are right then; {_number(times['median'], 3)} s (median)."
    )


def _facts(summary: RunSummary) -> list[tuple[str, str, str]]:
    return [
        ("recorded", f"{summary.rows}", f"questions, {summary.failed} of them failed"),
        ("draft right", _percent(summary.draft_accuracy), "of the drafts, whatever a gate would say"),
        (
            "agent right",
            _percent(summary.agent_accuracy),
            f"of its full runs, {_number(summary.mean_depth, 2)} tools each",
        ),
        ("both agree", _percent(summary.agreement), "give the same answer, right or wrong"),
        ("no confidence", _percent(summary.draft_unusable), "drafts that no gate can score"),
        ("log-probs", f"{summary.manifest.k}", "asked for of each answer token"),
        ("size", f"{summary.bytes_per_row:.0f} B", "a question on the disk"),
    ]


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"


def _number(value: float | None, digits: int) -> str:
    return "?" if value is None else f"{value:.{digits}f}"
