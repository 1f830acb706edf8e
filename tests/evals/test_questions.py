"""Questions are true by geometry, whatever the seed."""

from __future__ import annotations

import hashlib
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.evals.datasets.questions import LETTERS, Axis, Kind, SceneQuestion, apart, ask_any, ask_position
from speceyes.evals.datasets.scenes import COLORS, DIGITS, SHAPES, Scene, Sign, make_scene

SEEDS = st.integers(0, 10_000_000)
WORDS = re.compile(r"[a-z]+")


def truth(text: str, scene: Scene) -> str:
    """The answer to a question, read off the scene by the words of the question alone."""
    words = WORDS.findall(text.lower())
    colors = [word for word in words if word in COLORS]
    if "digit" in words:
        return sole(scene, colors[0]).digit
    if "shape" in words:
        return sole(scene, colors[0]).shape
    if len(colors) == 2:
        first, second = (sole(scene, color) for color in colors)
        if "left" in words:
            return "left" if first.x < second.x else "right"
        return "above" if first.y < second.y else "below"
    shape = next(word for word in words if word in SHAPES)
    return "yes" if any((s.color, s.shape) == (colors[0], shape) for s in scene.signs) else "no"


def sole(scene: Scene, color: str) -> Sign:
    (sign,) = [sign for sign in scene.signs if sign.color == color]
    return sign


def asked(seed: int, kind: Kind) -> tuple[Scene, SceneQuestion | None]:
    scene = make_scene(seed)
    return scene, ask_any(random.Random(seed), scene, kind)


@given(SEEDS, st.sampled_from(Kind))
@settings(max_examples=200, deadline=None)
def test_answers_are_true(seed: int, kind: Kind) -> None:
    scene, question = asked(seed, kind)
    if question is None:
        assert kind is Kind.POSITION
        return
    assert question.kind is kind
    assert question.answer == truth(question.text, scene)


@given(SEEDS)
@settings(max_examples=200, deadline=None)
def test_positions_are_asked_only_where_the_signs_are_clearly_apart(seed: int) -> None:
    scene, question = asked(seed, Kind.POSITION)
    if question is None:
        signs = scene.signs
        assert not any(apart(a, b, axis) for a in signs for b in signs for axis in Axis)
        return
    first, second = (sole(scene, color) for color in question.targets)
    distance = first.x - second.x if question.answer in ("left", "right") else first.y - second.y
    assert abs(distance) >= 64


@given(SEEDS, st.sampled_from(Kind), st.integers(2, 6))
@settings(max_examples=200, deadline=None)
def test_options_hold_the_answer_once_and_the_letter_names_it(seed: int, kind: Kind, count: int) -> None:
    _, question = asked(seed, kind)
    if question is None:
        return
    with_options = question.with_options(random.Random(seed), count=count)
    options = with_options.options
    assert len(options) == min(count, 2 if kind in (Kind.POSITION, Kind.EXISTENCE) else 5 if kind is Kind.SHAPE else 10)
    assert len(set(options)) == len(options)
    assert with_options.letter is not None
    assert options[LETTERS.index(with_options.letter)] == question.answer
    assert with_options.gold == with_options.letter
    assert question.gold == question.answer
    lines = with_options.prompt.splitlines()
    assert lines[0] == question.text
    assert [line.split(" ", 1)[1] for line in lines[1:]] == list(options)


@given(SEEDS, st.sampled_from([Kind.DIGIT, Kind.SHAPE, Kind.EXISTENCE]))
@settings(max_examples=200, deadline=None)
def test_a_tool_helps_where_the_sign_asked_about_is_there_and_small(seed: int, kind: Kind) -> None:
    scene, question = asked(seed, kind)
    assert question is not None
    (color,) = question.targets
    there = [sign for sign in scene.signs if sign.color == color]
    assert question.tool_helps(scene) == any(sign.radius < 50 for sign in there)


def test_a_tool_never_helps_with_positions() -> None:
    small = [Sign("red", "star", "1", 100, 100, 25), Sign("blue", "star", "2", 600, 100, 25)]
    question = ask_position(random.Random(0), *small, Axis.HORIZONTAL)
    assert question.answer == "left"
    assert not question.tool_helps(Scene(tuple(small), 0))


def test_existence_is_as_often_true_as_not_and_absent_colours_occur() -> None:
    rows = [(scene, q) for scene, q in (asked(seed, Kind.EXISTENCE) for seed in range(600)) if q is not None]
    assert 0.44 < sum(q.answer == "yes" for _, q in rows) / len(rows) < 0.56
    wrong_shape = sum(q.answer == "no" and scene.find(q.targets[0]) is not None for scene, q in rows)
    absent = sum(scene.find(q.targets[0]) is None for scene, q in rows)
    assert wrong_shape > 100
    assert absent > 60


@pytest.mark.parametrize("kind", [Kind.DIGIT, Kind.SHAPE])
def test_the_right_letter_is_at_every_place(kind: Kind) -> None:
    letters = []
    for seed in range(400):
        _, question = asked(seed, kind)
        assert question is not None
        letters.append(question.with_options(random.Random(seed)).letter)
    assert all(0.18 < letters.count(letter) / len(letters) < 0.32 for letter in "ABCD")


def test_the_random_stream_is_the_one_that_the_weights_were_trained_on() -> None:
    prompts = []
    for seed in range(4_000_000, 4_000_050):
        rng = random.Random(seed)
        for kind in Kind:
            question = ask_any(rng, make_scene(seed), kind)
            prompts.append(question.with_options(rng).prompt if question else "")
    assert hashlib.sha256("\n".join(prompts).encode()).hexdigest()[:16] == "68f49f0f91fa4ec4"
    assert len(DIGITS) == 10
