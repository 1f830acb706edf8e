"""Scenes as an HR-Bench table: `hr_bench.tsv`, tab-separated, one question in four rows; or `hr_bench.parquet`.

Columns: `index, question, answer, category, A, B, C, D, cycle_category, image`. The four rows of a question turn its
options round by one place each, so that the right one stands once at every letter; `cycle_category` says which turn a
row is. `image` is a JPEG in base64.

`single` questions ask for one sign's digit or shape. `cross` questions ask on which of two sides of another sign a
sign is; the question names two sides, so of the options left, right, above and below just one can be its answer.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence

from speceyes.evals.datasets.formats.making import Making, write_parquet
from speceyes.evals.datasets.formats.rows import table_line
from speceyes.evals.datasets.questions import LETTERS, Kind
from speceyes.evals.datasets.samples import Sample, Size, Wish, make_sample

TABLE, PARQUET = "hr_bench.tsv", "hr_bench.parquet"
COLUMNS = ("index", "question", "answer", "category", "A", "B", "C", "D", "cycle_category", "image")
SINGLE, CROSS = "single", "cross"
TURNS = 4
SIDES = ("left", "right", "above", "below")

_PLAN = (
    Wish(Kind.DIGIT, Size.SMALL, options=True),
    Wish(Kind.POSITION),
    Wish(Kind.SHAPE, Size.LARGE, options=True),
    Wish(Kind.POSITION),
    Wish(Kind.DIGIT, Size.LARGE, options=True),
    Wish(Kind.POSITION),
    Wish(Kind.SHAPE, Size.SMALL, options=True),
    Wish(Kind.POSITION),
)


def write_hrbench(making: Making) -> list[int]:
    """Write scenes with one question each, so four times as many rows. Returns the scenes' seeds."""
    used: list[int] = []

    def lines() -> Iterator[bytes]:
        yield table_line(COLUMNS)
        yield from map(table_line, _all_rows(making, used))

    making.folder.write_parts(TABLE, lines())
    return used


def write_hrbench_parquet(making: Making) -> list[int]:
    """The same rows in Parquet. Returns the scenes' seeds."""
    used: list[int] = []
    types = {name: "number" if name == "index" else "text" for name in COLUMNS}
    write_parquet(making, PARQUET, types, (dict(zip(COLUMNS, row, strict=True)) for row in _all_rows(making, used)))
    return used


def _all_rows(making: Making, used: list[int]) -> Iterator[Sequence[str | int]]:
    for i in range(making.count):
        sample = make_sample(making.seeds, _PLAN[i % len(_PLAN)], f"{i:04d}")
        yield from _rows(sample, making.picture(sample.scene), first_index=i * TURNS)
        used.append(sample.scene.seed)
        making.advance()


def _rows(sample: Sample, picture: bytes, first_index: int) -> Iterator[Sequence[str | int]]:
    image = base64.b64encode(picture).decode("ascii")
    options = list(sample.options)
    if sample.kind is Kind.POSITION:
        options = list(SIDES)
        random.Random(f"hrbench-{sample.scene.seed}").shuffle(options)
    category = CROSS if sample.kind is Kind.POSITION else SINGLE
    for turn in range(TURNS):
        turned = options[turn:] + options[:turn]
        answer = LETTERS[turned.index(sample.asked.answer)]
        yield first_index + turn, sample.asked.text, answer, category, *turned, f"cycle_{turn + 1}", image
