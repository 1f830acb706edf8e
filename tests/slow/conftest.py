"""What the slow tests share: the shipped weights as transformers loads them, and pictures as both sides see them.

These tests need torch, so that they are collected only where it is installed (`make test-slow`).
"""

from __future__ import annotations

import random
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from speceyes.engines.nano import NANO_LIMITS, nano_files
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.datasets.seeds import VALIDATION
from speceyes.imaging.resize import render
from speceyes.imaging.view import View

if TYPE_CHECKING:
    from hugging_face import HuggingFaceModel

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
sys.path.insert(0, str(Path(__file__).parents[2] / "models" / "nano"))


def _load(name: str) -> HuggingFaceModel:
    from hugging_face import HuggingFaceModel

    folder = nano_files().draft.parents[1] / "hf" / name
    if not (folder / "model.safetensors").is_file():
        pytest.fail(f"this test needs {folder}: fetch it with the repository or run `make train-nano`", pytrace=False)
    return HuggingFaceModel(folder)


@pytest.fixture(scope="session")
def hf_draft() -> HuggingFaceModel:
    return _load("draft")


@pytest.fixture(scope="session")
def hf_agent() -> HuggingFaceModel:
    return _load("agent")


@pytest.fixture(scope="session")
def samples() -> list[Sample]:
    """Ten questions of all kinds, with and without options."""
    return make_samples(10, 9, VALIDATION)


@pytest.fixture(scope="session")
def first_looks(samples: list[Sample]) -> list[View]:
    """What both models see of each sample first."""
    return [render(sample.image, None, NANO_LIMITS) for sample in samples]


@pytest.fixture
def rng() -> random.Random:
    return random.Random(0)
