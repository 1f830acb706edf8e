"""The nano pair behind `vllm serve`, on the processor.

These tests need vLLM, so that they are collected only where it is installed (`make test-vllm`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from vllm_server import PROGRAM, VllmServer

from speceyes.engines.nano import NANO_LIMITS, NANO_ZOOM_CONTEXT
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.datasets.seeds import VALIDATION
from speceyes.gating import Calibration
from speceyes.wiring import nano_calibration_file
from speceyes.wiring.funnel import NANO_TURN_TOKENS

collect_ignore_glob = [] if PROGRAM.is_file() else ["test_*.py"]
sys.path.append(str(Path(__file__).parents[1] / "gateway"))  # `serve_process`


@pytest.fixture(scope="session")
def vllm_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[VllmServer, VllmServer]]:
    """Draft and agent, each on its own server; they start side by side."""
    folder = tmp_path_factory.mktemp("vllm")
    servers = (VllmServer.start("draft", folder), VllmServer.start("agent", folder))
    try:
        for server in servers:
            server.until_ready()
        yield servers
    finally:
        for server in servers:
            server.stop()


@pytest.fixture(scope="session")
def vllm_draft(vllm_pair: tuple[VllmServer, VllmServer]) -> VllmServer:
    """The nano draft, as `nano-draft`."""
    return vllm_pair[0]


@pytest.fixture(scope="session")
def vllm_agent(vllm_pair: tuple[VllmServer, VllmServer]) -> VllmServer:
    """The nano agent, as `nano-agent`."""
    return vllm_pair[1]


@pytest.fixture(scope="session")
def overrides(vllm_draft: VllmServer, vllm_agent: VllmServer) -> dict[str, object]:
    """The settings by which SpecEyes is told of the two: as of any servers, and what the nano pair is used to."""
    threshold = Calibration.load(nano_calibration_file()).threshold
    sizes = {"factor": NANO_LIMITS.factor, "min_pixels": NANO_LIMITS.min_pixels, "max_pixels": NANO_LIMITS.max_pixels}
    agent = {"zoom_context": NANO_ZOOM_CONTEXT, "max_tokens_per_turn": NANO_TURN_TOKENS}
    return {
        **{f"draft.{name}": value for name, value in (sizes | {"url": vllm_draft.url}).items()},
        **{f"agent.{name}": value for name, value in (sizes | agent | {"url": vllm_agent.url}).items()},
        # The calibration itself is bound to llama.cpp's files by their hash.
        "gate.threshold": threshold,
    }


@pytest.fixture(scope="session")
def samples() -> list[Sample]:
    """Ten questions of all kinds, with and without options."""
    return make_samples(10, 9, VALIDATION)
