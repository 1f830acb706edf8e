"""Tests without an event loop share one context; none may leave its trace to the next."""

from collections.abc import Iterator

import pytest

from speceyes.engines.trace_context import carry


@pytest.fixture(autouse=True)
def _no_trace() -> Iterator[None]:
    yield
    carry({})
