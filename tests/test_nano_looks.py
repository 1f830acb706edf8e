"""The nano draft looks closer by itself, through llama.cpp, under the calibration that ships for that depth."""

from __future__ import annotations

import pytest

from speceyes.config import Settings
from speceyes.errors import CalibrationMismatch
from speceyes.evals.datasets.samples import make_samples
from speceyes.evals.datasets.seeds import VALIDATION
from speceyes.evals.matching import is_right
from speceyes.gating import Calibration
from speceyes.imaging.geometry import Box
from speceyes.types import Reason
from speceyes.wiring import open_funnel
from speceyes.wiring.funnel import find_calibration, nano_calibration_file

SMALL = [sample for sample in make_samples(60, 5, VALIDATION) if sample.tool_helps][:12]
"""Questions about signs that are too small to be read at a glance."""


def looking(depth: int) -> Settings:
    return Settings.model_validate({"speculation": {"max_depth": depth}})


async def test_it_reads_small_signs_that_a_glance_cannot_show() -> None:
    async with open_funnel(looking(1)) as funnel:
        answers = await funnel.answer_many([sample.query() for sample in SMALL])
    closer = [(s, a) for s, a in zip(SMALL, answers, strict=True) if a.reason is Reason.ACCEPTED_CLOSER]
    assert len(closer) >= len(SMALL) // 3
    assert sum(is_right(answer.text, sample.gold, sample.options) for sample, answer in closer) >= len(closer) - 1
    for sample, answer in closer:
        draft = answer.trace.answering
        assert draft is not None
        assert answer.trace.run is None
        assert Box(*draft.crops[0].box).intersect(Box(*sample.boxes[0])) is not None


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_calibration_ships_for_each_depth(depth: int) -> None:
    found = find_calibration(looking(depth))
    assert found.feasible
    assert (found.max_depth or 0) == depth
    assert [(promise.risk, promise.alpha) for promise in found.promises] == [("excess", 0.02)]


async def test_the_calibration_of_a_glance_is_refused_for_looks() -> None:
    glance = nano_calibration_file()
    assert Calibration.load(glance).feasible
    settings = Settings.model_validate({"speculation": {"max_depth": 1}, "gate": {"calibration": str(glance)}})
    with pytest.raises(CalibrationMismatch, match="max_depth"):
        async with open_funnel(settings):
            pass
