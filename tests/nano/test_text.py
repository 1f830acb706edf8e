"""The nano models are trained on the words that the product says, and on replies that it reads. Needs no torch."""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

import pytest

from speceyes.agents.dialects.base import Call, Final
from speceyes.agents.dialects.deepeyes import PROMPTS, DeepEyes
from speceyes.agents.dialects.thyme import Thyme
from speceyes.engines.nano import NANO_LIMITS, NANO_ZOOM_CONTEXT
from speceyes.evals.datasets import seeds
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.datasets.scenes import COLORS, SIDE
from speceyes.evals.matching import is_right
from speceyes.imaging.geometry import Box, crop_region
from speceyes.phases.speculate import LOOK, PROMPT
from speceyes.sandbox import Bubblewrap
from speceyes.tools import PythonTool
from speceyes.types import Completion

sys.path.insert(0, str(Path(__file__).parents[2] / "models" / "nano"))

import cache
import grid
import manners
import runs
import text

DIALECT = DeepEyes(limits=NANO_LIMITS)
SAMPLES = make_samples(20, 9)


def test_the_words_are_those_of_the_product() -> None:
    """Who changes one of them must train again, or give the nano pair prompts of its own."""
    assert (PROMPTS.system, PROMPTS.act, PROMPTS.screen, PROMPTS.reminder) == (
        "You answer questions about images. A tool can show you a part of an image up close.",
        "Think in <think> tags. Call the tool for what is too small to read. Then answer in <answer> tags.",
        "Would a closer look with the tool help here? Reply yes or no.",
        "Here is the closer look. Think, then call the tool again or answer in <answer> tags.",
    )
    assert (text.DRAFT, text.LOOK) == (PROMPT, LOOK)


def test_the_tool_is_that_of_the_product_with_its_keys_in_order() -> None:
    (schema,) = DIALECT.tools
    assert json.dumps(manners.TOOL) == json.dumps(schema)


def test_a_look_has_the_size_that_the_product_serves() -> None:
    assert grid.LOOK**2 == NANO_LIMITS.min_pixels == NANO_LIMITS.max_pixels


def test_the_splits_are_those_of_the_product() -> None:
    assert cache.SEEDS == {
        "train": seeds.TRAINING,
        "validation": seeds.VALIDATION,
        "calibration": seeds.CALIBRATION,
        "test": seeds.TEST,
    }


def test_what_the_draft_learns_to_write_is_a_right_answer() -> None:
    for sample in SAMPLES:
        (reply,) = [piece.text for piece in text.draft_answer(sample.asked) if piece.learn]
        assert is_right(reply.removesuffix("<|im_end|>"), sample.gold, sample.options), sample


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_where_the_draft_learns_to_look_is_what_it_is_shown_in_training(sample: Sample) -> None:
    """Its boxes are on the frame of thousandths that `wiring` gives to the nano draft, and hold the whole sign."""
    for target, truth in enumerate(sample.boxes):
        (said,) = [piece.text for piece in text.look(sample.asked, sample.scene, target) if piece.learn]
        box = Box(*(edge * SIDE / 1000 for edge in json.loads(said.removesuffix("<|im_end|>"))["bbox_2d"]))
        assert box.contains(Box(*truth))
        shown = crop_region(box, (SIDE, SIDE), min_side=32, context=NANO_ZOOM_CONTEXT)
        sign = sample.scene.find(sample.asked.targets[target])
        assert sign is not None
        apart = [abs(a - b) for a, b in zip(shown.as_tuple(), cache.framed(sign), strict=True)]
        assert max(apart) < SIDE / grid.PLACES / 3, "less than a place, which training crops are off at times anyway"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_what_the_agent_learns_to_write_the_dialect_reads(sample: Sample) -> None:
    branch = runs.agent_run(manners.ZOOMING, sample.asked, sample.scene, dict.fromkeys(COLORS, 1))
    learned = "".join(piece.text for piece in branch if piece.learn)
    *calls, answer = [DIALECT.parse(Completion(turn, "stop")) for turn in learned.split("<|im_end|>") if turn]
    assert isinstance(answer, Final)
    assert answer.tagged
    assert is_right(answer.text, sample.gold, sample.options)
    boxes = []
    for call in calls:
        assert isinstance(call, Call)
        assert call.name in DIALECT.toolbox
        assert not call.repairs
        scale = SIDE / grid.LOOK
        boxes.append(Box(*(edge * scale for edge in call.arguments["bbox_2d"])))
    assert len(boxes) == len(sample.boxes)
    for named, sign in zip(boxes, sample.boxes, strict=True):
        assert named.contains(Box(*sign)), "boxes are in pixels of the first look, and hold the whole sign"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_so_does_the_dialect_in_which_it_writes_code(sample: Sample) -> None:
    """Its code opens the image by the path that the prompt names, and cuts what the zoom tool would show."""
    dialect = Thyme(limits=NANO_LIMITS, toolbox=[PythonTool(Bubblewrap())])
    branch = runs.agent_run(manners.CODING, sample.asked, sample.scene, dict.fromkeys(COLORS, 1))
    learned = "".join(piece.text for piece in branch if piece.learn)
    *calls, answer = [dialect.parse(Completion(turn, "stop")) for turn in learned.split("<|im_end|>") if turn]
    assert isinstance(answer, Final)
    assert is_right(answer.text, sample.gold, sample.options)
    boxes = []
    for call in calls:
        assert isinstance(call, Call)
        code = call.arguments["code"]
        compile(code, "code", "exec")
        (edges,) = re.findall(r"crop\(\(([0-9, ]+)\)\)", code)
        boxes.append(Box(*(float(edge) for edge in edges.split(", "))))
    assert len(boxes) == len(sample.boxes)
    for cut, sign in zip(boxes, sample.boxes, strict=True):
        assert Box(0, 0, SIDE, SIDE).contains(cut)
        assert cut.contains(Box(*sign))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_the_crops_of_training_are_those_that_the_tool_cuts(sample: Sample) -> None:
    """A crop that is framed otherwise than the agent's own boxes teaches it pictures that it never meets."""
    rng = random.Random(sample.id)
    for sign in sample.scene.signs:
        windows = [Box(*cache.crop_window(rng, sign)) for _ in range(40)]
        box = Box(*(edge * SIDE / grid.LOOK for edge in grid.look_box(sign)))
        asked = crop_region(box, (SIDE, SIDE), min_side=32, context=NANO_ZOOM_CONTEXT)
        same = [max(abs(a - b) for a, b in zip(w.as_tuple(), asked.as_tuple(), strict=True)) <= 1 for w in windows]
        assert sum(same) > len(windows) / 2
        assert all(Box(0, 0, SIDE, SIDE).contains(window) for window in windows)
