"""Tables as VLMEvalKit reads them, and HR-Bench's turns."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_files import coded, png, turns, write_table

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers import check_dataset, open_dataset
from speceyes.evals.datasets.readers.pictures import hash_of

ROW: dict[str, Any] = {"index": 1, "question": "Which?", "answer": "B", "A": "x", "B": "y", "image": coded()}


def write(tmp_path: Path, *rows: dict[str, Any]) -> str:
    return str(write_table(tmp_path / "questions.tsv", rows))


def test_any_number_of_options_has_letters(tmp_path: Path) -> None:
    letters = "ABCDEFGHI"
    rows = [
        {"index": n, "question": "?", "answer": letters[n - 1], "category": f"of {n}", "image": coded()}
        | {letter: f"option {letter}" if i < n else "" for i, letter in enumerate(letters)}
        for n in range(2, 10)
    ]
    found = open_dataset(write(tmp_path, *rows))
    assert found.kind == "mcq"
    assert [len(item.options) for item in found.items] == list(range(2, 10))
    assert [item.category for item in found.items] == [f"of {n}" for n in range(2, 10)]
    assert found.items[-1].prompt.splitlines()[-1] == "I. option I"


def test_a_row_without_options_is_an_open_question(tmp_path: Path) -> None:
    (item,) = open_dataset(write(tmp_path, ROW | {"A": "", "B": "", "answer": "Yes"})).items
    assert (item.options, item.gold, item.prompt) == ((), "Yes", "Which?")


def test_a_row_without_an_answer_has_none(tmp_path: Path) -> None:
    path = write(tmp_path, ROW | {"answer": ""}, ROW | {"index": 2})
    assert [item.gold for item in open_dataset(path).items] == [None, "B"]
    assert check_dataset(path).remarks == ("1 questions have no answer, so nothing said to them can be right.",)


def test_a_hint_stands_before_the_question(tmp_path: Path) -> None:
    (item,) = open_dataset(write(tmp_path, ROW | {"hint": "Look left."})).items
    assert item.prompt == "Hint: Look left.\nWhich?\nA. x\nB. y"


def test_a_picture_may_be_another_rows(tmp_path: Path) -> None:
    rows = [ROW | {"image": 7}, ROW | {"index": 7, "image": coded("red")}, ROW | {"index": 8}]
    first, second, third = open_dataset(write(tmp_path, *rows)).items
    assert first.image_name == second.image_name == hash_of(png("red"))
    assert first.image().sha256 == second.image().sha256 != third.image().sha256


@pytest.mark.parametrize("other", ["9", "2", "abc"])
def test_a_picture_of_a_row_that_has_none_is_a_fault(tmp_path: Path, other: str) -> None:
    rows = [ROW | {"image": other}, ROW | {"index": 2, "image": 1}, ROW | {"index": 3}]
    with pytest.raises(DatasetError, match=rf"row 1 \(index 1\): its image says '{other}', which is neither"):
        open_dataset(write(tmp_path, *rows))


def test_a_picture_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "a.png").write_bytes(png("red"))
    (tmp_path / "images" / "b.png").write_bytes(png("blue"))
    rows = [{**ROW, "index": name, "image_path": f"{name}.png"} for name in "ab"]
    for row in rows:
        del row["image"]
    found = open_dataset(write(tmp_path, *rows))
    assert [item.image().size for item in found.items] == [(40, 30)] * 2
    assert set(found.files) == {"questions.tsv", "a.png", "images/b.png"}


@pytest.mark.parametrize("named", ["/etc/passwd", "../a.png", "images/../../a.png"])
def test_a_table_cannot_name_files_outside_its_folder(tmp_path: Path, named: str) -> None:
    with pytest.raises(DatasetError, match="is not below"):
        open_dataset(write(tmp_path, ROW | {"image": "", "image_path": named}))


def test_a_data_url_is_a_picture(tmp_path: Path) -> None:
    (item,) = open_dataset(write(tmp_path, ROW | {"image": f"data:image/png;base64,{coded()}"})).items
    assert item.image().format == "PNG"
    assert item.image_name == hash_of(png())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": " "}, r"row 1 \(index 1\): its question is empty. Mend it, or write its id into leave-out.txt"),
        ({"A": "y"}, "its option 'y' stands there twice. Mend it"),
        ({"A": ""}, "its option A is empty while a later one is not"),
        ({"answer": "C"}, "its answer 'C' is no option; they are A to B"),
        ({"answer": "AB"}, "its answer 'AB' is no option"),
        ({"answer": "y"}, "its answer 'y' is no option"),
        ({"image": ""}, "its image is missing. Put base64"),
        ({"image": f"['{coded()}', '{coded()}']"}, "it has several images. Only questions about one"),
        ({"image": "", "image_path": "a.png"}, "its image is missing: there is no .*a.png"),
    ],
)
def test_a_fault_names_file_row_and_remedy(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        open_dataset(write(tmp_path, ROW | change))
    assert "questions.tsv, row 1" in str(caught.value)


def test_a_doubled_id_names_both_rows(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"row 3 \(index 1\): the id '1' was there before \(.*row 1 \(index 1\)\)"):
        open_dataset(write(tmp_path, ROW, ROW | {"index": 2}, ROW))


def test_tables_of_one_folder_keep_their_ids_apart(tmp_path: Path) -> None:
    write_table(tmp_path / "hr_bench_4k.tsv", turns("Which?", "wxyz", "w"))
    write_table(tmp_path / "hr_bench_8k.tsv", turns("Which?", "wxyz", "w"))
    found = open_dataset(str(tmp_path))
    assert [item.id for item in found.items][::4] == ["hr_bench_4k/0", "hr_bench_8k/0"]
    assert [item.group for item in found.items] == ["hr_bench_4k/0"] * 4 + ["hr_bench_8k/0"] * 4
    alone = open_dataset(str(tmp_path / "hr_bench_8k.tsv"))
    assert [item.id for item in alone.items] == list("0123")


def test_turns_are_found_in_whatever_order_rows_come(tmp_path: Path) -> None:
    rows = [
        *turns("Which?", "wxyz", "w", 0),
        *turns("Which?", "wxyz", "w", 4, image=coded("red")),
        *turns("Where?", "wxyz", "w", 8),
        *turns("Which?", "abcd", "a", 12),
    ]
    random.Random(0).shuffle(rows)
    for item in open_dataset(write(tmp_path, *rows)).items:
        assert int(item.group) // 4 == int(item.id) // 4


def test_a_question_that_comes_again_is_another_group(tmp_path: Path) -> None:
    rows = [row for repeat in range(3) for row in turns("Which?", "wxyz", "w", 4 * repeat)]
    items = open_dataset(write(tmp_path, *rows)).items
    assert Counter(item.group for item in items) == {"0": 4, "4": 4, "8": 4}
    assert {item.group: len({item.gold for item in items if item.group == item.group}) for item in items}


def test_missing_turns_are_remarked_upon(tmp_path: Path) -> None:
    path = write(tmp_path, *turns("Which?", "wxyz", "w"), *turns("Where?", "wxyz", "w", 4)[:3])
    assert check_dataset(path).remarks == ("Not every question stands there in four turns: 1 of 3, 1 of 4.",)


@pytest.mark.parametrize("change", [{"answer": ""}, {"A": "", "B": "", "C": "", "D": ""}])
def test_hrbench_needs_answers_and_options(tmp_path: Path, change: dict[str, str]) -> None:
    rows = turns("Which?", "wxyz", "w")
    with pytest.raises(DatasetError, match="it lacks its answer or its options"):
        open_dataset(write(tmp_path, rows[0] | change))


def test_parquet_shards_are_one_table(tmp_path: Path) -> None:
    rows = [{**row, "cycle_category": str(row["cycle_category"])} for row in turns("Which?", "wxyz", "w")]
    for number, part in enumerate((rows[:2], rows[2:])):
        pq.write_table(pa.Table.from_pylist(part), tmp_path / f"hrbench_4k-0000{number}-of-00002.parquet")
    found = open_dataset(str(tmp_path))
    assert [(item.id, item.group) for item in found.items] == [(str(i), "0") for i in range(4)]
