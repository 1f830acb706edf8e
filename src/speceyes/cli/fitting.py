"""A table that does without some of its columns where the terminal is too narrow: cut figures are no figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text


class FittingTable:
    """A table of figures, one row a name, that leaves out columns until it fits.

    Args:
        title: Its title.
        first: Heading of the first column, which holds the rows' names.
        rows: For each name the cells by heading, all with the same headings.
        spared: Headings in the order in which they are left out.
        where: Where the reader finds what was left out.
    """

    def __init__(
        self,
        title: str,
        first: str,
        rows: Mapping[str, Mapping[str, str]],
        spared: Sequence[str],
        *,
        where: str = "--json has them",
    ) -> None:
        self._title, self._first, self._rows, self._spared, self._where = title, first, rows, spared, where

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        gone: list[str] = []
        table = self._without(gone)
        for heading in self._spared:
            if console.measure(table, options=options.update(max_width=10_000)).maximum <= options.max_width:
                break
            gone.append(heading)
            table = self._without(gone)
        yield table
        if gone:
            yield Text(f"no room for: {', '.join(gone)}; a wider terminal shows them, {self._where}", "dim")

    def _without(self, gone: Sequence[str]) -> Table:
        headings = [heading for heading in next(iter(self._rows.values()), {}) if heading not in gone]
        table = figures(self._title, self._first, *headings)
        for name, cells in self._rows.items():
            table.add_row(name, *(cells[heading] for heading in headings))
        return table


def figures(title: str, first: str, *columns: str) -> Table:
    """An empty table of figures: names at the left, numbers at the right, nothing wrapped."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column(first, no_wrap=True, min_width=12)  # a narrow terminal may cut figures, but no names
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
