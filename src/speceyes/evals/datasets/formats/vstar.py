"""Scenes as V* Bench files.

    direct_attributes/0000.jpg  + 0000.json     what digit, what shape: four options
    relative_position/0001.jpg  + 0001.json     left or right, above or below: two options
    test_questions.jsonl                        the same questions as a list, letters shuffled

A question's JSON holds `question`, `options` (the right one first, as in the original: shuffle before asking),
`target_object`, and `bbox`, one [x, y, width, height] in pixels a target. Three in five are attributes, as in the
original; half of those are about signs that are too small for a first look.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from speceyes.evals.datasets.formats.folder import Advance, NewFolder
from speceyes.evals.datasets.questions import LETTERS, Kind
from speceyes.evals.datasets.samples import Sample, Size, Wish, make_sample
from speceyes.evals.datasets.scenes import draw_scene
from speceyes.imaging.view import JPEG, encode

ATTRIBUTES, POSITION = "direct_attributes", "relative_position"
LIST = "test_questions.jsonl"
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


def write_vstar(folder: NewFolder, count: int, seeds: Iterator[int], advance: Advance) -> list[int]:
    """Write `count` scenes with one question each. Returns the scenes' seeds."""
    rows = []
    used = []
    for i in range(count):
        sample = make_sample(seeds, _PLAN[i % len(_PLAN)], f"{i:04d}")
        category = POSITION if sample.kind is Kind.POSITION else ATTRIBUTES
        name = f"{category}/{i:04d}"
        folder.write(f"{name}.jpg", encode(draw_scene(sample.scene), JPEG))
        folder.write(f"{name}.json", (json.dumps(_annotation(sample), indent=1) + "\n").encode())
        rows.append(_row(sample, i, category, f"{name}.jpg"))
        used.append(sample.scene.seed)
        advance()
    folder.write_lines(LIST, rows)
    return used


def _annotation(sample: Sample) -> dict[str, Any]:
    gold = sample.asked.answer
    return {
        "target_object": [f"{color} sign" for color in sample.asked.targets],
        "bbox": [_corner_and_size(*box) for box in sample.boxes],
        "question": sample.asked.text,
        "options": [gold, *(option for option in sample.options if option != gold)],
    }


def _corner_and_size(left: float, top: float, right: float, bottom: float) -> list[int]:
    return [round(left), round(top), round(right - left), round(bottom - top)]


def _row(sample: Sample, index: int, category: str, image: str) -> dict[str, Any]:
    options = list(sample.options)
    random.Random(f"vstar-list-{sample.scene.seed}").shuffle(options)
    lines = [f"({letter}) {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return {
        "image": image,
        "text": "\n".join([sample.asked.text, *lines, ASK]),
        "category": category,
        "label": LETTERS[options.index(sample.asked.answer)],
        "question_id": index,
    }
