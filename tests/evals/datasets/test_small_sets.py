"""The kept sets: files that no writer of today has written are read as they always were."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from make_sets import SETS

from speceyes.evals.datasets.formats import Format
from speceyes.evals.datasets.readers import check_dataset, open_dataset

KNOWN = {
    Format.VSTAR: (2, "f90d4c318081"),
    Format.VSTAR_JSONL: (2, "7a88ef9c4cfa"),
    Format.VSTAR_PARQUET: (2, "7a88ef9c4cfa"),
    Format.HRBENCH: (4, "9fa5acb3efdd"),
    Format.HRBENCH_PARQUET: (4, "9fa5acb3efdd"),
    Format.POPE: (6, "6702e896fedf"),
    Format.POPE_PARQUET: (6, "51ceaa283125"),
    Format.MCQ: (4, "784dfabe808a"),
}


@pytest.mark.parametrize("kind", list(Format))
def test_a_kept_set_is_read_as_ever(kind: Format) -> None:
    found = open_dataset(str(SETS / kind))
    assert (found.kind, found.form) == (kind.kind, kind.value)
    assert (len(found.items), found.digest[7:19]) == KNOWN[kind]
    assert all(item.image().size == (48, 48) for item in found.items)


@pytest.mark.parametrize("kind", list(Format))
def test_nothing_is_wrong_with_a_kept_set(kind: Format) -> None:
    checked = check_dataset(str(SETS / kind))
    assert (checked.faults, checked.remarks) == ((), ())
    assert checked.pictures == json.loads((SETS / kind / "manifest.json").read_text())["count"]


def test_a_container_changes_nothing_in_a_set() -> None:
    table, parquet = (open_dataset(str(SETS / kind)) for kind in (Format.HRBENCH, Format.HRBENCH_PARQUET))
    assert table.digest == parquet.digest
    lines, parquet = (open_dataset(str(SETS / kind)) for kind in (Format.VSTAR_JSONL, Format.VSTAR_PARQUET))
    assert lines.digest == parquet.digest
    lines, parquet = (open_dataset(str(SETS / kind)) for kind in (Format.POPE, Format.POPE_PARQUET))
    by_id = [{item.id: (item.prompt, item.gold, item.image_name) for item in found.items} for found in (lines, parquet)]
    assert by_id[0] == by_id[1]


def test_recorded_file_hashes_are_those_of_the_manifest() -> None:
    for kind in Format:
        listed = json.loads((SETS / kind / "manifest.json").read_text())["files"]
        files = open_dataset(str(SETS / kind)).files
        assert files
        assert files == {name: f"sha256:{listed[name]['sha256']}" for name in files}
        unread = set(listed) - set(files)
        assert unread <= {"test_questions.jsonl"}, "a V* folder also has the list"


def test_kept_sets_are_small() -> None:
    sizes = Counter({path: path.stat().st_size for path in SETS.rglob("*") if path.is_file()})
    assert sizes.total() < 80_000
    assert {Path(path).parents[1].name for path in sizes} <= {"sets", *Format, "datasets"}
