"""Which provider the settings get, and that there is none where nothing isolates."""

from __future__ import annotations

from pathlib import Path

import pytest

from speceyes.config import SandboxSettings, Settings
from speceyes.errors import SandboxUnavailable
from speceyes.sandbox import Bubblewrap, choose_provider, known_providers, limits_of


def test_code_is_not_run_unless_somebody_says_so() -> None:
    assert Settings().sandbox.provider == "off"


async def test_off_is_no_provider() -> None:
    assert await choose_provider(SandboxSettings()) is None


@pytest.mark.parametrize("wanted", ["auto", "bubblewrap"])
async def test_one_that_works_is_taken(wanted: str, bubblewrap: Bubblewrap) -> None:
    provider = await choose_provider(SandboxSettings.model_validate({"provider": wanted}))
    assert provider is not None
    assert provider.name == "bubblewrap"


async def test_where_none_works_all_reasons_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable) as caught:
        await choose_provider(SandboxSettings(provider="auto"))
    assert "bubblewrap: the program `bwrap` is not there" in str(caught.value)
    assert "container: docker or podman is not on the path" in str(caught.value)
    with pytest.raises(SandboxUnavailable) as caught:
        await choose_provider(SandboxSettings(provider="container"))
    assert "bwrap" not in str(caught.value)


def test_the_settings_reach_the_limits() -> None:
    limits = limits_of(SandboxSettings(timeout_s=3, memory_mib=100, total_memory_mib=50, processes=5, files_mib=7))
    assert limits.wall_s == 3
    assert limits.memory_bytes == limits.total_memory_bytes == 100 * 1024**2
    assert (limits.processes, limits.files_bytes) == (5, 7 * 1024**2)


def test_the_defaults_of_the_settings_are_those_of_the_limits() -> None:
    from speceyes.sandbox import Limits

    assert limits_of(SandboxSettings()) == Limits()


def test_the_settings_reach_the_providers(tmp_path: Path) -> None:
    settings = SandboxSettings(packages=tmp_path, container_engine="podman", container_runtime="runsc")
    names = [provider.name for provider in known_providers(settings)]
    assert names == ["bubblewrap", "container"]
