"""What the nano models read and write during training: conversations as pieces of text, some of them to be learned.

A conversation is a *trunk* (system prompt, tools, first look) from which several *branches* grow: a question and all
that follows it. The branches of a scene share its trunk, so that the dear part, the picture, is computed once.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from cache import Scenes
from grid import look_box, place

from speceyes.evals.datasets.questions import (
    Axis,
    Kind,
    SceneQuestion,
    apart,
    ask_any,
    ask_digit,
    ask_existence,
    ask_position,
    ask_shape,
)
from speceyes.evals.datasets.scenes import COLORS, SHAPES, Scene, Sign

SYSTEM = "You answer questions about images. A tool can show you a part of an image up close."
ACT = "Think in <think> tags. Call the tool for what is too small to read. Then answer in <answer> tags."
SCREEN = "Would a closer look with the tool help here? Reply yes or no."
REMINDER = "Here is the closer look. Think, then call the tool again or answer in <answer> tags."
DRAFT = "Answer with one word or a short phrase."
TOOL = {
    "type": "function",
    "function": {
        "name": "image_zoom_in_tool",
        "description": "Show a part of the image up close.",
        "parameters": {
            "type": "object",
            "properties": {
                "bbox_2d": {
                    "type": "array",
                    "items": {"type": "number"},
                    "description": "x1, y1, x2, y2 in pixels",
                },
                "label": {"type": "string", "description": "what is there"},
            },
            "required": ["bbox_2d"],
        },
    },
}

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
TOOLS_HEAD = "# Tools\n\nThese functions can be called:\n<tools>\n"
TOOLS_TAIL = (
    "\n</tools>\n\nA call is a JSON object in <tool_call></tool_call> tags:\n"
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)


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


def agent_trunk() -> str:
    """The prefix that screening and the agent's run share, up to the first look."""
    tools = TOOLS_HEAD + json.dumps(TOOL) + TOOLS_TAIL
    return f"<|im_start|>system\n{SYSTEM}\n\n{tools}<|im_end|>\n<|im_start|>user\n{IMAGE}"


def draft_trunk() -> str:
    """The draft's prefix: nothing but the first look."""
    return f"<|im_start|>user\n{IMAGE}"


def _reply(prompt: str, reply: str) -> Branch:
    return [Piece(f"{prompt}<|im_end|>\n<|im_start|>assistant\n"), Piece(f"{reply}<|im_end|>", learn=True)]


def draft_answer(question: SceneQuestion) -> Branch:
    return _reply(f"{question.prompt}\n\n{DRAFT}", question.answer)


def screening(question: SceneQuestion, scene: Scene) -> Branch:
    return _reply(f"{question.prompt}\n\n{SCREEN}", "yes" if question.tool_helps(scene) else "no")


def listing(rng: random.Random, scene: Scene) -> Branch:
    """All signs in random order with column and row: it trains the look-up that questions need."""
    signs = list(scene.signs)
    rng.shuffle(signs)
    said = [
        "{} {} at {} {}".format(s.color, s.shape, *place(s)) + ("" if s.small else f" shows {s.digit}") for s in signs
    ]
    return _reply("List the signs.", "; ".join(said))


def random_question(rng: random.Random, scene: Scene, kind: Kind, options: float = 0.5) -> SceneQuestion:
    question = ask_any(rng, scene, kind) or ask_any(rng, scene, Kind.DIGIT)
    assert question is not None
    return _maybe_options(rng, question, options)


def draft_branches(rng: random.Random, scene: Scene) -> list[Branch]:
    """What the draft learns from one first look."""
    kinds = [Kind.DIGIT] * 6 + [Kind.SHAPE] * 2 + [Kind.POSITION] * 4 + [Kind.EXISTENCE] * 5
    branches = [draft_answer(random_question(rng, scene, kind, 0.4)) for kind in kinds]
    branches.append(screening(random_question(rng, scene, rng.choice(list(Kind))), scene))
    return [*branches, listing(rng, scene)]


# The agent ---------------------------------------------------------------------------------------------------------


OPENING, CLOSING = 4.0, 10.0
"""How many times as much as a tool call the thoughts count that begin and end a run: all else follows from them."""
KEY = 8.0
"""And how many times as much as those their deciding words."""


def _call(sign: Sign) -> str:
    call = {
        "name": TOOL["function"]["name"],
        "arguments": {"bbox_2d": look_box(sign), "label": f"{sign.color} sign"},
    }
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


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


def _turn(thought: str, act: str) -> Branch:
    """One reply that calls the tool."""
    return [*_stressed(f"<think>{thought}</think>", OPENING), Piece(f"\n{act}<|im_end|>", learn=True)]


