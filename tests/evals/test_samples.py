"""Sample sets: balanced, reproducible, and never about a scene that a model was trained on."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.errors import InputError
from speceyes.evals.datasets.questions import Kind
from speceyes.evals.datasets.samples import PLAN, Sample, Size, make_samples
from speceyes.evals.datasets.scenes import draw_scene
from speceyes.evals.datasets.seeds import CALIBRATION, MADE, SPAN, TEST, TRAINING, VALIDATION, scene_seeds


def test_the_same_seed_gives_the_same_samples() -> None:
    assert make_samples(40, 3) == make_samples(40, 3)
    assert make_samples(60, 3)[:40] == make_samples(40, 3)
    assert not {s.scene.seed for s in make_samples(40, 3)} & {s.scene.seed for s in make_samples(40, 4)}


def test_a_set_follows_the_plan() -> None:
    for sample, wish in zip(make_samples(100, 1), itertools.cycle(PLAN), strict=False):
        assert sample.kind is wish.kind
        assert bool(sample.options) == wish.options
        if wish.size is not None:
            assert sample.size is wish.size
        if wish.answer is not None:
            assert sample.asked.answer == wish.answer


def test_a_set_is_balanced() -> None:
    samples = make_samples(200, 2)
    kinds = Counter(sample.kind for sample in samples)
    assert kinds == {Kind.DIGIT: 70, Kind.SHAPE: 50, Kind.POSITION: 40, Kind.EXISTENCE: 40}
    assert sum(sample.tool_helps for sample in samples) == 80
    assert sum(bool(sample.options) for sample in samples) == 110
    existence = Counter(sample.asked.answer for sample in samples if sample.kind is Kind.EXISTENCE)
    assert existence["yes"] == existence["no"]
    assert sum(sample.tool_helps for sample in samples[:10]) == 4


def test_ids_are_unique_and_name_the_scene() -> None:
    samples = make_samples(50, 0)
    assert len({sample.id for sample in samples}) == 50
    assert all(sample.id.endswith(str(sample.scene.seed)) for sample in samples)


def test_a_query_holds_the_scene_pixel_for_pixel() -> None:
    (sample,) = make_samples(1, 5)
    query = sample.query()
    assert query.id == sample.id
    assert query.question == sample.question
    assert (np.asarray(query.images[0].pixels) == np.asarray(draw_scene(sample.scene))).all()
    assert query.images[0] == sample.image


def test_boxes_are_those_of_the_signs_that_are_there() -> None:
    for sample in make_samples(60, 6):
        there = [sign for color in sample.asked.targets if (sign := sample.scene.find(color))]
        assert sample.boxes == tuple(sign.box for sign in there)
        assert (sample.size is Size.ABSENT) == (not there)
        assert (sample.size is Size.SMALL) == any(sign.small for sign in there)


@given(st.integers(0, 9), st.sampled_from([TRAINING, VALIDATION, CALIBRATION, TEST]))
def test_made_scenes_are_never_those_of_a_split(seed: int, base: int) -> None:
    assert scene_seeds(seed, base).stop <= MADE
    assert scene_seeds(seed).start >= MADE
    assert base // 1_000_000 == (scene_seeds(seed, base).stop - 1) // 1_000_000


@given(st.integers(0, 10**6), st.integers(0, 10**6))
@settings(max_examples=100)
def test_two_seeds_share_no_scene(one: int, other: int) -> None:
    a, b = scene_seeds(one), scene_seeds(other)
    assert len(a) == SPAN
    assert one == other or max(a.start, b.start) >= min(a.stop, b.stop)


@pytest.mark.parametrize(("seed", "base"), [(-1, MADE), (10, TEST), (5, TEST + 500_000)])
def test_seeds_out_of_range_are_refused(seed: int, base: int) -> None:
    with pytest.raises(InputError, match=r"[Ss]eed"):
        scene_seeds(seed, base)


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(InputError, match="-1"):
        make_samples(-1, 0)
    assert make_samples(0, 0) == []


def test_samples_are_light() -> None:
    """Thousands of samples must fit into memory: a sample holds no picture."""
    assert all(isinstance(sample, Sample) and not hasattr(sample, "__dict__") for sample in make_samples(3, 0))
