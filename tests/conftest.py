"""For all tests: property tests without a clock, and the nano pair, served by llama.cpp in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.nano import nano_agent, nano_draft
from speceyes.errors import SpecEyesError
from speceyes.sandbox import Bubblewrap

# A test must not fail because the machine is busy.
settings.register_profile("without a clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("without a clock")


@pytest.fixture(scope="session")
def nano_draft_server() -> Iterator[EmbeddedServer]:
    """The nano draft model, as `nano-draft`."""
    yield from _served(nano_draft)


@pytest.fixture(scope="session")
def nano_agent_server() -> Iterator[EmbeddedServer]:
    """The nano agent model, as `nano-agent`."""
    yield from _served(nano_agent)


def _served(serve: Callable[[], EmbeddedServer]) -> Iterator[EmbeddedServer]:
    try:
        server = serve()
    except SpecEyesError as error:
        # Not skipped: without the models hardly anything that matters would be tested.
        pytest.fail(f"this test needs the nano models: {error}", pytrace=False)
    with server:
        yield server


ATTACKED = (
    "tests/sandbox/",
    "tests/tools/test_python_tool.py",
    "tests/cli/test_sandbox_command.py",
    "tests/agents/test_nano_dialects.py::test_it_crops_by_code_of_its_own_in_a_sandbox",
)
"""Tests that run code in a real sandbox."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where no sandbox works, what needs one is left out, and says so."""
    concerned = [item for item in items if item.nodeid.startswith(ATTACKED)]
    if concerned and not (found := asyncio.run(Bubblewrap().available())).available:
        for item in concerned:
            item.add_marker(pytest.mark.skip(reason=f"no sandbox here: {found.reason}"))
