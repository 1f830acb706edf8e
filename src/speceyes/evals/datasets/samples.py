"""Balanced sets of questions about fresh scenes, drawn when they are looked at."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from speceyes.errors import InputError
from speceyes.evals.datasets.questions import (
    Kind,
    SceneQuestion,
    ask_any,
    ask_digit,
    ask_existence,
    ask_shape,
)
from speceyes.evals.datasets.scenes import COLORS, SHAPES, Scene, Sign, draw_scene, make_scene
from speceyes.evals.datasets.seeds import MADE, scene_seeds
from speceyes.imaging.decode import DecodedImage, decode
from speceyes.types import Query


class Size(StrEnum):
    """How large what a question names is in the scene."""

    SMALL = "small"
    """At least one of the signs is too small for the first look."""
    LARGE = "large"
    ABSENT = "absent"
    """No sign of the colour is in the scene."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a question of a set is to be like. None leaves it open."""

    kind: Kind
    size: Size | None = None
    options: bool = False
    answer: str | None = None


_D, _S, _P, _E = Kind.DIGIT, Kind.SHAPE, Kind.POSITION, Kind.EXISTENCE

PLAN = (
    Wish(_D, Size.SMALL),
    Wish(_P, options=True),
    Wish(_S, Size.LARGE),
    Wish(_E, Size.SMALL, answer="yes"),
    Wish(_D, Size.LARGE, options=True),
    Wish(_S, Size.SMALL, options=True),
    Wish(_D, Size.LARGE),
    Wish(_E, Size.ABSENT, options=True, answer="no"),
    Wish(_P),
    Wish(_D, Size.SMALL, options=True),
    Wish(_S, Size.LARGE, options=True),
    Wish(_D, Size.SMALL),
    Wish(_E, Size.SMALL, answer="no"),
    Wish(_P),
    Wish(_S, Size.SMALL),
    Wish(_D, Size.LARGE, options=True),
    Wish(_E, Size.LARGE, options=True, answer="yes"),
    Wish(_D, Size.SMALL, options=True),
    Wish(_P, options=True),
    Wish(_S, Size.LARGE, options=True),
)
"""The questions of a set, over and over: 7 digits, 5 shapes, 4 positions and 4 existences in twenty, eleven of them
with options. Eight need a closer look; the first ten alone are about as balanced as all."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One question about one scene.

    Attributes:
        id: Names the place in the set and the scene's seed.
        scene: What is in the picture.
        asked: The question with its truth.
    """

    id: str
    scene: Scene
    asked: SceneQuestion

    @property
    def kind(self) -> Kind:
        return self.asked.kind

    @property
    def question(self) -> str:
        """The text that a model is asked, options below it."""
        return self.asked.prompt

    @property
    def options(self) -> tuple[str, ...]:
        return self.asked.options

    @property
    def gold(self) -> str:
        """The right option's letter, or the right word where there are no options."""
        return self.asked.gold

    @property
    def size(self) -> Size:
        return size_of(self.asked, self.scene)

    @property
    def tool_helps(self) -> bool:
        """Whether the first look at the whole scene cannot answer."""
        return self.asked.tool_helps(self.scene)

    @property
    def boxes(self) -> tuple[tuple[float, float, float, float], ...]:
        """(left, top, right, bottom) in pixels of the scene, for each sign that is asked about and is there."""
        return tuple(sign.box for sign in _named(self.asked, self.scene))

    @property
    def image(self) -> DecodedImage:
        """The picture, drawn anew each time (about 20 ms): keep it while it is needed, not longer (3 MB)."""
        file = io.BytesIO()
        draw_scene(self.scene).save(file, "BMP")  # without loss, and the quickest to write and read
        return decode(file.getvalue(), name=self.id)

    def query(self) -> Query:
        """The query to put before a model. It holds the picture."""
        return Query(self.question, (self.image,), id=self.id)


def make_samples(count: int, seed: int, base: int = MADE) -> list[Sample]:
    """A balanced set after `PLAN`, about 40 % of it questions that need a closer look.

    Args:
        count: How many samples.
        seed: The same seed gives the same samples, and no two seeds share a scene.
        base: Where the scene seeds start; see `seeds`.

    Raises:
        InputError: The count is negative or exhausts the seed's scenes; or as `scene_seeds`.
    """
    if count < 0:
        raise InputError(f"The count is {count}; it must be 0 or more.")
    seeds = iter(scene_seeds(seed, base))
    return [make_sample(seeds, PLAN[i % len(PLAN)], f"{i:04d}") for i in range(count)]


def make_sample(seeds: Iterator[int], wish: Wish, name: str) -> Sample:
    """The next scene that has such a question, and the question.

    Raises:
        InputError: The seeds ran out.
    """
    for scene_seed in seeds:
        scene, rng = make_scene(scene_seed), random.Random(f"sample-{scene_seed}")
        if (question := ask(rng, scene, wish)) is not None:
            asked = question.with_options(rng) if wish.options else question
            return Sample(f"{name}-{scene_seed}", scene, asked)
    raise InputError(f"The scenes of this seed are used up at sample {name}. Ask for fewer, or use several seeds.")


def ask(rng: random.Random, scene: Scene, wish: Wish) -> SceneQuestion | None:
    """A random open question as wished; None where the scene has none."""
    if wish.kind is Kind.POSITION:
        return ask_any(rng, scene, Kind.POSITION)
    if wish.size is Size.ABSENT:
        color = rng.choice([color for color in COLORS if scene.find(color) is None])
        return ask_existence(rng, color, rng.choice(SHAPES), scene)
    signs = [sign for sign in scene.signs if wish.size in (None, _size(sign))]
    if not signs:
        return None
    sign = rng.choice(signs)
    if wish.kind is Kind.DIGIT:
        return ask_digit(rng, sign)
    if wish.kind is Kind.SHAPE:
        return ask_shape(rng, sign)
    there = wish.answer == "yes" if wish.answer else rng.random() < 0.5
    shape = sign.shape if there else rng.choice([shape for shape in SHAPES if shape != sign.shape])
    return ask_existence(rng, sign.color, shape, scene)


def size_of(question: SceneQuestion, scene: Scene) -> Size:
    """The size of the smallest sign that the question names."""
    sizes = [_size(sign) for sign in _named(question, scene)]
    if not sizes:
        return Size.ABSENT
    return Size.SMALL if Size.SMALL in sizes else Size.LARGE


def _size(sign: Sign) -> Size:
    return Size.SMALL if sign.small else Size.LARGE


def _named(question: SceneQuestion, scene: Scene) -> list[Sign]:
    return [sign for color in question.targets if (sign := scene.find(color)) is not None]
