"""Tables on narrow terminals: figures are left out, never cut."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from speceyes.cli.fitting import FittingTable

ROWS = {name: {"right": "95.0 %", "seconds": "15.4", "tokens in": "47,078"} for name in ("agent alone", "SpecEyes")}


def shown(width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(FittingTable("Systems", "system", ROWS, ("tokens in", "seconds")))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_wide_terminal_shows_all() -> None:
    assert "47,078" in shown(100)
    assert "no room" not in shown(100)


@pytest.mark.parametrize(("width", "gone"), [(40, ["tokens in"]), (28, ["tokens in", "seconds"])])
def test_a_narrow_one_leaves_out_whole_columns_and_says_so(width: int, gone: list[str]) -> None:
    text = shown(width)
    assert "…" not in text
    assert "95.0 %" in text
    table, _, note = text.partition("no room for: ")
    assert not any(heading in table for heading in gone)
    assert " ".join(note.split()).startswith(", ".join(gone))
    assert all(cell in table for name in ROWS for heading, cell in ROWS[name].items() if heading not in gone)
