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
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from speceyes.evals.datasets.formats.folder import Advance, NewFolder
from speceyes.evals.datasets.questions import ask_existence
from speceyes.evals.datasets.scenes import COLORS, SHAPES, Scene, draw_scene, make_scene
from speceyes.imaging.view import JPEG, encode

SPLITS = ("random", "popular", "adversarial")
IMAGES = "images"
POPULAR = 10
"""How many of the most frequent objects that a scene lacks the popular split draws from."""

Object = tuple[str, str]
"""(colour, shape)"""


def split_file(split: str) -> str:
    """The file of a split."""
    return f"pope_{split}.json"


def write_pope(folder: NewFolder, count: int, seeds: Iterator[int], advance: Advance) -> list[int]:
    """Write `count` scenes with two questions each in every split. Returns the scenes' seeds."""
    scenes = [make_scene(next(seeds)) for _ in range(count)]
    frequency = Counter(thing for scene in scenes for thing in _objects(scene))
    rows: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for i, scene in enumerate(scenes):
        rng = random.Random(f"pope-{scene.seed}")
        image = f"{i:04d}.jpg"
        folder.write(f"{IMAGES}/{image}", encode(draw_scene(scene), JPEG))
        there = rng.choice(_objects(scene))
        for split in SPLITS:
            for thing in (there, _absent(rng, scene, split, frequency)):
                asked = ask_existence(rng, *thing, scene)
                row = {"question_id": len(rows[split]) + 1, "image": image, "text": asked.text, "label": asked.answer}
                rows[split].append(row)
        advance()
    for split in SPLITS:
        folder.write_lines(split_file(split), rows[split])
    return [scene.seed for scene in scenes]


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
