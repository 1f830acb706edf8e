"""Which form a folder or a file is of, and what is said where that is not clear."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_files import png
from make_sets import SETS

from speceyes.errors import DatasetError
from speceyes.evals.datasets.formats import Format
from speceyes.evals.datasets.readers import open_dataset
from speceyes.evals.datasets.readers.forms import FORMS, named_form

FILES = {
    Format.VSTAR_JSONL: "test_questions.jsonl",
    Format.VSTAR_PARQUET: "data/test-00000-of-00001.parquet",
    Format.HRBENCH: "hr_bench.tsv",
    Format.HRBENCH_PARQUET: "hr_bench.parquet",
    Format.POPE_PARQUET: "data/test-00000-of-00001.parquet",
    Format.MCQ: "questions.tsv",
}


def test_every_form_has_a_reader() -> None:
    assert set(FORMS) == set(Format)


@pytest.mark.parametrize("kind", list(FILES))
def test_a_single_file_is_a_set(kind: Format) -> None:
    folder = SETS / kind
    assert open_dataset(str(folder / FILES[kind])).digest == open_dataset(str(folder)).digest


def test_a_single_split_of_pope_is_a_set() -> None:
    found = open_dataset(str(SETS / Format.POPE / "pope_popular.json"))
    assert (found.kind, {item.category for item in found.items}) == ("pope", {"popular"})


@pytest.mark.parametrize("kind", list(Format))
def test_a_form_may_be_named(kind: Format) -> None:
    assert open_dataset(f"{kind.value}:{SETS / kind}").digest == open_dataset(str(SETS / kind)).digest


def test_a_folder_of_the_original_download_is_taken_as_folders() -> None:
    folder = SETS / Format.VSTAR
    assert (folder / "test_questions.jsonl").exists()
    assert open_dataset(str(folder)).form == "vstar"
    assert open_dataset(f"vstar-jsonl:{folder}").form == "vstar-jsonl"


def test_several_forms_in_a_folder_are_said(tmp_path: Path) -> None:
    for kind in (Format.HRBENCH, Format.HRBENCH_PARQUET):
        shutil.copy(SETS / kind / FILES[kind], tmp_path)
    with pytest.raises(DatasetError) as caught:
        open_dataset(str(tmp_path))
    said = str(caught.value)
    assert "hrbench (hr_bench.tsv)" in said
    assert "hrbench-parquet (hr_bench.parquet)" in said
    for form in ("hrbench", "hrbench-parquet"):
        assert open_dataset(f"{form}:{tmp_path}").form == form


def test_what_was_looked_for_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "log.jsonl").write_text('{"a": 1}\n')
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(DatasetError, match=r"holds no benchmark files that are known. Looked for:") as caught:
        open_dataset(str(tmp_path))
    assert all(f"\n  {kind.value}: " in str(caught.value) for kind in Format)


def test_a_named_form_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"holds no pope files. Looked for: \*pope_\*.json"):
        open_dataset(f"pope:{tmp_path}")


def test_a_named_form_with_other_columns_says_which_are_missing() -> None:
    path = SETS / Format.POPE_PARQUET / FILES[Format.POPE_PARQUET]
    with pytest.raises(DatasetError, match=r"lacks the column text, label. It has id, question_id"):
        open_dataset(f"vstar-parquet:{path}")
    with pytest.raises(DatasetError, match="lacks the column index"):
        open_dataset(f"hrbench-parquet:{path}")
    path = SETS / Format.VSTAR_PARQUET / FILES[Format.VSTAR_PARQUET]
    with pytest.raises(DatasetError, match=r"lacks the column question, answer. It has image"):
        open_dataset(f"pope-parquet:{path}")


def test_a_file_with_a_colon_in_its_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SETS / Format.MCQ, tmp_path / "mcq:mine")
    assert named_form("mcq:mine") == (None, Path("mcq:mine"))
    assert open_dataset("mcq:mine").kind == "mcq"


def test_lines_with_letters_and_lines_with_yes_and_no_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    path = tmp_path / "lines.jsonl"
    row = {"question_id": 1, "image": "a.png", "text": "Is it?", "label": "no"}
    path.write_text(json.dumps(row))
    assert open_dataset(str(path)).kind == "pope"
    path.write_text(json.dumps(row | {"text": "Which?\n(A) x\n(B) y", "label": "A"}))
    assert open_dataset(str(path)).kind == "vstar"


@pytest.mark.parametrize("name", ["broken.parquet", "broken.jsonl"])
def test_a_broken_file_is_said_to_be_broken(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("nonsense")
    with pytest.raises(DatasetError, match=r"cannot be read as Parquet|line 1: it is not JSON"):
        open_dataset(str(tmp_path))
