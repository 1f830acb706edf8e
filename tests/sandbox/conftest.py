"""A sandbox that works: without it hardly anything that matters here would be tested."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speceyes.sandbox import Bubblewrap, Limits

# A machine that is busy must not fail a test: steps that should end have all the time there is.
PATIENT = replace(Limits(), wall_s=300.0)


@pytest.fixture
async def bubblewrap() -> Bubblewrap:
    provider = Bubblewrap()
    found = await provider.available()
    if not found.available:
        pytest.fail(f"these tests need the package `bubblewrap`: {found.reason}", pytrace=False)
    return provider
