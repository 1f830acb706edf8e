"""Pictures in Parquet: read forwards, and right in whatever order they are asked for."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_files import coded, png

from speceyes.errors import DatasetError, ImageError
from speceyes.evals.datasets.readers import parquet
from speceyes.evals.datasets.readers.parquet import PictureColumn, read_rows
from speceyes.evals.datasets.readers.pictures import cell_bytes
from speceyes.imaging.decode import DEFAULT_LIMITS

ROWS = 37


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures that are one pixel wider from row to row, in groups of ten rows."""
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    rows = [{"n": i, "image": {"bytes": png(size=(i + 1, 5)), "path": f"{i}.png"}} for i in range(ROWS)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=10)
    return path


@given(places=st.lists(st.integers(0, ROWS - 1), max_size=30), kept=st.sampled_from([0, 400, 1 << 20]))
def test_every_picture_is_that_of_its_row(file: Path, places: list[int], kept: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_KEPT_BYTES", kept)
        pictures = PictureColumn(file, "image", DEFAULT_LIMITS)
        for place in places:
            assert pictures.picture(place, "here").size == (place + 1, 5)


def test_in_order_the_file_is_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    old = PictureColumn._from_group

    def counted(self: PictureColumn, group: int) -> Any:
        begun.append(group)
        return old(self, group)

    monkeypatch.setattr(PictureColumn, "_from_group", counted)
    pictures = PictureColumn(file, "image", DEFAULT_LIMITS)
    for place in range(ROWS):
        pictures.picture(place, "here")
        pictures.picture(max(place - 3, 0), "a little behind")
    assert begun == [0]


def test_threads_may_share_it(file: Path) -> None:
    pictures = PictureColumn(file, "image", DEFAULT_LIMITS)
    wrong: list[int] = []

    def look(places: range) -> None:
        wrong.extend(place for place in places if pictures.picture(place, "here").size != (place + 1, 5))

    threads = [threading.Thread(target=look, args=(range(i, ROWS, 4),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


@pytest.mark.parametrize("image", [png()[:60], b"no picture"])
def test_a_damaged_picture_is_an_image_error(tmp_path: Path, image: bytes) -> None:
    pq.write_table(pa.table({"image": [image]}), tmp_path / "a.parquet")
    with pytest.raises(ImageError, match=r"a.parquet, row 1"):
        PictureColumn(tmp_path / "a.parquet", "image", DEFAULT_LIMITS).picture(0, "a.parquet, row 1")


def test_a_file_that_went_is_an_image_error(tmp_path: Path) -> None:
    pictures = PictureColumn(tmp_path / "gone.parquet", "image", DEFAULT_LIMITS)
    with pytest.raises(ImageError, match="row 1: its picture cannot be read"):
        pictures.picture(0, "row 1")


def test_a_file_cut_short_is_said(file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(file.read_bytes()[:-200])
    with pytest.raises(DatasetError, match="is damaged"):
        list(read_rows(tmp_path / "a.parquet", ["image"]))


@pytest.mark.parametrize(
    ("cell", "data"),
    [
        (png(), png()),
        ({"bytes": png(), "path": None}, png()),
        (coded(), png()),
        (f"data:image/png;base64,{coded()}", png()),
        (None, None),
        ("", None),
        (b"", None),
        ({"bytes": None, "path": "a.png"}, None),
        (7, None),
    ],
)
def test_what_a_cell_may_hold(cell: Any, data: bytes | None) -> None:
    assert cell_bytes(cell) == data
