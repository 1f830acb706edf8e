"""A container: the same sandbox by Docker or Podman, where Bubblewrap is not to be had.

It has not been run by SpecEyes' own tests on a machine with a container engine: its command line is tested, and
`speceyes sandbox check` runs the whole suite where an engine is. Run that before you rely on it.

What it does not cover:

- Faults of the kernel and of the container engine. A runtime such as gVisor (`runtime="runsc"`) puts a second kernel
  in between.
- Whoever may speak to Docker's daemon is root on its machine. This process may, so what breaks into this process has
  that right too. Podman without root has no such daemon.
- `/proc` and `/sys` are there, as the engine masks them: the code can see the kernel's version, the machine's
  processors and its memory.
- The number of files is looked at twenty times a second; their size is limited by the kernel.
- Side channels, what printed text makes the model believe, and Pillow outside: as with Bubblewrap.

What it does: no network, a read-only root, no capabilities, no new privileges, the engine's seccomp filter and our own,
limits on processes, memory and processor, `/tmp` in memory with a limit, no log, the user nobody, and nothing mounted
from here but the pictures and `inside/`. The image has Python, NumPy, Pillow, Matplotlib and OpenCV; it is made from
`deploy/sandbox/Containerfile`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal

from speceyes.errors import SandboxError, SandboxUnavailable
from speceyes.imaging.decode import DecodedImage
from speceyes.sandbox.base import IMAGE_FOLDER, Availability, Limits, Session, image_path
from speceyes.sandbox.files import INSIDE, START, png_of
from speceyes.sandbox.session import Launch, PipeSession

DEFAULT_IMAGE = "speceyes-sandbox"
NOT_COVERED = (
    "Faults of the kernel and of the container engine; a runtime such as gVisor stands in between.",
    "Whoever may speak to Docker's daemon is root on its machine, and this process may.",
    "The kernel's version, processors and memory of the machine can be seen through /proc.",
    "The number of files to the last one: it is looked at twenty times a second.",
    "Side channels between sessions on one processor.",
    "What printed text makes the model believe.",
    "Faults of Pillow: pictures that come back (PNG, JPEG, WebP) are decoded outside.",
)
_NOBODY = 65534
_ANSWER_S = 30.0


class Container:
    """Sandboxes by a container engine.

    Args:
        engine: `docker` or `podman`. None: the first that is on the path.
        image: With Python 3.11 or later as `python3` on its path, and the packages.
        runtime: The engine's `--runtime`, for instance `runsc`. None: its default.
    """

    name = "container"
    not_covered = NOT_COVERED

    def __init__(
        self,
        engine: Literal["docker", "podman"] | None = None,
        image: str = DEFAULT_IMAGE,
        runtime: str | None = None,
    ) -> None:
        self._engine, self._image, self._runtime = engine, image, runtime
        self._found: Availability | None = None
        self._looking = asyncio.Lock()

    async def available(self) -> Availability:
        async with self._looking:
            if self._found is None:
                self._found = await self._look()
        return self._found

    async def _look(self) -> Availability:
        engine = self._binary()
        if engine is None:
            wanted = self._engine or "docker or podman"
            return Availability(False, f"{wanted} is not on the path")
        code, said = await _ask(engine, "version", "--format", "{{.Client.Version}}")
        if code != 0:
            return Availability(False, f"{Path(engine).name} has no engine to speak to: {said}")
        code, _ = await _ask(engine, "image", "inspect", self._image)
        if code != 0:
            build = f"{Path(engine).name} build -t {self._image} -f deploy/sandbox/Containerfile deploy/sandbox"
            return Availability(False, f"there is no image {self._image}; make it with `{build}`")
        try:
            async with self._session((), Limits()) as session:
                outcome = await session.run("import numpy, PIL\nprint(numpy.__version__, PIL.__version__)")
        except SandboxError as error:
            return Availability(False, str(error))
        if outcome.error is not None:
            return Availability(False, f"NumPy and Pillow cannot be loaded inside: {outcome.error.splitlines()[-1]}")
        numpy, pillow = outcome.stdout.split()
        return Availability(True, f"{Path(engine).name}, Python {session.python}, NumPy {numpy}, Pillow {pillow}")

    @asynccontextmanager
    async def open(self, images: Sequence[DecodedImage] = (), limits: Limits | None = None) -> AsyncIterator[Session]:
        found = await self.available()
        if not found.available:
            raise SandboxUnavailable(f"container: {found.reason}")
        async with self._session(images, limits or Limits()) as session:
            yield session

    @asynccontextmanager
    async def _session(self, images: Sequence[DecodedImage], limits: Limits) -> AsyncIterator[PipeSession]:
        engine = self._binary()
        assert engine is not None
        with tempfile.TemporaryDirectory(prefix="speceyes-sandbox-") as place:
            folder = Path(place)
            await asyncio.to_thread(_lay_out, folder, images)
            launcher = _Launcher(engine, self._image, self._runtime, folder, limits)
            async with PipeSession(launcher, limits, len(images)) as session:
                yield session

    def _binary(self) -> str | None:
        names = (self._engine,) if self._engine else ("docker", "podman")
        return next((found for name in names if (found := shutil.which(name))), None)


class _Launcher:
    """Starts containers by name, and removes them by name."""

    def __init__(self, engine: str, image: str, runtime: str | None, folder: Path, limits: Limits) -> None:
        self._engine, self._image, self._runtime = engine, image, runtime
        self._folder, self._limits = folder, limits
        self._name: str | None = None
        self._names: list[str] = []

    @contextmanager
    def prepare(self) -> Iterator[Launch]:
        self._name = f"speceyes-{secrets.token_hex(8)}"
        self._names.append(self._name)
        argv = command(self._engine, self._image, self._name, self._folder, self._limits, self._runtime)
        env = {name: value for name, value in os.environ.items() if name in _FOR_THE_ENGINE}
        yield Launch(argv, env=env, processes=False)

    def started(self) -> int | None:
        return None

    async def end(self) -> None:
        name, self._name = self._name, None
        if name is not None:
            await _ask(self._engine, "rm", "--force", name)

    async def remains(self) -> tuple[str, ...]:
        left = []
        for name in self._names:
            code, said = await _ask(self._engine, "ps", "--all", "--quiet", "--filter", f"name={name}")
            left += [f"container {name}"] if code == 0 and said else []
        return (*left, *([f"folder {self._folder}"] if self._folder.exists() else []))


_FOR_THE_ENGINE = frozenset({"PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST"})
"""What the client needs of this process's environment. Nothing of it is seen inside."""


