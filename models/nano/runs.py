"""What the agent learns: screening, and runs of its loop, in one of its manners of speech."""

from __future__ import annotations

import random
from collections.abc import Iterator

from cache import Scenes
from grid import place
from manners import CODING, ZOOMING, Manner, screening
from text import Branch, Piece, draft_branches, maybe_options, random_question

from speceyes.evals.datasets.questions import (
    Axis,
    Kind,
    SceneQuestion,
    apart,
    ask_digit,
    ask_existence,
    ask_position,
    ask_shape,
)
from speceyes.evals.datasets.scenes import COLORS, SHAPES, Scene, Sign

CALL, OPENING, CLOSING = 1.0, 4.0, 10.0
"""How much tool calls count, and the thoughts that begin and end a run: all else follows from these."""
KEY = 8.0
"""And how many times as much as those their deciding words."""
COMPARISONS, COMPARING = 16, 1.0
"""Pairs of shapes to compare, for each scene (see `_compare`), and how much they count: being short, more than runs."""


def _look_at(sign: Sign) -> str:
    size, (column, row) = "small" if sign.small else "large", place(sign)
    at = f"at column* {column}*, row* {row}* and looks {size}"
    return f"The {sign.color} sign is {at}. I look closer at it."


def _stressed(text: str, stress: float) -> Branch:
    """Learned text in which the words between stars count `KEY` times as much as the rest: what decides the run.

    Without that, the word that the question asks for is one in a hundred, and the model says what it sees instead.
    """
    parts = enumerate(text.split("*"))
    return [Piece(part, learn=True, stress=stress * (KEY if i % 2 else 1)) for i, part in parts if part]


def _turn(manner: Manner, thought: str, sign: Sign) -> Branch:
    """One reply that looks closer at a sign."""
    return [*_stressed(manner.thought(thought), OPENING), *_stressed(f"{manner.call(sign)}<|im_end|>", CALL)]


def _conclude(question: SceneQuestion, because: str, stress: float = CLOSING) -> Branch:
    answer = question.answer
    return _stressed(
        f"<think>{because} So the answer is* {answer}*.</think>\n<answer>*{answer}*</answer><|im_end|>", stress
    )


def _opening(manner: Manner, question: SceneQuestion) -> Piece:
    return Piece(f"{manner.asked(question, manner.act)}<|im_end|>\n<|im_start|>assistant\n")


def agent_run(manner: Manner, question: SceneQuestion, scene: Scene, views: dict[str, int]) -> Branch:
    """A whole run: look closer at each sign that the question names, then answer.

    Args:
        manner: The dialect.
        question: What is asked.
        scene: Of what.
        views: Which view shows the sign of a colour up close.
    """
    signs = [sign for color in question.targets if (sign := scene.find(color))]
    opening, about = _opening(manner, question), _about(question)
    if not signs:
        because = f"{about} The {question.targets[0]} sign is not in the image."
        return [opening, *_conclude(question, because, OPENING)]
    branch = [opening, *_turn(manner, f"{about} {_look_at(signs[0])}", signs[0])]
    if question.kind is Kind.POSITION:
        first, second = signs
        branch += [
            manner.observation(views[first.color]),
            *_turn(manner, f"This is the {first.color} sign. {_look_at(second)}", second),
            manner.observation(views[second.color]),
        ]
        side = {"left": " to the* left* of", "right": " to the* right* of"}.get(
            question.answer, f"* {question.answer}*"
        )
        because = f"This is the {second.color} sign. The {first.color} sign is{side} it."
    else:
        branch.append(manner.observation(views[signs[0].color]))
        because = f"The {signs[0].color} sign is a {signs[0].shape} and shows the digit* {signs[0].digit}*."
        if question.kind is Kind.EXISTENCE:
            because = _compared(signs[0].color, question.asked_shape, signs[0].shape)
    return [*branch, *_conclude(question, because)]


def _compared(color: str, asked: str, seen: str) -> str:
    """The shape that is seen, then the one that was asked for, and at once whether they are the same."""
    return f"The {color} sign is a* {seen}*. A* {asked}*:* {'yes' if asked == seen else 'no'}*."


