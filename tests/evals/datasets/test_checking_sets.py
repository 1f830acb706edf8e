"""A check lists all that is wrong; what cannot be mended is left out by name, and is known to be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from made_files import coded, png, write_table, write_vstar_question
from make_sets import SETS

from speceyes.errors import DatasetError
from speceyes.evals.datasets.formats import Format
from speceyes.evals.datasets.readers import check_dataset, open_dataset


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """A V* folder: one good question, and six in which something is wrong."""
    for name in ("good", "cut", "none", "empty", "twice", "text"):
        write_vstar_question(tmp_path, f"direct_attributes/{name}", ["x", "y"])
    folder = tmp_path / "direct_attributes"
    (folder / "cut.png").write_bytes(png(size=(90, 90))[:-30])
    (folder / "none.png").unlink()
    (folder / "empty.json").write_text(json.dumps({"question": " ", "options": ["x", "y"]}))
    (folder / "twice.json").write_text(json.dumps({"question": "?", "options": ["x", "x"]}))
    (folder / "text.png").write_text("not a picture")
    (folder / "broken.json").write_text("{")
    return tmp_path


def test_a_check_lists_every_fault(faulty: Path) -> None:
    steps: list[int] = []
    checked = check_dataset(str(faulty), begin=steps.append, advance=lambda: steps.append(1))
    said = {Path(fault.where).stem: fault.what for fault in checked.faults}
    assert set(said) == {"cut", "none", "empty", "twice", "text", "broken"}
    assert "its picture is damaged" in said["cut"]
    assert "not an image of a known format" in said["text"]
    assert "its image is missing" in said["none"]
    assert "its question is empty" in said["empty"]
    assert "'x' stands there twice" in said["twice"]
    assert "cannot be read" in said["broken"]
    assert all(fault.remedy.endswith(".") for fault in checked.faults)
    assert checked.dataset is not None
    assert len(checked.dataset.items) == checked.pictures == 3
    assert steps == [3, 1, 1, 1]


def test_opening_says_the_first_fault(faulty: Path) -> None:
    with pytest.raises(DatasetError, match=r"broken.json: it cannot be read"):
        open_dataset(str(faulty))


def test_a_damaged_picture_is_no_fault_until_it_is_looked_at(tmp_path: Path) -> None:
    write_vstar_question(tmp_path, "direct_attributes/a", ["x", "y"])
    (tmp_path / "direct_attributes" / "a.png").write_bytes(b"no picture")
    assert len(open_dataset(str(tmp_path)).items) == 1


def test_a_jpeg_with_a_broken_middle_is_found(tmp_path: Path) -> None:
    shutil.copytree(SETS / Format.VSTAR, tmp_path / "set")
    path = next((tmp_path / "set").rglob("*.jpg"))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + data[-2:])
    (fault,) = check_dataset(str(tmp_path / "set")).faults
    assert "its picture is damaged" in fault.what


def test_all_faults_of_a_row_are_said(tmp_path: Path) -> None:
    row = {"index": 1, "question": " ", "answer": "C", "A": "x", "B": "x", "image": ""}
    checked = check_dataset(str(write_table(tmp_path / "a.tsv", [row])))
    assert len(checked.faults) == 4
    assert checked.dataset is None


def test_rows_after_a_damaged_one_are_read(tmp_path: Path) -> None:
    rows = [{"index": i, "question": "?", "answer": "A", "A": "x", "B": "y", "image": coded()} for i in range(3)]
    path = write_table(tmp_path / "a.tsv", rows)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], lines[2] + "\tmore", lines[3]]))
    checked = check_dataset(str(path))
    assert [fault.where for fault in checked.faults] == [f"{path}, row 2"]
    assert checked.dataset is not None
    assert [item.id for item in checked.dataset.items] == ["0", "2"]


def test_a_file_of_another_form_is_one_fault(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.tsv", [{"x": 1, "y": 2}])
    checked = check_dataset(str(path))
    assert [str(fault) for fault in checked.faults] == [f"{path} lacks the column index, question, image. It has x, y."]


def test_an_empty_set_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "direct_attributes").mkdir()
    (fault,) = check_dataset(str(tmp_path)).faults
    assert "holds no question in the vstar form" in str(fault)


def test_generated_scenes_can_be_checked() -> None:
    checked = check_dataset("nano:3:0")
    assert (checked.faults, checked.pictures) == ((), 3)


def test_what_is_left_out_is_written_down(faulty: Path) -> None:
    names = [f"direct_attributes/{name}" for name in ("none", "empty", "twice")]
    (faulty / "direct_attributes" / "broken.json").unlink()
    (faulty / "leave-out.txt").write_text("# damaged in the original\n\n" + "\n".join(names) + "\n")
    found = open_dataset(str(faulty))
    assert {item.id.rpartition("/")[2] for item in found.items} == {"good", "cut", "text"}
    assert sorted(found.left_out) == sorted(names)
    assert "leave-out.txt" in found.files
    assert any("3 questions are left out" in remark for remark in check_dataset(str(faulty)).remarks)


def test_beside_a_single_file_it_has_the_files_name(tmp_path: Path) -> None:
    shutil.copy(SETS / Format.MCQ / "questions.tsv", tmp_path)
    before = open_dataset(str(tmp_path / "questions.tsv"))
    (tmp_path / "questions.tsv.leave-out.txt").write_text(before.items[1].id)
    after = open_dataset(str(tmp_path / "questions.tsv"))
    assert len(after.items) == len(before.items) - 1
    assert after.left_out == (before.items[1].id,)
    assert after.digest != before.digest


def test_an_id_that_is_not_there_cannot_be_left_out(tmp_path: Path) -> None:
    write_vstar_question(tmp_path, "direct_attributes/a", ["x", "y"])
    (tmp_path / "leave-out.txt").write_text("direct_attributes/b\n")
    with pytest.raises(DatasetError, match=r"leave-out.txt: it names 'direct_attributes/b', which is no question's id"):
        open_dataset(str(tmp_path))


@pytest.mark.parametrize(
    ("label", "message"),
    [("maybe", "line 1: its answer 'maybe' is neither yes nor no"), (" Yes ", "")],
)
def test_pope_answers_are_yes_or_no(tmp_path: Path, label: str, message: str) -> None:
    (tmp_path / "a.png").write_bytes(png())
    row = {"question_id": 1, "image": "a.png", "text": "Is it?", "label": label}
    (tmp_path / "pope_random.json").write_text(json.dumps(row))
    if message:
        with pytest.raises(DatasetError, match=message):
            open_dataset(str(tmp_path))
    else:
        (item,) = open_dataset(str(tmp_path)).items
        assert item.gold == "yes"


def test_pope_of_several_sources_keeps_its_ids_apart(tmp_path: Path) -> None:
    (tmp_path / "val2014").mkdir()
    (tmp_path / "val2014" / "a.png").write_bytes(png())
    row = {"question_id": 1, "image": "a.png", "text": "Is it?", "label": "no"}
    for source in ("coco", "gqa"):
        (tmp_path / f"{source}_pope_random.json").write_text(json.dumps(row))
    items = open_dataset(str(tmp_path)).items
    assert [item.id for item in items] == ["coco_pope_random/1", "gqa_pope_random/1"]
    assert {item.category for item in items} == {"random"}
