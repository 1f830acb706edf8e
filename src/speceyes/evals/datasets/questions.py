"""Questions about sign scenes: attribute and relative position (as V* asks), existence (as POPE asks)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from speceyes.evals.datasets.scenes import COLORS, DIGITS, SHAPES, Scene, Sign

LETTERS = "ABCDEF"


class Kind(StrEnum):
    """What a question asks for."""

    DIGIT = "digit"
    SHAPE = "shape"
    POSITION = "position"
    EXISTENCE = "existence"


class Axis(StrEnum):
    """Along which axis a position question compares two signs."""

    HORIZONTAL = "horizontal"
    VERTICAL = "vertical"


@dataclass(frozen=True, slots=True)
class SceneQuestion:
    """One question with its truth.

    Attributes:
        kind: What is asked for.
        text: The question alone, without options.
        answer: The right answer as a word ("7", "star", "left", "yes").
        options: Answer options in the order shown; empty for an open question.
        style: How options are lettered: "A. x" or "(A) x".
        targets: Colours of the signs that the question names, in its order (none of them may be in the scene).
        asked_shape: The shape that an existence question asks for.
    """

    kind: Kind
    text: str
    answer: str
    options: tuple[str, ...] = ()
    style: str = "A. x"
    targets: tuple[str, ...] = ()
    asked_shape: str = ""

    @property
    def prompt(self) -> str:
        """The question as a model reads it, options below it."""
        lines = [self.style.replace("A", LETTERS[i]).replace("x", o) for i, o in enumerate(self.options)]
        return "\n".join([self.text, *lines])

    @property
    def letter(self) -> str | None:
        """The letter of the right option."""
        return LETTERS[self.options.index(self.answer)] if self.options else None

    @property
    def gold(self) -> str:
        """What a right answer says: the option's letter where there are options, else the word."""
        return self.letter or self.answer

    def tool_helps(self, scene: Scene) -> bool:
        """Whether the first look cannot answer: the sign asked about is there, is small, and its details matter."""
        if self.kind is Kind.POSITION:
            return False
        sign = scene.find(self.targets[0])
        return sign is not None and sign.small

    def with_options(self, rng: random.Random, style: str | None = None, count: int = 4) -> SceneQuestion:
        """The same question with `count` options in random order (at most two for position and existence)."""
        pool = _rivals(self)
        chosen = [self.answer, *rng.sample(pool, min(count - 1, len(pool)))]
        rng.shuffle(chosen)
        style = style or rng.choice(("A. x", "A. x", "A. x", "(A) x"))
        return SceneQuestion(self.kind, self.text, self.answer, tuple(chosen), style, self.targets, self.asked_shape)


def _rivals(question: SceneQuestion) -> list[str]:
    families: tuple[Sequence[str], ...] = (
        DIGITS,
        SHAPES,
        ("left", "right"),
        ("above", "below"),
        ("yes", "no"),
    )
    family = next(f for f in families if question.answer in f)
    return [word for word in family if word != question.answer]


def ask_digit(rng: random.Random, sign: Sign) -> SceneQuestion:
    """What digit a sign carries."""
    text = rng.choice(("What digit is on the {} sign?", "Which digit does the {} sign show?"))
    return SceneQuestion(Kind.DIGIT, text.format(sign.color), sign.digit, targets=(sign.color,))


def ask_shape(rng: random.Random, sign: Sign) -> SceneQuestion:
    """What shape a sign has."""
    text = rng.choice(("What shape is the {} sign?", "What is the shape of the {} sign?"))
    return SceneQuestion(Kind.SHAPE, text.format(sign.color), sign.shape, targets=(sign.color,))


def ask_position(rng: random.Random, first: Sign, second: Sign, axis: Axis | None = None) -> SceneQuestion:
    """On which side of the second sign the first one is. Ask only about signs that `apart` holds apart."""
    axis = axis or rng.choice(list(Axis))
    if axis is Axis.HORIZONTAL:
        text = rng.choice(
            (
                "Is the {} sign to the left or to the right of the {} sign?",
                "Is the {} sign left or right of the {} sign?",
            )
        )
        answer = "left" if first.x < second.x else "right"
    else:
        text = "Is the {} sign above or below the {} sign?"
        answer = "above" if first.y < second.y else "below"
    colors = (first.color, second.color)
    return SceneQuestion(Kind.POSITION, text.format(*colors), answer, targets=colors)


def ask_existence(rng: random.Random, color: str, shape: str, scene: Scene) -> SceneQuestion:
    """Whether a sign of this colour and shape is in the image."""
    sign = scene.find(color)
    text = rng.choice(("Is there a {} {} in the image?", "Does the image show a {} {}?"))
    answer = "yes" if sign is not None and sign.shape == shape else "no"
    return SceneQuestion(Kind.EXISTENCE, text.format(color, shape), answer, targets=(color,), asked_shape=shape)


def apart(first: Sign, second: Sign, axis: Axis, least: float = 64.0) -> bool:
    """Whether two signs differ enough along an axis for a fair question, in pixels of the scene."""
    if axis is Axis.HORIZONTAL:
        return abs(first.x - second.x) >= least
    return abs(first.y - second.y) >= least


def ask_any(rng: random.Random, scene: Scene, kind: Kind) -> SceneQuestion | None:
    """A random question of a kind; None where the scene has no fair one."""
    sign = rng.choice(scene.signs)
    if kind is Kind.DIGIT:
        return ask_digit(rng, sign)
    if kind is Kind.SHAPE:
        return ask_shape(rng, sign)
    if kind is Kind.POSITION:
        pairs = [
            (a, b, axis) for a in scene.signs for b in scene.signs for axis in Axis if a is not b and apart(a, b, axis)
        ]
        return ask_position(rng, *rng.choice(pairs)) if pairs else None
    color, shape = sign.color, sign.shape
    if rng.random() < 0.5:
        if rng.random() < 0.6:
            shape = rng.choice([s for s in SHAPES if s != shape])
        else:
            color = rng.choice([c for c in COLORS if scene.find(c) is None])
    return ask_existence(rng, color, shape, scene)
