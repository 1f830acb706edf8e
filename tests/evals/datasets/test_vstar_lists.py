"""V* Bench as a list: options in the text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_files import png

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers import open_dataset
from speceyes.evals.datasets.readers.vstar_list import split_text

ASK = "Answer with the letter."
WORD = st.text(st.characters(categories=["L"]), min_size=2, max_size=8)
ROW: dict[str, Any] = {
    "image": "direct_attributes/a.png",
    "text": f"What is it made of?\n(A) rubber\n(B) cotton\n(C) wood\n{ASK}",
    "category": "direct_attributes",
    "question_id": "0",
    "label": "C",
}
WORDS = "What is it made of?\nA. rubber\nB. cotton\nC. wood"


def write(folder: Path, *rows: dict[str, Any]) -> str:
    (folder / "direct_attributes").mkdir(exist_ok=True)
    (folder / "direct_attributes" / "a.png").write_bytes(png())
    path = folder / "test_questions.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def test_a_line_becomes_a_question(tmp_path: Path) -> None:
    (item,) = open_dataset(write(tmp_path, ROW)).items
    assert (item.id, item.gold, item.category) == ("0", "C", "direct_attributes")
    assert (item.question, item.options) == ("What is it made of?", ("rubber", "cotton", "wood"))
    assert item.prompt == WORDS, "asked as in the folder form"
    assert item.image().size == (40, 30)


def test_rows_without_a_number_are_counted(tmp_path: Path) -> None:
    rows = [{name: value for name, value in ROW.items() if name not in ("question_id", "category")}] * 2
    assert [(item.id, item.category) for item in open_dataset(write(tmp_path, *rows)).items] == [("0", ""), ("1", "")]


@given(question=WORD, options=st.lists(WORD, min_size=2, max_size=8), inline=st.booleans(), dot=st.booleans())
def test_options_are_found_in_a_text(question: str, options: list[str], inline: bool, dot: bool) -> None:
    style = "{}. {}" if dot and not inline else "({}) {}"
    lettered = [style.format(letter, option) for letter, option in zip("ABCDEFGH", options, strict=False)]
    text = f"{question}?{' ' if inline else chr(10)}{(' ' if inline else chr(10)).join(lettered)}\n{ASK}"
    assert split_text(text) == (f"{question}?", tuple(options))


@pytest.mark.parametrize(
    ("text", "question", "options"),
    [
        ("What?\n(A) x\n(B) y\nAnswer.", "What?", ("x", "y")),
        ("What? (A) x (B) y", "What?", ("x", "y")),
        ("Is A left or right of B?\nA. left\nB. right", "Is A left or right of B?", ("left", "right")),
        ("See\nA. this\nB. that\nWhich?\nA. one\nB. two", "See\nA. this\nB. that\nWhich?", ("one", "two")),
        ("Which letter?\n(A) A\n(B) (A)\r\n", "Which letter?", ("A", "(A)")),
    ],
)
def test_the_question_is_what_stands_before(tmp_path: Path, text: str, question: str, options: tuple[str, ...]) -> None:
    (item,) = open_dataset(write(tmp_path, ROW | {"text": text, "label": "B"})).items
    assert (item.question, item.options) == (question, options)


@pytest.mark.parametrize("text", ["What?", "", "(A) only", "Is (B) it (A) or not?"])
def test_a_text_without_options_has_none(text: str) -> None:
    assert split_text(text) == (text, ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "D"}, "line 1: its answer 'D' is no option; they are A to C"),
        ({"label": 2}, "line 1: it needs a text as label"),
        ({"text": "What?"}, "line 1: its text holds no options"),
        ({"text": "\n(A) x\n(B) y", "label": "A"}, "line 1: its question is empty"),
        ({"text": "What?\n(A) x\n(B) x", "label": "A"}, "its option 'x' stands there twice"),
        ({"image": "b.png"}, "line 1: its image is missing: there is no .*b.png. Put the file there"),
        ({"image": "../b.png"}, "is not below"),
    ],
)
def test_faults_of_a_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        open_dataset(write(tmp_path, ROW | change))


@pytest.mark.parametrize("struct", [True, False])
def test_parquet_holds_bytes_or_a_struct(tmp_path: Path, struct: bool) -> None:
    image: Any = {"bytes": png(), "path": None} if struct else png()
    pq.write_table(pa.Table.from_pylist([ROW | {"image": image}]), tmp_path / "a.parquet")
    (item,) = open_dataset(str(tmp_path)).items
    assert (item.id, item.gold, item.prompt, item.image().size) == ("0", "C", WORDS, (40, 30))


def test_a_parquet_row_without_its_picture_is_a_fault(tmp_path: Path) -> None:
    rows = [ROW | {"image": {"bytes": png(), "path": "a"}}, ROW | {"question_id": "1", "image": {"bytes": None}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    with pytest.raises(DatasetError, match="row 2: its image is missing"):
        open_dataset(str(tmp_path))
