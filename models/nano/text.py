"""What the nano models read and write during training: conversations as pieces of text, some of them to be learned.

A conversation is a *trunk* (system prompt, tools, first look) from which several *branches* grow: a question and all
that follows it. The branches of a scene share its trunk, so that the dear part, the picture, is computed once.

Here are the pieces, and what the draft learns. The agent's runs are in `runs.py`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from grid import place, round_box

from speceyes.agents.dialects.deepeyes import PROMPTS
from speceyes.evals.datasets.questions import Kind, SceneQuestion, ask_any, ask_digit, ask_existence, ask_shape
from speceyes.evals.datasets.scenes import SHAPES, Scene, Sign

DRAFT = "Answer with one word or a short phrase."
LOOK = (
    'Which part of the image must be seen up close for that? Reply with its box as JSON: {"bbox_2d": [x1, y1, x2, y2]}'
)
CLOSER = 15.0
"""How many times as much as a box's token the word counts that was read up close: it would drown among them."""
IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


@dataclass(frozen=True)
class Piece:
    """A stretch of text.

    Attributes:
        text: The text itself.
        learn: Whether the model is trained to write it.
        view: The view that its image placeholder shows.
    """

    text: str
    learn: bool = False
    view: int = 0
    stress: float = 1.0
    """How many times as much its tokens count."""


Branch = list[Piece]


def reply(prompt: str, said: str, stress: float = 1.0) -> Branch:
    """A branch of one turn."""
    asked = Piece(f"{prompt}<|im_end|>\n<|im_start|>assistant\n")
    return [asked, Piece(f"{said}<|im_end|>", learn=True, stress=stress)]


def draft_trunk() -> str:
    """The draft's prefix: nothing but the first look."""
    return f"<|im_start|>user\n{IMAGE}"


def draft_answer(question: SceneQuestion, stress: float = 1.0) -> Branch:
    """A question and its short answer."""
    return reply(f"{question.prompt}\n\n{DRAFT}", question.answer, stress)


def helps(question: SceneQuestion, scene: Scene) -> str:
    """The answer to screening."""
    return "yes" if question.tool_helps(scene) else "no"


def draft_branches(rng: random.Random, scene: Scene, views: Mapping[str, int]) -> list[Branch]:
    """What the draft learns from one scene: answers from the first look, looks, and answers from those.

    Args:
        rng: Draws the questions.
        scene: The scene.
        views: Which view shows the sign of a colour up close.
    """
    kinds = [Kind.DIGIT] * 3 + [Kind.SHAPE] + [Kind.POSITION] * 3 + [Kind.EXISTENCE] * 3
    branches = [draft_answer(random_question(rng, scene, kind, 0.4)) for kind in kinds]
    screened = random_question(rng, scene, rng.choice(list(Kind)))
    branches.append(reply(f"{screened.prompt}\n\n{PROMPTS.screen}", helps(screened, scene)))
    sign = rng.choice(scene.signs)
    if not sign.small:
        branches += [draft_answer(maybe_options(rng, question, 0.4)) for question in both_ways(rng, sign, scene)]
    branches += [look(maybe_options(rng, about(rng, sign), 0.4), scene) for sign in scene.signs]
    near = [(sign, view) for color, view in views.items() if (sign := scene.find(color))]
    branches += [closer_answer(maybe_options(rng, about(rng, sign), 0.4), scene, view) for sign, view in near]
    sign, view = rng.choice(near)
    asked = both_ways(rng, sign, scene)
    branches += [closer_answer(maybe_options(rng, question, 0.4), scene, view) for question in asked]
    absent = random_question(rng, scene, Kind.EXISTENCE, 0.4)
    if scene.find(absent.targets[0]) is None:
        branches.append(closer_answer(absent, scene, 0))
    places = random_question(rng, scene, Kind.POSITION, 0.4)
    if all(color in views for color in places.targets):
        branches.append(closer_answer(places, scene, *[views[color] for color in places.targets][: rng.choice((1, 2))]))
    return [*branches, listing(rng, scene)]


def both_ways(rng: random.Random, sign: Sign, scene: Scene) -> list[SceneQuestion]:
    """Whether there is a sign of its colour and shape, and of its colour and another shape: only the shape decides."""
    other = rng.choice([shape for shape in SHAPES if shape != sign.shape])
    return [ask_existence(rng, sign.color, shape, scene) for shape in (sign.shape, other)]


def about(rng: random.Random, sign: Sign) -> SceneQuestion:
    """A question about the details of this sign."""
    return (ask_digit if rng.random() < 0.6 else ask_shape)(rng, sign)


def look(question: SceneQuestion, scene: Scene, target: int = 0) -> Branch:
    """A question, and the part to see up close: around a sign that it names, in thousandths, or everything."""
    sign = scene.find(question.targets[target])
    box = round_box(sign, 1000) if sign else [0, 0, 1000, 1000]
    return reply(f"{question.prompt}\n\n{LOOK}", f'{{"bbox_2d": {box}}}')


def closer_answer(question: SceneQuestion, scene: Scene, *views: int) -> Branch:
    """The same, and the answer from what is seen there; after two looks, from the second one."""
    branch: Branch = []
    for target, view in enumerate(views):
        branch += [*look(question, scene, target), Piece(f"\n<|im_start|>user\n{IMAGE}", view=view)]
    return [*branch, *draft_answer(question, CLOSER * len(views))]


def listing(rng: random.Random, scene: Scene) -> Branch:
    """All signs in random order with column and row: it trains the look-up that questions need."""
    signs = list(scene.signs)
    rng.shuffle(signs)
    said = [
        "{} {} at {} {}".format(s.color, s.shape, *place(s)) + ("" if s.small else f" shows {s.digit}") for s in signs
    ]
    return reply("List the signs.", "; ".join(said))


def random_question(rng: random.Random, scene: Scene, kind: Kind, options: float = 0.5) -> SceneQuestion:
    """A question of this kind, or about a digit where the scene allows none; with options in so many of the cases."""
    question = ask_any(rng, scene, kind) or ask_any(rng, scene, Kind.DIGIT)
    assert question is not None
    return maybe_options(rng, question, options)


def maybe_options(rng: random.Random, question: SceneQuestion, share: float = 0.5) -> SceneQuestion:
    """The question, in so many of the cases with options."""
    return question.with_options(rng) if rng.random() < share else question
