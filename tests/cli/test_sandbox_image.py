"""`speceyes sandbox image`: where there is no engine, and where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Run

from speceyes.sandbox import Availability, Container
from speceyes.sandbox.engine import Engine


def test_without_an_engine_it_says_so(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run("sandbox", "image")
    assert result.exit_code == 2
    assert "docker or podman is not on the path" in result.stderr


@pytest.mark.parametrize("works", [True, False])
def test_it_makes_the_image_of_the_settings_and_tries_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    made: list[tuple[str, str]] = []

    async def make(engine: Engine, image: str, *rest: object) -> None:
        made.append((engine.name, image))

    async def available(self: Container) -> Availability:
        return Availability(works, "podman, Python 3" if works else "podman: no such runtime")

    client = tmp_path / "podman"
    client.write_text("#!/bin/sh\necho podman 5\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr("speceyes.sandbox.image.make_image", make)
    monkeypatch.setattr(Container, "available", available)
    settings = ("--set", "sandbox.container_engine=podman", "--set", "sandbox.container_image=mine")
    result = run("sandbox", "image", *settings)
    assert made == [("podman", "mine")]
    if works:
        assert (result.exit_code, result.stdout) == (0, "Made the image mine: podman, Python 3.\n")
    else:
        assert result.exit_code == 2
        assert "the image mine is there, and does not work: podman: no such runtime" in result.stderr
