"""A sandbox that works; `tests/conftest.py` leaves these tests out where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speceyes.sandbox import Bubblewrap, Limits

# A machine that is busy must not fail a test: steps that should end have all the time there is.
PATIENT = replace(Limits(), wall_s=300.0)


@pytest.fixture
async def bubblewrap() -> Bubblewrap:
    return Bubblewrap()
