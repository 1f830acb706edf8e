"""Tab-separated tables: whatever was written is read, row by row and from any row's beginning."""

from __future__ import annotations

import base64
import io
import tracemalloc
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_files import coded, turns, write_table
from PIL import Image

from speceyes.errors import DatasetError
from speceyes.evals.datasets.formats.rows import table_line
from speceyes.evals.datasets.readers import open_dataset, tables
from speceyes.evals.datasets.readers.tables import columns_of, scan

CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=12)
ROWS = st.lists(st.lists(CELLS, min_size=2, max_size=4).filter(any), min_size=1, max_size=8)


@given(rows=ROWS, windows=st.booleans(), bom=st.booleans())
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], windows: bool, bom: bool
) -> None:
    path = tmp_path_factory.mktemp("table") / "a.tsv"
    lines = [table_line(row) for row in rows]
    if windows:
        lines = [line[:-1] + b"\r\n" for line in lines]
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + b"".join(lines))
    digest = sha256()
    found = list(scan(path, digest))
    assert [[cell.decode() for cell in row.cells] for row in found] == rows
    assert [row.number for row in found] == list(range(len(rows)))
    assert digest.digest() == sha256(path.read_bytes()).digest()
    for row in found[1:]:
        assert next(scan(path, offset=row.offset)).cells == row.cells


def test_empty_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\na\tb\n\r\n1\t2")
    assert [row.cells for row in scan(path)] == [[b"a", b"b"], [b"1", b"2"]]
    assert columns_of(path) == ["a", "b"]


def test_an_empty_file_has_no_columns(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"")
    assert columns_of(tmp_path / "a.tsv") == []
    with pytest.raises(DatasetError, match=r"lacks the column index, question, image. It has none"):
        open_dataset(str(tmp_path))


@pytest.mark.parametrize("content", [b'a\t"b\n' + 40 * b"line\n", b"x" * 200])
def test_a_row_without_an_end_does_not_fill_the_memory(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LONGEST_ROW", 100)
    (tmp_path / "a.tsv").write_bytes(content)
    with pytest.raises(DatasetError, match=r"more than 100 bytes. Close its quote"):
        list(scan(tmp_path / "a.tsv"))


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.tsv", [{"index": 1, "question": "caf?", "image": coded()}])
    path.write_bytes(path.read_bytes().replace(b"caf?", b"caf\xe9"))
    with pytest.raises(DatasetError, match=r"a.tsv, row 1: it is not UTF-8 text .* Save the table as UTF-8"):
        open_dataset(str(path))


def test_a_file_that_changed_is_said_when_a_picture_is_looked_at(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.tsv", [{"index": i, "question": "?", "image": coded()} for i in (1, 2)])
    (_, item) = open_dataset(str(path)).items
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(Exception, match=r"row 2 \(index 2\): its picture is not base64, or the file has changed"):
        item.image()


def test_a_table_takes_no_memory_for_its_pictures(tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.new("RGB", (800, 800), "teal").save(out, "BMP")
    picture = base64.b64encode(out.getvalue()).decode()
    rows = [row for i in range(5) for row in turns(f"Which {i}?", list("wxyz"), "w", 4 * i, image=picture)]
    path = write_table(tmp_path / "hr.tsv", rows)
    size = path.stat().st_size
    assert size > 40_000_000
    tracemalloc.start()
    try:
        found = open_dataset(str(path))
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for item in found.items:
            assert item.image().size == (800, 800)
        _, reading = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    widest = size // len(rows)
    assert kept < widest / 2, "only the texts stay"
    assert max(peak, reading) < 6 * widest, "one row at a time"
