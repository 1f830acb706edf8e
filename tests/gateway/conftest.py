"""For all tests of the gateway: `gateway_server` can be imported, and nobody's own state is read or written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serve_process import Process, started

from speceyes.evals.datasets.samples import Sample, make_samples


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture(scope="session")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The gateway over the nano pair, without any configuration, as a process of its own."""
    process = started(tmp_path_factory.mktemp("serve"))
    yield process
    code, out, err = process.stop()
    assert (code, out) == (0, ""), err


@pytest.fixture(scope="session")
def samples() -> list[Sample]:
    """Eight questions of all kinds for the nano pair, with their pictures."""
    return list(make_samples(8, seed=3))
