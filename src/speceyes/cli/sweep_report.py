"""What `speceyes sweep` shows in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from speceyes.evals.sweeps import Sweep
    from speceyes.evals.sweeps.tables import Grid


def report(swept: Sweep) -> Any:
    """The tables, each with a sentence that explains it, and what to know before believing them."""
    from rich.console import Group
    from rich.text import Text

    from speceyes.evals.sweeps.report import notes, settings_tried
    from speceyes.evals.sweeps.tables import depth_table, front_table, gate_table, headline, plan_table, screening_line

    size = f"{len(swept.outcomes):,} records, {len(swept.gates)} gates, {settings_tried(swept):,} settings"
    parts: list[Any] = [Text(headline(swept), "bold"), Text(size, "dim"), Text(screening_line(swept), "dim")]
    for grid in (gate_table(swept), front_table(swept), plan_table(swept), depth_table(swept)):
        parts += [Text(""), *_shown(grid)] if grid is not None else []
    parts += [Text(""), *(Text(f"- {note}", "dim") for note in notes(swept))]
    return Group(*parts)


def _shown(grid: Grid) -> list[Any]:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, title in enumerate(grid.header):
        table.add_column(title, justify="left" if number == 0 else "right")
    for number, row in enumerate(grid.rows):
        style = "bold green" if number in grid.marked else ""
        table.add_row(*(Text(cell, style) for cell in row))
    return [Text(grid.title, "bold"), Text(grid.text, "dim"), table]