def command(
    engine: str, image: str, name: str, folder: Path, limits: Limits, runtime: str | None = None
) -> tuple[str, ...]:
    """The command that starts one container.

    Args:
        engine: The client.
        image: To start from. It is never fetched.
        name: Of the container.
        folder: Of this machine, with `images/` and `inside/`.
        limits: Those of the session.
        runtime: The engine's `--runtime`.
    """
    memory = f"{limits.total_memory_bytes + limits.files_bytes}b"
    return (
        *(engine, "run", "--rm", "--interactive", "--init=false", "--pull", "never", "--name", name),
        *(("--runtime", runtime) if runtime else ()),
        *("--network", "none", "--hostname", "sandbox", "--ipc", "none", "--log-driver", "none"),
        *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--user", f"{_NOBODY}:{_NOBODY}", "--workdir", "/tmp", "--entrypoint", "python3"),
        # two more: the keeper and the interpreter
        *("--pids-limit", str(limits.processes + 2), "--memory", memory, "--memory-swap", memory, "--cpus", "2"),
        *("--ulimit", "core=0", "--ulimit", f"nofile={limits.open_files}:{limits.open_files}"),
        *("--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.files_bytes},mode=1777"),
        *("--mount", f"type=bind,source={folder / 'images'},target={IMAGE_FOLDER},readonly"),
        *("--mount", f"type=bind,source={folder / 'inside'},target=/sandbox/inside,readonly"),
        *(image, "-I", "-B", "-c", START),
    )


def _lay_out(folder: Path, images: Sequence[DecodedImage]) -> None:
    """Write what is mounted, so that the user nobody can read it."""
    folder.chmod(0o755)
    shutil.copytree(INSIDE, folder / "inside", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "images").mkdir()
    for index, image in enumerate(images):
        (folder / "images" / Path(image_path(index)).name).write_bytes(png_of(image))
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o444)


async def _ask(*words: str) -> tuple[int, str]:
    """Run a command of the engine: its exit code, and the last line that it said."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        return 127, str(error.strerror)
    try:
        async with asyncio.timeout(_ANSWER_S):
            said, _ = await process.communicate()
    except TimeoutError:
        return 124, f"no answer within {_ANSWER_S:g} s"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return process.returncode or 0, lines[-1] if lines else ""
