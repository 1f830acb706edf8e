"""Scenes as V* Bench files.

    direct_attributes/0000.jpg  + 0000.json     what digit, what shape: four options
    relative_position/0001.jpg  + 0001.json     left or right, above or below: two options
    test_questions.jsonl                        the same questions as a list, letters shuffled

A question's JSON holds `question`, `options` (the right one first, as in the original: shuffle before asking),
`target_object`, and `bbox`, one [x, y, width, height] in pixels a target. Three in five are attributes, as in the
original; half of those are about signs that are too small for a first look.

The list also comes alone, with its pictures in the same folders, and as a Parquet file with the pictures in it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from speceyes.evals.datasets.formats.making import Making, image_struct, write_parquet
from speceyes.evals.datasets.questions import LETTERS, Kind
from speceyes.evals.datasets.samples import Sample, Size, Wish, make_sample

ATTRIBUTES, POSITION = "direct_attributes", "relative_position"
LIST = "test_questions.jsonl"
PARQUET = "data/test-00000-of-00001.parquet"
ASK = "Answer with the letter of the right option."

_PLAN = (
    Wish(Kind.DIGIT, Size.SMALL, options=True),
    Wish(Kind.POSITION, options=True),
    Wish(Kind.SHAPE, Size.LARGE, options=True),
    Wish(Kind.DIGIT, Size.LARGE, options=True),
    Wish(Kind.POSITION, options=True),
    Wish(Kind.SHAPE, Size.SMALL, options=True),
    Wish(Kind.POSITION, options=True),
    Wish(Kind.DIGIT, Size.SMALL, options=True),
    Wish(Kind.DIGIT, Size.LARGE, options=True),
    Wish(Kind.POSITION, options=True),
)


def write_vstar(making: Making) -> list[int]:
    """Write scenes with one question each, as folders and as a list. Returns the scenes' seeds."""
    rows, used = [], []
    for index, sample in _samples(making):
        name = f"{_category(sample)}/{index:04d}"
        making.folder.write(f"{name}.jpg", making.picture(sample.scene))
        annotation = _annotation(sample, making.scale)
        making.folder.write(f"{name}.json", (json.dumps(annotation, indent=1) + "\n").encode())
        rows.append({"image": f"{name}.jpg", **_row(sample, index)})
        used.append(sample.scene.seed)
        making.advance()
    making.folder.write_lines(LIST, rows)
    return used


def write_vstar_list(making: Making) -> list[int]:
    """Write the list and its pictures only. Returns the scenes' seeds."""
    rows, used = [], []
    for index, sample in _samples(making):
        image = f"images/{index:04d}.jpg"  # no folder of a category: the list alone says what there is
        making.folder.write(image, making.picture(sample.scene))
        rows.append({"image": image, **_row(sample, index)})
        used.append(sample.scene.seed)
        making.advance()
    making.folder.write_lines(LIST, rows)
    return used


def write_vstar_parquet(making: Making) -> list[int]:
    """Write the list as Parquet, pictures within. Returns the scenes' seeds."""
    used = []

    def rows() -> Iterator[dict[str, Any]]:
        for index, sample in _samples(making):
            yield {"image": image_struct(making.picture(sample.scene), f"{index:04d}.jpg"), **_row(sample, index)}
            used.append(sample.scene.seed)
            making.advance()

    types = {"image": "image", "text": "text", "category": "text", "label": "text", "question_id": "text"}
    write_parquet(making, PARQUET, types, rows())
    return used


def _samples(making: Making) -> Iterator[tuple[int, Sample]]:
    for i in range(making.count):
        yield i, make_sample(making.seeds, _PLAN[i % len(_PLAN)], f"{i:04d}")


def _category(sample: Sample) -> str:
    return POSITION if sample.kind is Kind.POSITION else ATTRIBUTES


def _annotation(sample: Sample, scale: float) -> dict[str, Any]:
    gold = sample.asked.answer
    return {
        "target_object": [f"{color} sign" for color in sample.asked.targets],
        "bbox": [_corner_and_size(*(scale * side for side in box)) for box in sample.boxes],
        "question": sample.asked.text,
        "options": [gold, *(option for option in sample.options if option != gold)],
    }


def _corner_and_size(left: float, top: float, right: float, bottom: float) -> list[int]:
    return [round(left), round(top), round(right - left), round(bottom - top)]


def _row(sample: Sample, index: int) -> dict[str, Any]:
    options = list(sample.options)
    random.Random(f"vstar-list-{sample.scene.seed}").shuffle(options)
    lines = [f"({letter}) {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return {
        "text": "\n".join([sample.asked.text, *lines, ASK]),
        "category": _category(sample),
        "label": LETTERS[options.index(sample.asked.answer)],
        "question_id": str(index),
    }
