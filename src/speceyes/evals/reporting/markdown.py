"""The report as Markdown that GitHub renders: the verdict, the tables, and what was run. No pictures."""

from __future__ import annotations

from collections.abc import Sequence

from speceyes.evals.reporting.table import Cell, Table
from speceyes.evals.reporting.text import markdown_text


def markdown(title: str, lead: Sequence[str], tables: Sequence[Table]) -> str:
    """The document.

    Args:
        title: Its heading.
        lead: Paragraphs before the tables.
        tables: In order.
    """
    parts = [f"# {markdown_text(title)}", *(markdown_text(text) for text in lead)]
    parts += [markdown_table(table) for table in tables]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """A table with its heading, the sentence that explains it, and its notes."""
    heads = _heads(table)
    lines = [
        f"## {markdown_text(table.title)}",
        "",
        markdown_text(table.text),
        "",
        _line(heads),
        _line(["---", *["---:"] * (len(heads) - 1)], escaped=True),
    ]
    for section in table.sections:
        if section.title:
            lines.append(_line([f"*{markdown_text(section.title)}*", *[""] * (len(heads) - 1)], escaped=True))
        lines += [_line([markdown_text(row.name), *map(_cell, row.cells)], escaped=True) for row in section.rows]
    if table.notes:
        lines += ["", *(f"- {markdown_text(note)}" for note in table.notes)]
    return "\n".join(lines)


def _heads(table: Table) -> list[str]:
    """One row of heads: Markdown knows no second one."""
    if not table.spans:
        return list(table.heads)
    first, *others = table.heads
    above = [name for name, width in table.spans for _ in range(width)]
    return [first, *(f"{name}, {head}" if head else name for name, head in zip(above, others, strict=True))]


def _line(cells: Sequence[str], *, escaped: bool = False) -> str:
    shown = cells if escaped else [markdown_text(cell) for cell in cells]
    return f"| {' | '.join(shown)} |"


def _cell(cell: Cell) -> str:
    parts = []
    for text, note in ((cell.text, cell.note), (cell.more, cell.more_note)):
        if text:
            parts.append(markdown_text(text) + (f" <sub>{markdown_text(note)}</sub>" if note else ""))
    return "<br>".join(parts)
