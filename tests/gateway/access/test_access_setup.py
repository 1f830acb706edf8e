"""From the settings to what stands at the door."""

from __future__ import annotations

from pathlib import Path

import pytest

from speceyes.config import Settings
from speceyes.errors import ConfigError, ImageError
from speceyes.gateway.access.admission import Admission
from speceyes.gateway.access.bodies import BodyLimits
from speceyes.gateway.access.setup import build_access, build_fetcher
from speceyes.imaging.addresses import AddressPolicy
from speceyes.imaging.fetch import FetchLimits


def test_defaults_are_those_of_the_parts() -> None:
    access = build_access(Settings())
    assert not access.keys.required
    assert access.bodies.limits == BodyLimits()
    assert access.fetcher.limits == FetchLimits()
    assert access.fetcher.policy is None
    assert build_fetcher(Settings.model_validate({"fetch": {"enabled": True}})).policy == AddressPolicy()
    assert access.admission.max_wait_s == Admission(1, 1).max_wait_s


async def test_settings_arrive_where_they_count() -> None:
    settings = Settings.model_validate(
        {
            "serve": {"max_body_bytes": 1000},
            "access": {
                "api_key": "k" * 16,
                "in_flight": 3,
                "queue": 0,
                "in_flight_per_key": 2,
                "queue_timeout_s": 1.5,
                "max_total_body_bytes": 5000,
                "body_timeout_s": 7,
                "body_bytes_per_s": 9,
            },
            "fetch": {"deny_networks": ["8.8.8.0/24"], "deny_hosts": ["a.b"], "max_bytes": 10, "redirects": 0},
        }
    )
    access = build_access(settings)
    assert access.keys.check("Bearer " + "k" * 16) is not None
    admission = access.admission
    assert (admission.capacity, admission.queue, admission.max_wait_s) == (3, 0, 1.5)
    limits = access.bodies.limits
    assert (limits.max_bytes, limits.max_total_bytes, limits.timeout_s, limits.min_bytes_per_s) == (1000, 5000, 7, 9)
    assert (access.fetcher.limits.max_bytes, access.fetcher.limits.redirects) == (10, 0)
    with pytest.raises(ImageError, match="fetches no pictures from URLs"):
        await access.fetcher.fetch("http://8.8.8.8/")


def test_what_cannot_work_is_found_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the keys"):
        build_access(Settings.model_validate({"access": {"keys_file": tmp_path / "none"}}))
    with pytest.raises(ConfigError, match="max_total_body_bytes"):
        build_access(Settings.model_validate({"access": {"max_total_body_bytes": 1000}}))
