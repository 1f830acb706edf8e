"""Tables as HTML: heads with a scope, a caption that explains, and a frame that scrolls where the screen is narrow."""

from __future__ import annotations

from speceyes.evals.reporting.names import style_of
from speceyes.evals.reporting.table import Cell, Row, Section, Table
from speceyes.evals.reporting.text import html_text


def html_table(table: Table) -> str:
    """The table with its title and notes."""
    columns = len(table.heads)
    bodies = "".join(_section(section, columns) for section in table.sections)
    notes = "".join(f"<li>{html_text(note)}</li>" for note in table.notes)
    return (
        f'<div class="wide" id="table-{table.name}" tabindex="0" role="region" aria-label="{html_text(table.title)}">'
        f'<table class="{table.name}"><caption><b>{html_text(table.title)}.</b> {html_text(table.text)}</caption>'
        f"<thead>{_heads(table)}</thead>{bodies}</table></div>" + (f'<ul class="notes">{notes}</ul>' if notes else "")
    )


def _heads(table: Table) -> str:
    first, *others = table.heads
    if not table.spans:
        return "<tr>" + "".join(f'<th scope="col">{html_text(head)}</th>' for head in table.heads) + "</tr>"
    above, below, place = [f'<th scope="col" rowspan="2">{html_text(first)}</th>'], [], 0
    for name, width in table.spans:
        inside = others[place : place + width]
        place += width
        if width == 1 and inside == [""]:
            above.append(f'<th scope="col" rowspan="2">{html_text(name)}</th>')
            continue
        above.append(f'<th scope="colgroup" colspan="{width}">{html_text(name)}</th>')
        below += [f'<th scope="col">{html_text(head)}</th>' for head in inside]
    return f"<tr>{''.join(above)}</tr><tr>{''.join(below)}</tr>" if below else f"<tr>{''.join(above)}</tr>"


def _section(section: Section, columns: int) -> str:
    kind = ' class="published"' if section.published else ""
    title = (
        f'<tr class="section"><th scope="rowgroup" colspan="{columns}">{html_text(section.title)}</th></tr>'
        if section.title
        else ""
    )
    return f"<tbody{kind}>{title}{''.join(map(_row, section.rows))}</tbody>"


def _row(row: Row) -> str:
    style = f' class="{style_of(row.system)}"' if row.system else ""
    dot = "<i></i>" if row.system else ""
    about = f"<small>{html_text(row.about)}</small>" if row.about else ""
    cells = "".join(map(_cell, row.cells))
    return f'<tr{style}><th scope="row">{dot}{html_text(row.name)}{about}</th>{cells}</tr>'


def _cell(cell: Cell) -> str:
    kind = f' class="{cell.kind}"' if cell.kind else ""
    if not cell.more:
        return f"<td{kind}>{_figure(cell.text, cell.note)}</td>"
    return (
        f'<td{kind}><span class="pair"><span>{_figure(cell.text, cell.note)}</span>'
        f'<span class="more">{_figure(cell.more, cell.more_note)}</span></span></td>'
    )


def _figure(text: str, note: str) -> str:
    return html_text(text) + (f"<small>{html_text(note)}</small>" if note else "")
