r"""The main table as LaTeX: one float with booktabs' rules, to be read in with \input. It needs no other package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from speceyes.evals.reporting.table import Row, Table
from speceyes.evals.reporting.text import latex_text

SIDE_BY_SIDE = 5
"""Up to so many columns, accuracy and speedup stand beside each other."""
HEAD = "% Needs \\usepackage{booktabs}. Made by `speceyes report`; the intervals are 95 % ones."


def latex(tables: Sequence[Table]) -> str:
    """The tables, one float each."""
    return "\n\n".join([HEAD, *map(latex_table, tables)]) + "\n"


def latex_table(table: Table) -> str:
    """One table. Intervals stand in small print below their figures."""
    columns = len(table.heads)
    lines = [
        r"\begin{table*}[t]",
        rf"\centering\footnotesize\setlength{{\tabcolsep}}{{{'2' if columns > SIDE_BY_SIDE else '4'}pt}}",
        rf"\caption{{\textbf{{{latex_text(table.title)}.}} {latex_text(' '.join([table.text, *table.notes]))}}}",
        rf"\label{{tab:speceyes-{table.name}}}",
        rf"\begin{{tabular}}{{l{'c' * (columns - 1)}}}",
        r"\toprule",
        *_heads(table),
        r"\midrule",
    ]
    for number, section in enumerate(table.sections):
        if number:
            lines.append(r"\midrule")
        if section.title:
            lines.append(rf"\multicolumn{{{columns}}}{{l}}{{\emph{{{latex_text(section.title)}}}}} \\")
        tall = columns > SIDE_BY_SIDE and any(cell.more for row in section.rows for cell in row.cells)
        for row in section.rows:
            lines += _tall_row(row) if tall else _row(row)
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table*}"]
    return "\n".join(lines)


def _heads(table: Table) -> list[str]:
    lower = _line([latex_text(head) for head in table.heads])
    if not table.spans:
        return [lower]
    cells, rules, place = [""], [], 2
    for name, width in table.spans:
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{latex_text(name)}}}")
        rules.append(rf"\cmidrule(lr){{{place}-{place + width - 1}}}")
        place += width
    return [_line(cells), "".join(rules), lower]


def _row(row: Row) -> list[str]:
    lines = [_line([latex_text(row.name), *(_joined(cell.text, cell.more) for cell in row.cells)])]
    notes = [_joined(_dash(cell.note), _dash(cell.more_note)) for cell in row.cells]
    if any(notes):
        lines.append(_line(["", *(rf"\tiny {note}" if note else "" for note in notes)]) + "[2pt]")
    return lines


def _tall_row(row: Row) -> list[str]:
    """Four lines, for tables with many columns: two figures beside each other would be wider than a page."""
    lines = [
        _line([latex_text(row.name), *(latex_text(cell.text) for cell in row.cells)]),
        _small(cell.note for cell in row.cells),
        _line(["", *(latex_text(cell.more) for cell in row.cells)]),
        _small(cell.more_note for cell in row.cells),
    ]
    return [*filter(None, lines[:-1]), (lines[-1] or "") + r"\addlinespace[2pt]"]


def _small(notes: Iterable[str]) -> str:
    found = [rf"\tiny {latex_text(_dash(note))}" if note else "" for note in notes]
    return _line(["", *found]) if any(found) else ""


def _joined(first: str, second: str) -> str:
    return " / ".join(latex_text(text) for text in (first, second) if text)


def _dash(note: str) -> str:
    return note.replace(" to ", "–")


def _line(cells: Sequence[str]) -> str:
    # A bracket or a star at the start of a row would be read as an option of the line end before it.
    first = f"{{}}{cells[0]}" if cells[0].startswith(("[", "*")) else cells[0]
    return " & ".join([first, *cells[1:]]) + r" \\"
