"""A table without a form: what the page, Markdown and LaTeX are all made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure as text.

    Attributes:
        text: The figure.
        note: What stands below it, smaller: its interval.
        more: A second figure, beside the first: the speedup beside the accuracy.
        more_note: What stands below that.
        kind: "good" or "bad", where the figure says so.
    """

    text: str
    note: str = ""
    more: str = ""
    more_note: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table.

    Attributes:
        name: Its head.
        cells: Its figures, one a column.
        about: What the name means, for those who do not know.
        system: Whose line it is, where it is a system's.
    """

    name: str
    cells: tuple[Cell, ...]
    about: str = ""
    system: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines that belong together, under a heading of their own where there is one.

    Attributes:
        rows: The lines.
        title: The heading; empty for none.
        published: Whether others measured them.
    """

    rows: tuple[Row, ...]
    title: str = ""
    published: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its words.

    Attributes:
        name: In links and labels.
        title: What it shows.
        text: One or two sentences that say how to read it.
        heads: The columns' names, the first one being that of the rows.
        sections: Its lines.
        spans: (name, columns) of a row of heads above, from the second column on; empty for none.
        notes: Below it.
    """

    name: str
    title: str
    text: str
    heads: tuple[str, ...]
    sections: tuple[Section, ...]
    spans: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Row]:
        """All lines."""
        return [row for section in self.sections for row in section.rows]


def plain(heads: Sequence[str], lines: Sequence[Sequence[str]], **words: Any) -> Table:
    """A table of texts: the first of each line is its head."""
    rows = tuple(Row(line[0], tuple(map(Cell, line[1:]))) for line in lines)
    return Table(heads=tuple(heads), sections=(Section(rows),), **words)
