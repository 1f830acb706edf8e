"""Benchmark files: in the public benchmarks' form, true to their scenes, reproducible, and never half written."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from speceyes.errors import DatasetError, InputError
from speceyes.evals.datasets.formats import MANIFEST, Format, write_benchmark
from speceyes.evals.datasets.formats.folder import NewFolder, new_folder
from speceyes.evals.datasets.formats.pope import SPLITS, split_file
from speceyes.evals.datasets.scenes import COLORS, SHAPES, Scene, draw_scene, make_scene
from speceyes.evals.datasets.seeds import MADE
from speceyes.imaging.decode import decode, load

COUNT, SEED = 20, 1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[Format, Path]:
    folders = {kind: tmp_path_factory.mktemp(kind) / "set" for kind in Format}
    for kind, folder in folders.items():
        write_benchmark(folder, kind, count=COUNT, seed=SEED)
    return folders


def manifest(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return content


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def scenes_of(folder: Path) -> list[Scene]:
    return [make_scene(seed) for seed in manifest(folder)["scene_seeds"]]


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, path.read_text().splitlines())


def answer(text: str, scene: Scene) -> str:
    """The truth of an attribute or position question, from its words alone."""
    words = text.lower().replace("?", "").split()
    signs = {sign.color: sign for sign in scene.signs}
    named = [signs[word] for word in words if word in COLORS]
    if "digit" in words:
        return named[0].digit
    if "shape" in words:
        return named[0].shape
    if "left" in words:
        return "left" if named[0].x < named[1].x else "right"
    return "above" if named[0].y < named[1].y else "below"


def shows(image: Path | bytes, scene: Scene) -> bool:
    """Whether a JPEG shows this scene."""
    found = load(image) if isinstance(image, Path) else decode(image)
    difference = np.asarray(found.pixels, dtype=float) - np.asarray(draw_scene(scene), dtype=float)
    return found.format == "JPEG" and float(np.abs(difference).mean()) < 3


@pytest.mark.parametrize("kind", Format)
def test_the_same_seed_makes_the_same_files(kind: Format, made: dict[Format, Path], tmp_path: Path) -> None:
    write_benchmark(tmp_path / "again", kind, count=COUNT, seed=SEED)
    write_benchmark(tmp_path / "other", kind, count=COUNT, seed=SEED + 1)
    assert files_of(tmp_path / "again") == files_of(made[kind])
    assert not set(manifest(tmp_path / "other")["scene_seeds"]) & set(manifest(made[kind])["scene_seeds"])


@pytest.mark.parametrize("kind", Format)
def test_the_manifest_lists_every_file_with_its_hash(kind: Format, made: dict[Format, Path]) -> None:
    files = files_of(made[kind])
    del files[MANIFEST]
    listed = manifest(made[kind])
    assert listed["files"] == {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in files.items()
    }
    assert (listed["format"], listed["count"], listed["seed"]) == (kind.value, COUNT, SEED)
    assert len(set(listed["scene_seeds"])) == COUNT
    assert min(listed["scene_seeds"]) >= MADE


def test_vstar_folders_hold_pairs_with_the_right_option_first(made: dict[Format, Path]) -> None:
    folder, stems = made[Format.VSTAR], Counter[str]()
    for i, scene in enumerate(scenes_of(folder)):
        (path,) = folder.glob(f"*/{i:04d}.json")
        stems[path.parent.name] += 1
        content = json.loads(path.read_text())
        assert set(content) == {"target_object", "bbox", "question", "options"}
        assert content["options"][0] == answer(content["question"], scene)
        assert len(set(content["options"])) == (4 if path.parent.name == "direct_attributes" else 2)
        assert shows(path.with_suffix(".jpg"), scene)
    assert stems == {"direct_attributes": 12, "relative_position": 8}


def test_vstar_boxes_are_left_top_width_height_of_each_target(made: dict[Format, Path]) -> None:
    folder = made[Format.VSTAR]
    for i, scene in enumerate(scenes_of(folder)):
        (path,) = folder.glob(f"*/{i:04d}.json")
        content = json.loads(path.read_text())
        assert len(content["bbox"]) == len(content["target_object"]) == (1 if "direct" in str(path) else 2)
        for name, (x, y, width, height) in zip(content["target_object"], content["bbox"], strict=True):
            sign = scene.find(name.removesuffix(" sign"))
            assert sign is not None
            assert (x + width / 2, y + height / 2) == pytest.approx((sign.x, sign.y), abs=1)
            assert width == height == pytest.approx(2 * sign.radius, abs=1)


def test_the_vstar_list_asks_the_same_with_letters_shuffled(made: dict[Format, Path]) -> None:
    folder = made[Format.VSTAR]
    rows = list(lines_of(folder / "test_questions.jsonl"))
    assert [row["question_id"] for row in rows] == [str(index) for index in range(COUNT)]
    for row in rows:
        annotation = json.loads((folder / row["image"]).with_suffix(".json").read_text())
        text, *options, _ = row["text"].splitlines()
        assert text == annotation["question"]
        assert f"({row['label']}) {annotation['options'][0]}" in options
        assert sorted(option[4:] for option in options) == sorted(annotation["options"])
        assert row["category"] == Path(row["image"]).parent.name
    assert len({row["label"] for row in rows}) == 4


def hrbench_rows(folder: Path) -> list[dict[str, str]]:
    csv.field_size_limit(10_000_000)
    text = (folder / "hr_bench.tsv").read_text()
    return list(csv.DictReader(io.StringIO(text), delimiter="\t"))


def test_hrbench_turns_the_options_of_each_question_round(made: dict[Format, Path]) -> None:
    folder = made[Format.HRBENCH]
    rows = hrbench_rows(folder)
    assert list(rows[0]) == ["index", "question", "answer", "category", "A", "B", "C", "D", "cycle_category", "image"]
    assert [row["index"] for row in rows] == [str(i) for i in range(4 * COUNT)]
    for i, scene in enumerate(scenes_of(folder)):
        group = rows[4 * i : 4 * i + 4]
        assert len({(row["question"], row["category"], row["image"]) for row in group}) == 1
        assert sorted(row["answer"] for row in group) == ["A", "B", "C", "D"]
        assert len({row["cycle_category"] for row in group}) == 4
        orders = {tuple(row[letter] for letter in "ABCD") for row in group}
        assert len(orders) == 4
        assert len({frozenset(order) for order in orders}) == 1
        assert {row[row["answer"]] for row in group} == {answer(group[0]["question"], scene)}
    assert Counter(row["category"] for row in rows) == {"single": 2 * COUNT, "cross": 2 * COUNT}


def test_hrbench_images_are_the_scenes(made: dict[Format, Path]) -> None:
    folder = made[Format.HRBENCH]
    rows = hrbench_rows(folder)[::4]
    for row, scene in zip(rows, scenes_of(folder), strict=True):
        assert shows(base64.b64decode(row["image"], validate=True), scene)


def test_just_one_option_of_a_cross_question_answers_it(made: dict[Format, Path]) -> None:
    for row in hrbench_rows(made[Format.HRBENCH]):
        if row["category"] == "cross":
            options = {row[letter] for letter in "ABCD"}
            assert options == {"left", "right", "above", "below"}
            asked = {"left", "right"} if "left" in row["question"] else {"above", "below"}
            assert row[row["answer"]] in asked


@pytest.mark.parametrize("split", SPLITS)
def test_pope_splits_are_true_and_balanced(split: str, made: dict[Format, Path]) -> None:
    folder = made[Format.POPE]
    rows = list(lines_of(folder / split_file(split)))
    scenes = scenes_of(folder)
    assert Counter(row["label"] for row in rows) == {"yes": COUNT, "no": COUNT}
    assert [row["question_id"] for row in rows] == list(range(1, 2 * COUNT + 1))
    for row in rows:
        scene = scenes[int(Path(row["image"]).stem)]
        assert (row["label"] == "yes") == (thing(row) in [(sign.color, sign.shape) for sign in scene.signs])
        if split == "adversarial":
            assert scene.find(thing(row)[0]) is not None
    assert all(shows(folder / "images" / f"{i:04d}.jpg", scene) for i, scene in enumerate(scenes))


def thing(row: dict[str, Any]) -> tuple[str, str]:
    words = row["text"].lower().replace("?", "").split()
    return next(word for word in words if word in COLORS), next(word for word in words if word in SHAPES)


def test_the_popular_split_denies_more_frequent_objects_than_the_random_one(tmp_path: Path) -> None:
    write_benchmark(tmp_path / "pope", Format.POPE, count=80, seed=2)
    frequency = Counter((sign.color, sign.shape) for scene in scenes_of(tmp_path / "pope") for sign in scene.signs)

    def denied(split: str) -> float:
        rows = [row for row in lines_of(tmp_path / "pope" / split_file(split)) if row["label"] == "no"]
        return sum(frequency[thing(row)] for row in rows) / len(rows)

    assert denied("popular") > 1.2 * denied("random")


def test_positive_questions_are_the_same_in_all_splits(made: dict[Format, Path]) -> None:
    folder = made[Format.POPE]
    positives = [[thing(r) for r in lines_of(folder / split_file(s)) if r["label"] == "yes"] for s in SPLITS]
    assert positives[0] == positives[1] == positives[2]


def test_a_folder_that_is_not_empty_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DatasetError, match="--force"):
        write_benchmark(tmp_path, Format.POPE, count=1, seed=0)
    assert files_of(tmp_path) == {"mine.txt": b"mine"}


def test_force_replaces_an_earlier_set_and_leaves_other_files(tmp_path: Path) -> None:
    write_benchmark(tmp_path, Format.POPE, count=3, seed=0)
    (tmp_path / "mine.txt").write_text("mine")
    write_benchmark(tmp_path, Format.VSTAR, count=1, seed=0, force=True)
    names = set(files_of(tmp_path))
    assert names == {
        "mine.txt",
        MANIFEST,
        "test_questions.jsonl",
        "direct_attributes/0000.jpg",
        "direct_attributes/0000.json",
    }


def test_a_manifest_cannot_remove_what_is_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("mine")
    target = tmp_path / "set"
    target.mkdir()
    (target / MANIFEST).write_text(json.dumps({"files": {"../outside.txt": {}, str(tmp_path / "outside.txt"): {}}}))
    write_benchmark(target, Format.POPE, count=1, seed=0, force=True)
    assert (tmp_path / "outside.txt").read_text() == "mine"


def test_an_error_on_the_way_leaves_nothing_behind(tmp_path: Path) -> None:
    def make() -> None:
        with new_folder(tmp_path / "set") as folder:
            folder.write("a/b.txt", b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        make()
    assert files_of(tmp_path) == {}


def test_a_file_is_not_written_twice(tmp_path: Path) -> None:
    folder = NewFolder(tmp_path)
    folder.write("a.txt", b"one", b"two")
    assert (tmp_path / "a.txt").read_bytes() == b"onetwo"
    with pytest.raises(DatasetError, match="twice"):
        folder.write("a.txt", b"three")


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set").write_text("a file")
    with pytest.raises(DatasetError, match="is a file"):
        write_benchmark(tmp_path / "set", Format.POPE, count=1, seed=0, force=True)


@pytest.mark.parametrize(
    ("count", "seed", "side"),
    [(0, 0, 1024), (-3, 0, 1024), (100_001, 0, 1024), (1, -1, 1024), (1, 0, 31), (1, 0, 1025)],
)
def test_numbers_out_of_range_are_refused(count: int, seed: int, side: int, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        write_benchmark(tmp_path / "set", Format.POPE, count=count, seed=seed, side=side)
    assert not (tmp_path / "set").exists()


def test_progress_is_told_of_every_scene(tmp_path: Path) -> None:
    steps: list[int] = []
    for kind in Format:
        write_benchmark(tmp_path / kind, kind, count=3, seed=0, side=64, advance=lambda: steps.append(1))
    assert len(steps) == 3 * len(Format)


def test_small_pictures_keep_their_boxes(tmp_path: Path) -> None:
    write_benchmark(tmp_path / "large", Format.VSTAR, count=1, seed=0)
    write_benchmark(tmp_path / "small", Format.VSTAR, count=1, seed=0, side=256)
    name = "direct_attributes/0000"
    large, small = (json.loads((tmp_path / size / f"{name}.json").read_text()) for size in ("large", "small"))
    assert load(tmp_path / "small" / f"{name}.jpg").size == (256, 256)
    assert small["bbox"][0] == pytest.approx([side / 4 for side in large["bbox"][0]], abs=0.5)
    assert {**small, "bbox": []} == {**large, "bbox": []}


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    return rows


def test_the_vstar_list_alone_and_as_parquet_ask_the_same(made: dict[Format, Path]) -> None:
    both = [list(lines_of(made[kind] / "test_questions.jsonl")) for kind in (Format.VSTAR, Format.VSTAR_JSONL)]
    rows = parquet_rows(made[Format.VSTAR_PARQUET] / "data" / "test-00000-of-00001.parquet")
    assert list(rows[0]) == ["image", "text", "category", "label", "question_id"]
    for first, alone, row, scene in zip(*both, rows, scenes_of(made[Format.VSTAR]), strict=True):
        assert {**first, "image": ""} == {**alone, "image": ""} == {**row, "image": ""}
        assert shows(made[Format.VSTAR_JSONL] / alone["image"], scene)
        assert shows(row["image"]["bytes"], scene)


def test_hrbench_as_parquet_has_the_same_rows(made: dict[Format, Path]) -> None:
    rows = parquet_rows(made[Format.HRBENCH_PARQUET] / "hr_bench.parquet")
    assert [{**row, "index": str(row["index"])} for row in rows] == hrbench_rows(made[Format.HRBENCH])


def test_pope_as_parquet_asks_the_same(made: dict[Format, Path]) -> None:
    rows = parquet_rows(made[Format.POPE_PARQUET] / "data" / "test-00000-of-00001.parquet")
    assert [row["id"] for row in rows] == [str(i) for i in range(6 * COUNT)]
    for split in SPLITS:
        lines = lines_of(made[Format.POPE] / split_file(split))
        for line, row in zip(lines, (row for row in rows if row["category"] == split), strict=True):
            assert (str(line["question_id"]), line["text"], line["label"]) == (
                row["question_id"],
                row["question"],
                row["answer"],
            )
            assert row["image"]["bytes"] == (made[Format.POPE] / "images" / line["image"]).read_bytes()


def test_a_table_of_mixed_questions_shares_its_pictures(made: dict[Format, Path]) -> None:
    text = (made[Format.MCQ] / "questions.tsv").read_text()
    rows = list(csv.DictReader(io.StringIO(text), delimiter="\t"))
    assert [row["index"] for row in rows] == [str(i) for i in range(2 * COUNT)]
    for first, second, scene in zip(rows[::2], rows[1::2], scenes_of(made[Format.MCQ]), strict=True):
        assert second["image"] == first["index"]
        assert shows(base64.b64decode(first["image"], validate=True), scene)
        assert first[first["answer"]] == answer(first["question"], scene)
        assert not second["A"]
        assert second["answer"] == ("yes" if thing({"text": second["question"]}) in pairs_of(scene) else "no")
    assert {sum(bool(row[letter]) for letter in "ABCD") for row in rows} == {0, 2, 4}


def pairs_of(scene: Scene) -> list[tuple[str, str]]:
    return [(sign.color, sign.shape) for sign in scene.signs]
