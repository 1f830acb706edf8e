"""Readers: what `speceyes data make` writes comes back as the questions that were asked, with their truth."""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet
import pytest
from PIL import Image

from speceyes.errors import DatasetError, ImageError, InputError
from speceyes.evals.datasets.formats import Format, write_benchmark
from speceyes.evals.datasets.readers import Dataset, Item, open_dataset
from speceyes.evals.datasets.samples import make_samples
from speceyes.evals.datasets.seeds import CALIBRATION, TEST
from speceyes.imaging.decode import DecodeLimits
from speceyes.imaging.view import JPEG, encode


def png() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), "teal").save(out, "PNG")
    return out.getvalue()


def answer_of(item: Item) -> str:
    """The right answer as a word."""
    assert item.gold is not None
    return item.options["ABCDEF".index(item.gold)] if item.options else item.gold


def test_vstar_comes_back(tmp_path: Path) -> None:
    write_benchmark(tmp_path, Format.VSTAR, count=20, seed=4)
    found = open_dataset(str(tmp_path))
    assert (found.kind, len(found.items)) == ("vstar", 20)
    for item in found.items:
        about = json.loads((tmp_path / f"{item.id}.json").read_text())
        assert answer_of(item) == about["options"][0]
        assert sorted(item.options) == sorted(about["options"])
        assert item.prompt.startswith(f"{about['question']}\nA. {item.options[0]}\nB. ")
        assert item.category == item.id.partition("/")[0]
    assert len({item.gold for item in found.items}) >= 3, "the right option must not always stand at one place"
    assert found.items[0].image().size == (1024, 1024)
    assert open_dataset(str(tmp_path)).digest == found.digest
    assert found.shuffle_seed == 0
    for item in found.items:
        shown = json.loads((tmp_path / f"{item.id}.json").read_text())["options"]
        assert [shown[place] for place in item.order] == list(item.options)


def test_hrbench_comes_back(tmp_path: Path) -> None:
    write_benchmark(tmp_path, Format.HRBENCH, count=3, seed=4)
    found = open_dataset(str(tmp_path))
    assert (found.kind, [item.id for item in found.items]) == ("hrbench", [str(index) for index in range(12)])
    for first in range(0, 12, 4):
        turns = found.items[first : first + 4]
        assert sorted(item.gold or "" for item in turns) == list("ABCD")
        assert len({answer_of(item) for item in turns}) == 1
        assert len({item.image().sha256 for item in turns}) == 1
        assert {item.category for item in turns} <= {"single", "cross"}
        assert {item.group for item in turns} == {str(first)}
    assert found.shuffle_seed is None
    assert not any(item.order for item in found.items)


def test_a_table_with_line_ends_and_quotes_in_its_cells_is_read(tmp_path: Path) -> None:
    picture = base64.b64encode(encode(Image.new("RGB", (40, 30)), JPEG)).decode()
    head = "index\tquestion\tanswer\tcategory\tA\tB\timage\n"
    rows = (
        f'7\t"Which ""one""\nis it?"\tB\tsingle\tréd\tblue\t{picture}\n\n8\tAnd now?\tA\tcross\tup\tdown\t{picture}\n'
    )
    (tmp_path / "hr_bench_4k.tsv").write_text(head + rows, encoding="utf-8")
    found = open_dataset(str(tmp_path))
    first, second = found.items
    assert (found.kind, found.form) == ("mcq", "mcq")
    assert (first.question, first.options) == ('Which "one"\nis it?', ("réd", "blue"))
    assert first.image().size == second.image().size == (40, 30)


def test_pope_comes_back(tmp_path: Path) -> None:
    write_benchmark(tmp_path, Format.POPE, count=4, seed=4)
    found = open_dataset(str(tmp_path))
    assert found.kind == "pope"
    assert Counter(item.category for item in found.items) == {"adversarial": 8, "popular": 8, "random": 8}
    assert Counter(item.gold for item in found.items) == {"yes": 12, "no": 12}
    rows = [json.loads(line) for line in (tmp_path / "pope_random.json").read_text().splitlines()]
    by_id = {item.id: item for item in found.items}
    for row in rows:
        item = by_id[f"random/{row['question_id']}"]
        assert (item.prompt, item.gold, item.options) == (row["text"], row["label"], ())
        assert item.image().size == (1024, 1024)


