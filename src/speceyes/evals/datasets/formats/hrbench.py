"""Scenes as an HR-Bench table: `hr_bench.tsv`, tab-separated, one question in four rows.

Columns: `index, question, answer, category, A, B, C, D, cycle_category, image`. The four rows of a question turn its
options round by one place each, so that the right one stands once at every letter; `cycle_category` says which turn a
row is. `image` is a JPEG in base64.

`single` questions ask for one sign's digit or shape. `cross` questions ask on which of two sides of another sign a
sign is; the question names two sides, so of the options left, right, above and below just one can be its answer.
"""

from __future__ import annotations

import base64
import csv
import io
import random
from collections.abc import Iterator, Sequence

from speceyes.evals.datasets.formats.folder import Advance, NewFolder
from speceyes.evals.datasets.questions import LETTERS, Kind
from speceyes.evals.datasets.samples import Sample, Size, Wish, make_sample
from speceyes.evals.datasets.scenes import draw_scene
from speceyes.imaging.view import JPEG, encode

TABLE = "hr_bench.tsv"
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


def write_hrbench(folder: NewFolder, count: int, seeds: Iterator[int], advance: Advance) -> list[int]:
    """Write `count` scenes with one question each, so 4 x `count` rows. Returns the scenes' seeds."""
    used: list[int] = []

    def lines() -> Iterator[bytes]:
        yield _line(COLUMNS)
        for i in range(count):
            sample = make_sample(seeds, _PLAN[i % len(_PLAN)], f"{i:04d}")
            yield from map(_line, _rows(sample, first_index=i * TURNS))
            used.append(sample.scene.seed)
            advance()

    folder.write_parts(TABLE, lines())
    return used


def _rows(sample: Sample, first_index: int) -> Iterator[Sequence[str | int]]:
    image = base64.b64encode(encode(draw_scene(sample.scene), JPEG)).decode("ascii")
    options = list(sample.options)
    if sample.kind is Kind.POSITION:
        options = list(SIDES)
        random.Random(f"hrbench-{sample.scene.seed}").shuffle(options)
    category = CROSS if sample.kind is Kind.POSITION else SINGLE
    for turn in range(TURNS):
        turned = options[turn:] + options[:turn]
        answer = LETTERS[turned.index(sample.asked.answer)]
        yield first_index + turn, sample.asked.text, answer, category, *turned, f"cycle_{turn + 1}", image


def _line(cells: Sequence[str | int]) -> bytes:
    out = io.StringIO()
    csv.writer(out, delimiter="\t", lineterminator="\n").writerow(cells)
    return out.getvalue().encode()
