"""Scenes as POPE files: is this object in the image, yes or no?

    images/0000.jpg
    pope_random.json        JSON lines: question_id, image, text, label
    pope_popular.json
    pope_adversarial.json

Each scene is asked about twice in every split: about a sign that it has (the same in all three), and about one that it
does not have. What is not there is harder to deny from split to split:

- random: any coloured shape that is not in the scene;
- popular: one of those that are most frequent in this set;
- adversarial: a colour that is in the scene, in another shape.

Also as one Parquet file, in which `category` names the split and every row holds its picture.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from speceyes.evals.datasets.formats.making import Making, image_struct, write_parquet
from speceyes.evals.datasets.questions import ask_existence
from speceyes.evals.datasets.scenes import COLORS, SHAPES, Scene, make_scene

SPLITS = ("random", "popular", "adversarial")
IMAGES = "images"
PARQUET = "data/test-00000-of-00001.parquet"
POPULAR = 10
"""How many of the most frequent objects that a scene lacks the popular split draws from."""

Object = tuple[str, str]
"""(colour, shape)"""


def split_file(split: str) -> str:
    """The file of a split."""
    return f"pope_{split}.json"


def write_pope(making: Making) -> list[int]:
    """Write scenes with two questions each in every split. Returns the scenes' seeds."""
    scenes = [make_scene(next(making.seeds)) for _ in range(making.count)]
    rows: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for i, asked in enumerate(_questions(scenes)):
        making.folder.write(f"{IMAGES}/{i:04d}.jpg", making.picture(scenes[i]))
        for split, text, label in asked:
            number = len(rows[split]) + 1
            rows[split].append({"question_id": number, "image": f"{i:04d}.jpg", "text": text, "label": label})
        making.advance()
    for split in SPLITS:
        making.folder.write_lines(split_file(split), rows[split])
    return [scene.seed for scene in scenes]


def write_pope_parquet(making: Making) -> list[int]:
    """The same questions in Parquet, scene by scene. Returns the scenes' seeds."""
    scenes = [make_scene(next(making.seeds)) for _ in range(making.count)]

    def rows() -> Iterator[dict[str, Any]]:
        numbers, row = Counter[str](), 0
        for i, asked in enumerate(_questions(scenes)):
            image = image_struct(making.picture(scenes[i]), f"{i:04d}.jpg")
            for split, text, label in asked:
                numbers[split] += 1
                names = {"id": str(row), "question_id": str(numbers[split]), "image_source": f"{i:04d}"}
                yield {**names, "question": text, "answer": label, "category": split, "image": image}
                row += 1
            making.advance()

    texts = ("id", "question_id", "question", "answer", "image_source", "category")
    write_parquet(making, PARQUET, {**dict.fromkeys(texts, "text"), "image": "image"}, rows())
    return [scene.seed for scene in scenes]


def _questions(scenes: list[Scene]) -> Iterator[list[tuple[str, str, str]]]:
    """(split, question, answer) of all questions about each scene."""
    frequency = Counter(thing for scene in scenes for thing in _objects(scene))
    for scene in scenes:
        rng = random.Random(f"pope-{scene.seed}")
        there = rng.choice(_objects(scene))
        asked = []
        for split in SPLITS:
            for thing in (there, _absent(rng, scene, split, frequency)):
                question = ask_existence(rng, *thing, scene)
                asked.append((split, question.text, question.answer))
        yield asked


def _objects(scene: Scene) -> list[Object]:
    return [(sign.color, sign.shape) for sign in scene.signs]


def _absent(rng: random.Random, scene: Scene, split: str, frequency: Counter[Object]) -> Object:
    has = _objects(scene)
    lacks = [(color, shape) for color in COLORS for shape in SHAPES if (color, shape) not in has]
    if split == "adversarial":
        lacks = [(color, shape) for color, shape in lacks if scene.find(color)]
    elif split == "popular":
        lacks = sorted(lacks, key=lambda thing: -frequency[thing])[:POPULAR]
    return rng.choice(lacks)
