"""What the nano models read and write during training: conversations as pieces of text, some of them to be learned.

A conversation is a *trunk* (system prompt, tools, first look) from which several *branches* grow: a question and all
that follows it. The branches of a scene share its trunk, so that the dear part, the picture, is computed once.

Here are the pieces, and what the draft learns. The agent's runs are in `runs.py`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from grid import place

from speceyes.agents.dialects.deepeyes import PROMPTS
from speceyes.evals.datasets.questions import Kind, SceneQuestion, ask_any
from speceyes.evals.datasets.scenes import Scene

DRAFT = "Answer with one word or a short phrase."
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


def reply(prompt: str, said: str) -> Branch:
    """A branch of one turn."""
    return [Piece(f"{prompt}<|im_end|>\n<|im_start|>assistant\n"), Piece(f"{said}<|im_end|>", learn=True)]


def draft_trunk() -> str:
    """The draft's prefix: nothing but the first look."""
    return f"<|im_start|>user\n{IMAGE}"


def draft_answer(question: SceneQuestion) -> Branch:
    """A question and its short answer."""
    return reply(f"{question.prompt}\n\n{DRAFT}", question.answer)


def helps(question: SceneQuestion, scene: Scene) -> str:
    """The answer to screening."""
    return "yes" if question.tool_helps(scene) else "no"


def draft_branches(rng: random.Random, scene: Scene) -> list[Branch]:
    """What the draft learns from one first look."""
    kinds = [Kind.DIGIT] * 6 + [Kind.SHAPE] * 2 + [Kind.POSITION] * 4 + [Kind.EXISTENCE] * 5
    branches = [draft_answer(random_question(rng, scene, kind, 0.4)) for kind in kinds]
    screened = random_question(rng, scene, rng.choice(list(Kind)))
    branches.append(reply(f"{screened.prompt}\n\n{PROMPTS.screen}", helps(screened, scene)))
    return [*branches, listing(rng, scene)]


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