def _observation(view: int) -> Piece:
    text = (
        f"\n<|im_start|>user\n<tool_response>\n{IMAGE}\n{REMINDER}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    return Piece(text, view=view)


def _conclude(question: SceneQuestion, because: str, stress: float = CLOSING) -> Branch:
    answer = question.answer
    return _stressed(
        f"<think>{because} So the answer is {answer}.</think>\n<answer>{answer}</answer><|im_end|>", stress
    )


def _opening(question: SceneQuestion) -> Piece:
    return Piece(f"{question.prompt}\n\n{ACT}<|im_end|>\n<|im_start|>assistant\n")


def agent_run(question: SceneQuestion, scene: Scene, views: dict[str, int]) -> Branch:
    """A whole run: look closer at each sign that the question names, then answer.

    Args:
        views: Which view shows the sign of a colour up close.
    """
    signs = [sign for color in question.targets if (sign := scene.find(color))]
    about = _about(question)
    if not signs:
        because = f"{about} The {question.targets[0]} sign is not in the image."
        return [_opening(question), *_conclude(question, because, OPENING)]
    branch = [_opening(question), *_turn(f"{about} {_look_at(signs[0])}", _call(signs[0]))]
    if question.kind is Kind.POSITION:
        first, second = signs
        branch += [
            _observation(views[first.color]),
            *_turn(f"This is the {first.color} sign. {_look_at(second)}", _call(second)),
            _observation(views[second.color]),
        ]
        side = {"left": " to the* left* of", "right": " to the* right* of"}.get(
            question.answer, f"* {question.answer}*"
        )
        because = f"This is the {second.color} sign. The {first.color} sign is{side} it."
    else:
        branch.append(_observation(views[signs[0].color]))
        because = f"The {signs[0].color} sign is a {signs[0].shape} and shows the digit* {signs[0].digit}*."
        if question.kind is Kind.EXISTENCE:
            because = _compared(question.asked_shape, signs[0].shape)
    return [*branch, *_conclude(question, because)]


def _compared(asked: str, seen: str) -> str:
    """Asked shape and seen shape side by side, the latter said here for the first time.

    So they are the same exactly where the second word has stood before, which is the easiest thing to see. With the
    seen shape said earlier, or the two further apart, the model said both rightly and then guessed, or always said no.
    """
    return f"A* {asked}*? It is a* {seen}*:* {'yes' if asked == seen else 'no'}*."


def _compare(question: SceneQuestion, seen: str) -> Branch:
    """Only the comparison, without a picture to read from: cheap practice in telling the same from another."""
    said = _stressed(f"<think>{_about(question)} {_compared(question.asked_shape, seen)}", CLOSING)
    return [_opening(question), Piece("".join(piece.text for piece in said[:-2])), *said[-2:]]


def _restate(question: SceneQuestion) -> Branch:
    """Only the first sentence of a run: cheap practice in saying what was asked for."""
    return [_opening(question), *_stressed(f"<think>{_about(question)}", OPENING)]


def _locate(question: SceneQuestion, sign: Sign) -> Branch:
    """Only the first turn of a run: cheap practice in saying where a sign is."""
    return [_opening(question), *_turn(f"{_about(question)} {_look_at(sign)}", _call(sign))]


def _about(question: SceneQuestion) -> str:
    """The question in the agent's words: what it names stands close to what must be looked up."""
    first, last = question.targets[0], question.targets[-1]
    return {
        Kind.DIGIT: f"The question is about the digit of the {first} sign.",
        Kind.SHAPE: f"The question is about the shape of the {first} sign.",
        Kind.EXISTENCE: f"The question is about a {first}* {question.asked_shape}*.",
        Kind.POSITION: f"The question is about the place of the {first} sign and the {last} sign.",
    }[question.kind]


def agent_branches(rng: random.Random, scenes: Scenes, i: int) -> list[Branch]:
    """What the agent learns from one scene: screening, first turns, and whole runs on the signs that have crops."""
    scene = scenes.scenes[i]
    near = {scene.signs[k].color: v + 1 for v, k in enumerate(scenes.targets[i])}
    shown = [scene.find(color) for color in near]
    branches = [screening(random_question(rng, scene, kind), scene) for kind in rng.sample(list(Kind), 2)]
    axes = [axis for axis in Axis if apart(*shown, axis)]
    if axes:
        rng.shuffle(shown)
        question = ask_position(rng, *shown, rng.choice(axes))
        branches.append(agent_run(_maybe_options(rng, question), scene, near))
    details = [ask_shape(rng, rng.choice(shown))] if rng.random() < 0.5 else []
    details += [ask_digit(rng, sign) for sign in shown]
    asked = [*shown, rng.choice(shown)]
    details += [ask_existence(rng, sign.color, _asked_shape(rng, sign), scene) for sign in asked]
    if rng.random() < 0.5:
        color = rng.choice([c for c in COLORS if scene.find(c) is None])
        details.append(ask_existence(rng, color, rng.choice(SHAPES), scene))
    branches += [agent_run(_maybe_options(rng, question), scene, near) for question in details]
    branches += [_locate(_maybe_options(rng, ask_digit(rng, sign)), sign) for sign in scene.signs]
    asked_of = [ask_existence(rng, rng.choice([*COLORS]), rng.choice(SHAPES), scene) for _ in range(6)]
    branches += [_restate(question) for question in asked_of[:2]]
    return branches + [_compare(q, rng.choice([q.asked_shape, rng.choice(SHAPES)])) for q in asked_of[2:]]


def _asked_shape(rng: random.Random, sign: Sign) -> str:
    """The sign's shape, or as often another one."""
    return sign.shape if rng.random() < 0.5 else rng.choice([s for s in SHAPES if s != sign.shape])


def _maybe_options(rng: random.Random, question: SceneQuestion, share: float = 0.5) -> SceneQuestion:
    return question.with_options(rng) if rng.random() < share else question


def corpus(scenes: Scenes, seed: int = 0) -> Iterator[str]:
    """Text to train the tokenizer on."""
    rng = random.Random(seed)
    yield from [agent_trunk()] * 50
    for i in range(min(len(scenes), 1500)):
        for branch in [*draft_branches(rng, scenes.scenes[i]), *agent_branches(rng, scenes, i)]:
            yield "".join(piece.text for piece in branch)
