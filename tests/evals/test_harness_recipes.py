"""The files that the recipes for other harnesses name fit what `speceyes data make` writes.

The harnesses themselves weigh gigabytes; `docs/harnesses.md` says which versions were run by hand.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pyarrow.parquet as pq

from speceyes.evals.datasets.formats import Format, write_benchmark
from speceyes.evals.datasets.readers import open_dataset

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "harnesses" / "lmms_eval"))

import signs

HARNESSES = Path(__file__).parents[2] / "examples" / "harnesses"


def test_lmms_eval_finds_the_scenes_and_their_pictures(tmp_path: Path) -> None:
    write_benchmark(tmp_path / "signs", Format.VSTAR_PARQUET, count=2, seed=1, side=64)
    found = re.search(r"test: (\S+)", (HARNESSES / "lmms_eval" / "speceyes_signs.yaml").read_text())
    assert found is not None
    (file,) = tmp_path.glob(found[1])
    rows = pq.read_table(file).to_pylist()
    for row, item in zip(rows, open_dataset(str(tmp_path / "signs")).items, strict=True):
        (picture,) = signs.pictures(row)
        assert (picture.mode, picture.size) == ("RGB", (64, 64))
        assert picture.tobytes() == item.image().pixels.tobytes()
        assert signs.pictures({"image": picture})[0].tobytes() == picture.tobytes()


def test_vlmevalkit_is_told_the_tables_name_and_the_gateways_address(tmp_path: Path) -> None:
    write_benchmark(tmp_path / "table", Format.HRBENCH, count=1, seed=1, side=64)
    (table,) = (tmp_path / "table").glob("*.tsv")
    recipe = json.loads((HARNESSES / "vlmevalkit.json").read_text())
    assert {name: data["dataset"] for name, data in recipe["data"].items()} == {table.stem: table.stem}
    assert recipe["model"]["SpecEyes"]["api_base"].endswith("/v1/chat/completions")
