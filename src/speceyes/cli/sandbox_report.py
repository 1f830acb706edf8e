"""What `speceyes sandbox check` shows a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from speceyes.cli.output import visible

if TYPE_CHECKING:
    from speceyes.sandbox.conformance import Report


def report_lines(reports: Sequence[Report]) -> RenderableType:
    """For each provider what it withstood, by group, what got through, and what it does not cover."""
    parts: list[RenderableType] = []
    for report in reports:
        if parts:
            parts.append(Text())
        parts += _about(report)
    return Group(*parts)


def _about(report: Report) -> list[RenderableType]:
    head = Text(report.provider, "bold")
    if not report.available:
        return [head.append(f" is not there: {visible(report.reason)}", "yellow")]
    head.append(f", {visible(report.reason)}", "default")
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for title in ("checks about", "withstood", ""):
        table.add_column(title, overflow="fold")
    for group in dict.fromkeys(result.group for result in report.results):
        results = [result for result in report.results if result.group == group]
        held = sum(result.passed for result in results)
        whole = held == len(results)
        mark = Text("yes", "green") if whole else Text("NO", "bold red")
        table.add_row(Text(group), Text(f"{held} of {len(results)}"), mark)
    parts: list[RenderableType] = [head, table]
    parts += [
        Text(f"GOT THROUGH: {result.name}. {result.title}: {visible(result.detail)}", "red")
        for result in report.results
        if not result.passed
    ]
    parts.append(Text("Not covered:", "dim"))
    parts += [Text(f"  {sentence}", "dim") for sentence in report.not_covered]
    return parts
