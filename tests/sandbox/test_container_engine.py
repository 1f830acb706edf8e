"""The container provider on a real engine, where there is one: all attacks of the suite, and a death without a word.

The image is `speceyes-sandbox`, where the engine has it. `make test-container` has these tests make one of their own
(SPECEYES_TEST_IMAGE is its name), which they remove again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from speceyes.errors import SandboxUnavailable
from speceyes.sandbox import Container, Limits
from speceyes.sandbox.conformance import CHECKS, Report, check_provider
from speceyes.sandbox.container import DEFAULT_IMAGE
from speceyes.sandbox.engine import Engine, working_engine
from speceyes.sandbox.image import make_image
from speceyes.sandbox.interpreter import find_interpreter

TO_BE_MADE = os.environ.get("SPECEYES_TEST_IMAGE")
RUNTIMES = (None, "runc")
"""The default of an engine is not always one that works."""

OPENER = """
import asyncio, sys
from dataclasses import replace
from speceyes.sandbox import Container, Limits

async def main():
    engine, image, runtime = sys.argv[1:]
    async with Container(engine, image, runtime or None).open(limits=replace(Limits(), wall_s=600)) as session:
        await session.run("import os\\nif os.fork() == 0: os.setsid()\\nprint('x')")
        print("open", flush=True)
        await session.run("import os\\nos.fork()\\nwhile True: pass")

asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where containers can be started."""

    engine: Engine
    image: str
    runtime: str | None

    def provider(self) -> Container:
        return Container(self.engine.name, self.image, self.runtime)

    async def containers(self) -> set[str]:
        """What there is, in whatever state."""
        process = await asyncio.create_subprocess_exec(
            self.engine.binary, "ps", "--all", "--format", "{{.Names}}", stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        return {name for name in said.decode().split() if name.startswith("speceyes-")}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """An engine that works, and an image."""
    try:
        engine = asyncio.run(working_engine())
        image = TO_BE_MADE or DEFAULT_IMAGE
        if TO_BE_MADE:
            asyncio.run(make_image(engine, image, find_interpreter(), lambda text: None))
    except SandboxUnavailable as missing:
        pytest.skip(f"no container engine here: {missing}")
    try:
        places = [Place(engine, image, runtime) for runtime in RUNTIMES]
        found = [(place, asyncio.run(place.provider().available())) for place in places]
        if not any(available.available for _, available in found):
            pytest.skip(f"no container can be started here: {'; '.join(available.reason for _, available in found)}")
        yield next(place for place, available in found if available.available)
    finally:
        if TO_BE_MADE:
            asyncio.run(engine.ask("rmi", "--force", image, within_s=600))


@pytest.fixture(scope="module", autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for temporary files that no other test uses."""
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder


@pytest.fixture(scope="module")
def report(place: Place, temporary: Path) -> Report:
    """All checks, once."""
    found = asyncio.run(check_provider(place.provider()))
    assert found.available, found.reason
    return found


@pytest.mark.parametrize("name", [check.name for check in CHECKS])
def test_withstands(report: Report, name: str) -> None:
    (result,) = (result for result in report.results if result.name == name)
    assert result.passed, f"{result.title}: {result.detail}"


def test_the_suite_leaves_no_file(report: Report, temporary: Path) -> None:
    assert report.results
    assert list(temporary.iterdir()) == []


async def test_a_container_dies_with_a_process_that_is_killed(place: Place, temporary: Path) -> None:
    before = await place.containers()
    words = (place.engine.name, place.image, place.runtime or "")
    opener = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPENER, *words, stdout=asyncio.subprocess.PIPE, env={**os.environ}
    )
    assert opener.stdout is not None
    assert await opener.stdout.readline() == b"open\n"
    own = await place.containers() - before
    assert own
    opener.send_signal(signal.SIGKILL)
    await opener.wait()
    async with asyncio.timeout(60):
        while own & await place.containers():  # noqa: ASYNC110 - an engine sets no event
            await asyncio.sleep(0.1)
    assert os.listdir(temporary), "its folder should be there still"
    assert (await place.provider().available()).available
    assert os.listdir(temporary) == []


async def test_nothing_of_this_machine_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.invalid:1")
    async with place.provider().open(limits=replace(Limits(), wall_s=200)) as session:
        outcome = await session.run(
            "import os\nprint(sorted(os.environ))\n"
            "for path in ('/etc/hosts', '/etc/resolv.conf', '/etc/hostname'):\n    print(open(path).read().split())\n"
            "print(os.listdir('/dev/mqueue'), os.listdir('/dev/pts'), os.path.exists('/dev/shm'))"
        )
    environment, *rest = outcome.stdout.splitlines()
    assert "PROXY" not in environment.upper()
    assert rest == ["['127.0.0.1', 'localhost']", "[]", "['sandbox']", "[] [] False"]