def _compare(rng: random.Random) -> Branch:
    """Only the comparison, without question and crop: some tokens, so that there can be many of them.

    Whether two words are the same does not follow from either of them, and is learned late and then at once: by
    10,000 such pairs from nothing to all right. A few pairs a step, among whole runs, were never enough.
    """
    asked = rng.choice(SHAPES)
    seen = asked if rng.random() < 0.5 else rng.choice([shape for shape in SHAPES if shape != asked])
    color = rng.choice([*COLORS])
    about = f"<think>The question is about a {color} {asked}. "
    said = _stressed(_compared(color, asked, seen), COMPARING)
    given = about + "".join(piece.text for piece in said[:-2])
    return [Piece(f"<|im_end|>\n<|im_start|>assistant\n{given}"), *said[-2:]]


def _restate(manner: Manner, question: SceneQuestion) -> Branch:
    """Only the first sentence of a run: cheap practice in saying what was asked for."""
    return [_opening(manner, question), *_stressed(f"<think>{_about(question)}", OPENING)]


def _locate(manner: Manner, question: SceneQuestion, sign: Sign) -> Branch:
    """Only the first turn of a run: cheap practice in saying where a sign is."""
    return [_opening(manner, question), *_turn(manner, f"{_about(question)} {_look_at(sign)}", sign)]


def _about(question: SceneQuestion) -> str:
    """The question in the agent's words: what it names stands close to what must be looked up."""
    first, last = question.targets[0], question.targets[-1]
    return {
        Kind.DIGIT: f"The question is about the digit of the {first} sign.",
        Kind.SHAPE: f"The question is about the shape of the {first} sign.",
        Kind.EXISTENCE: f"The question is about a {first}* {question.asked_shape}*.",
        Kind.POSITION: f"The question is about the place of the {first} sign and the* {last}* sign.",
    }[question.kind]


def agent_branches(manner: Manner, rng: random.Random, scenes: Scenes, i: int) -> list[Branch]:
    """What the agent learns from one scene: screening, first turns, and whole runs on the signs that have crops."""
    scene, near = scenes.scenes[i], scenes.near(i)
    shown = [scene.find(color) for color in near]
    branches = [screening(manner, random_question(rng, scene, kind), scene) for kind in rng.sample(list(Kind), 2)]
    axes = [axis for axis in Axis if apart(*shown, axis)]
    if axes:
        rng.shuffle(shown)
        question = ask_position(rng, *shown, rng.choice(axes))
        branches.append(agent_run(manner, maybe_options(rng, question), scene, near))
    details = [ask_shape(rng, rng.choice(shown))] if rng.random() < 0.5 else []
    details += [ask_digit(rng, sign) for sign in shown]
    details += [ask_existence(rng, sign.color, _asked_shape(rng, sign), scene) for sign in shown]
    if rng.random() < 0.5:
        color = rng.choice([c for c in COLORS if scene.find(c) is None])
        details.append(ask_existence(rng, color, rng.choice(SHAPES), scene))
    branches += [agent_run(manner, maybe_options(rng, question), scene, near) for question in details]
    branches += [_locate(manner, maybe_options(rng, ask_digit(rng, sign)), sign) for sign in scene.signs]
    asked_of = [ask_existence(rng, rng.choice([*COLORS]), rng.choice(SHAPES), scene) for _ in range(3)]
    asked_of += [ask_position(rng, *rng.sample(scene.signs, 2)) for _ in range(3)]
    branches += [_restate(manner, question) for question in asked_of]
    return branches + [_compare(rng) for _ in range(COMPARISONS)]


def _asked_shape(rng: random.Random, sign: Sign) -> str:
    """The sign's shape, or as often another one."""
    return sign.shape if rng.random() < 0.5 else rng.choice([s for s in SHAPES if s != sign.shape])


def corpus(scenes: Scenes, seed: int = 0) -> Iterator[str]:
    """Text to train the tokenizer on."""
    rng = random.Random(seed)
    for manner, share in ((ZOOMING, 1500), (CODING, 500)):
        yield from [manner.trunk()] * 50
        for i in range(min(len(scenes), share)):
            scene, near = scenes.scenes[i], scenes.near(i)
            for branch in [*draft_branches(rng, scene, near), *agent_branches(manner, rng, scenes, i)]:
                yield "".join(piece.text for piece in branch)