@pytest.mark.parametrize("kind", list(Format))
def test_another_picture_is_another_data_set(tmp_path: Path, kind: Format) -> None:
    write_benchmark(tmp_path, kind, count=2, seed=0, side=64)
    before = open_dataset(str(tmp_path))
    exchange_a_picture(tmp_path)
    after = open_dataset(str(tmp_path))
    assert after.digest != before.digest
    assert after.files != before.files
    assert [item.prompt for item in after.items] == [item.prompt for item in before.items]


def exchange_a_picture(folder: Path) -> None:
    """Put another picture in the place of the first."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".jpg", ".tsv", ".parquet"))
    file = files[0]
    if file.suffix == ".jpg":
        file.write_bytes(png())
    elif file.suffix == ".tsv":
        cell = max(file.read_text().split(), key=len)
        file.write_text(file.read_text().replace(cell, base64.b64encode(png()).decode()))
    else:
        table = pyarrow.parquet.read_table(file)
        rows = table.to_pylist()
        old = rows[0]["image"]
        new = base64.b64encode(png()).decode() if isinstance(old, str) else {**old, "bytes": png()}
        rows = [{**row, "image": new if row["image"] == old else row["image"]} for row in rows]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=table.schema), file)


@pytest.mark.parametrize(("name", "base"), [("calibration", CALIBRATION), ("test", TEST)])
def test_generated_scenes_of_a_split(name: str, base: int) -> None:
    found = open_dataset(f"nano:12:1@{name}")
    samples = make_samples(12, 1, base)
    assert [item.id for item in found.items] == [sample.id for sample in samples]
    assert [item.prompt for item in found.items] == [sample.question for sample in samples]
    assert found.items[5].image().sha256 == samples[5].image.sha256
    assert found.digest != open_dataset("nano:12:1").digest


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nano:ten:0", DatasetError, "nano:N:SEED"),
        ("nano:10:0@training", DatasetError, "The splits are made, calibration, test, validation"),
        ("nano:10:99@test", InputError, "Take a smaller seed"),
        ("nano:0:0", DatasetError, "holds no question"),
        ("nowhere", DatasetError, "no such folder or file"),
        ("vstar:nowhere", DatasetError, "nowhere: there is no such folder or file"),
    ],
)
def test_a_wrong_name_is_said(name: str, error: type[InputError], message: str) -> None:
    with pytest.raises(error, match=message):
        open_dataset(name)


def test_a_folder_without_benchmark_files_is_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="holds no benchmark files that are known"):
        open_dataset(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("direct_attributes/a.json", "{", "cannot be read"),
        ("direct_attributes/a.json", '{"question": "?", "options": []}', "needs a `question` and `options`"),
        ("direct_attributes/a.json", '{"question": "?", "options": ["x", "y"]}', "its image is missing"),
        ("pope_random.json", '{"question_id": 1, "image": "a.jpg", "text": "?"}', "line 1: it needs a text as label"),
        ("pope_random.json", '{"question_id": 1, "image": "../a.jpg", "text": "?", "label": "no"}', "not in images/"),
        (
            "pope_random.json",
            '{"question_id": 1, "image": "a.jpg", "text": "?", "label": "no"}',
            "its image is missing: there is no .*images/a.jpg",
        ),
        ("hr.tsv", "index\tquestion\n", "lacks the column image"),
        ("hr.tsv", "index\tquestion\tanswer\tA\timage\n1\t?\tB\tx\t1\n", "'1', which is neither base64"),
        ("hr.tsv", "index\tquestion\tanswer\tA\timage\n1\t?\n", "has 2 cells, not 5"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, content: str, message: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(DatasetError, match=message):
        open_dataset(str(tmp_path))


def test_a_picture_that_is_no_base64_is_an_image_error(tmp_path: Path) -> None:
    (tmp_path / "hr.tsv").write_text(f"index\tquestion\tanswer\tA\timage\n1\t?\tA\tx\t{100 * '#'}\n")
    (item,) = open_dataset(str(tmp_path)).items
    with pytest.raises(ImageError, match="not base64"):
        item.image()


def test_limits_on_pictures_hold(tmp_path: Path) -> None:
    write_benchmark(tmp_path, Format.VSTAR, count=1, seed=0)
    (item,) = open_dataset(str(tmp_path), DecodeLimits(max_pixels=1000)).items
    with pytest.raises(ImageError, match="more than the limit"):
        item.image()


def test_no_two_items_share_a_name() -> None:
    item = open_dataset("nano:1:0").items[0]
    with pytest.raises(DatasetError, match="twice"):
        Dataset("x", "nano", [item, item])
