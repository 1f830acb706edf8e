"""A container: the same sandbox by Docker or Podman, where Bubblewrap is not to be had.

What it has been tried on: the whole suite of `speceyes sandbox check` holds with Podman 4.3 and with Docker 20.10, both
started by root, with runc and control groups of version 1, on Linux 6.18. Not tried: control groups of version 2,
SELinux, an engine in a virtual machine, an engine without root that has control groups. gVisor (a release of 2022) was
tried and does not work: it counts its own threads as processes.

What it does not cover:

- Faults of the kernel and of the container engine.
- Whoever may speak to Docker's daemon is root on its machine. This process may, so what breaks into this process has
  that right too. Podman without root has no such daemon.
- `/proc` and `/sys` are there, as the engine masks them: the code can see the kernel's version, the machine's
  processors and memory, and where the engine keeps its files.
- An engine without control groups limits neither processes nor memory. It is found out by trying, and refused.
- Memory of all processes to the byte: it is looked at five times a second, from inside. The kernel holds the limit that
  the engine sets, which is higher by the size of all files.
- The number of files is looked at twenty times a second; their size is limited by the kernel.
- Where this process is killed, the container ends by itself, and the folder with the pictures stays among the temporary
  files of this machine until the provider is next used.
- Side channels, what printed text makes the model believe, and Pillow outside: as with Bubblewrap.

What it does: no network, a read-only root, no capabilities, no new privileges, the engine's seccomp filter and our own,
limits on processes, memory and processor, `/tmp` in memory with a limit, no terminals, no log, the user nobody, and
nothing mounted from here but the pictures, `inside/`, and two files that say nothing, where engines write names and
addresses of this machine. The image is made by `speceyes sandbox image`, or from `deploy/sandbox/Containerfile`.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from speceyes.errors import SandboxError, SandboxUnavailable
from speceyes.imaging.decode import DecodedImage
from speceyes.sandbox.base import IMAGE_FOLDER, Availability, Limits, Session, image_path
from speceyes.sandbox.engine import Engine, EngineName, engines, environment, missing
from speceyes.sandbox.files import INSIDE, START, png_of
from speceyes.sandbox.given import given_folder, remove_orphans
from speceyes.sandbox.session import Launch, PipeSession

DEFAULT_IMAGE = "speceyes-sandbox"
NOT_COVERED = (
    "Faults of the kernel and of the container engine.",
    "Whoever may speak to Docker's daemon is root on its machine, and this process may.",
    "The kernel's version, processors and memory of the machine can be seen, and where the engine keeps its files.",
    "Memory of all processes together to the byte: it is looked at five times a second.",
    "The number of files to the last one: it is looked at twenty times a second.",
    "Where this process is killed: pictures stay among this machine's temporary files until the provider is next used.",
    "Side channels between sessions on one processor.",
    "What printed text makes the model believe.",
    "Faults of Pillow: pictures that come back (PNG, JPEG, WebP) are decoded outside.",
)
PACKAGES = "/packages"
"""Where an image may have packages that its Python does not find by itself."""
_NOBODY = 65534
_PROCESSORS = 2
_CLOSED = ("/dev/pts", "/dev/mqueue")
"""Empty in place of what engines put there: terminals, and a folder that everybody may write."""
_LOOK_S = 120.0
"""A machine that is busy is no reason to say that there is no sandbox."""
_FEW = 8
_LOOK = f"""
import numpy, os, signal, PIL
made = 0
try:
    while made <= {_FEW}:
        if os.fork() == 0:
            signal.pause()
        made += 1
except OSError:
    pass
print(numpy.__version__, PIL.__version__, made)
"""
"""Whether the packages are there, and how many processes can be started."""


class Container:
    """Sandboxes by a container engine.

    Args:
        engine: `docker` or `podman`. None: the first of them that works.
        image: With Python 3.11 or later as `python3` on its path, and the packages.
        runtime: The engine's `--runtime`, for instance `runc`. None: its default.
    """

    name = "container"
    not_covered = NOT_COVERED

    def __init__(
        self,
        engine: EngineName | None = None,
        image: str = DEFAULT_IMAGE,
        runtime: str | None = None,
    ) -> None:
        self._wanted, self._image, self._runtime = engine, image, runtime
        self._engine: Engine | None = None
        self._found: Availability | None = None
        self._looking = asyncio.Lock()

    async def available(self) -> Availability:
        async with self._looking:
            if self._found is None:
                self._found = await self._look()
        return self._found

    async def _look(self) -> Availability:
        reasons = []
        for engine in await engines(self._wanted):
            found = await self._try(engine)
            if found.available:
                self._engine = engine
                return found
            reasons.append(found.reason)
        return Availability(False, "; ".join(reasons) or missing(self._wanted))

    async def _try(self, engine: Engine) -> Availability:
        """Whether an engine is there, has the image, and keeps a container within its limits."""
        if complaint := await engine.complaint():
            return Availability(False, complaint)
        code, _ = await engine.ask("image", "inspect", "--format", "{{.Id}}", self._image)
        if code != 0:
            return Availability(
                False, f"{engine.name} has no image {self._image}; make it with `speceyes sandbox image`"
            )
        await asyncio.to_thread(remove_orphans)
        limits = replace(Limits(), processes=_FEW, wall_s=_LOOK_S)
        try:
            async with self._session(engine, (), limits) as session:
                outcome = await session.run(_LOOK)
        except SandboxError as error:
            return Availability(False, f"{engine.name}: {error}")
        if outcome.error is not None:
            return Availability(False, f"NumPy and Pillow cannot be loaded inside: {outcome.error.splitlines()[-1]}")
        numpy, pillow, processes = outcome.stdout.split()
        if int(processes) > _FEW:
            return Availability(False, f"{engine.name} does not limit processes here: it has no control groups")
        return Availability(True, f"{engine.name}, Python {session.python}, NumPy {numpy}, Pillow {pillow}")

    @asynccontextmanager
    async def open(self, images: Sequence[DecodedImage] = (), limits: Limits | None = None) -> AsyncIterator[Session]:
        found = await self.available()
        if self._engine is None:
            raise SandboxUnavailable(f"container: {found.reason}")
        async with self._session(self._engine, images, limits or Limits()) as session:
            yield session

    @asynccontextmanager
    async def _session(
        self, engine: Engine, images: Sequence[DecodedImage], limits: Limits
    ) -> AsyncIterator[PipeSession]:
        with given_folder() as folder:
            await asyncio.to_thread(_lay_out, folder, images)
            launcher = _Launcher(engine, self._image, self._runtime, folder, limits)
            async with PipeSession(launcher, limits, len(images)) as session:
                yield session


class _Launcher:
    """Starts containers by name, and removes them by name."""

    def __init__(self, engine: Engine, image: str, runtime: str | None, folder: Path, limits: Limits) -> None:
        self._engine, self._image, self._runtime = engine, image, runtime
        self._folder, self._limits = folder, limits
        self._name: str | None = None
        self._names: list[str] = []

    @contextmanager
    def prepare(self) -> Iterator[Launch]:
        self._name = f"speceyes-{secrets.token_hex(8)}"
        self._names.append(self._name)
        argv = command(self._engine, self._image, self._name, self._folder, self._limits, self._runtime)
        yield Launch(argv, env=environment(), packages=(PACKAGES,), processes=False, memory=True)

    def started(self) -> int | None:
        return None

    async def end(self) -> None:
        name, self._name = self._name, None
        if name is not None:
            await self._engine.remove(name)

    async def remains(self) -> tuple[str, ...]:
        left = []
        for name in self._names:
            code, said = await self._engine.ask("ps", "--all", "--quiet", "--filter", f"name={name}")
            left += [f"container {name}"] if code == 0 and said else []
        return (*left, *([f"folder {self._folder}"] if self._folder.exists() else []))


def command(
    engine: Engine, image: str, name: str, folder: Path, limits: Limits, runtime: str | None = None
) -> tuple[str, ...]:
    """The command that starts one container.

    Args:
        engine: The client.
        image: To start from. It is never fetched.
        name: Of the container.
        folder: Of this machine, as `_lay_out` has made it.
        limits: Those of the session.
        runtime: The engine's `--runtime`.
    """
    memory = f"{limits.total_memory_bytes + limits.files_bytes}b"
    mounts = {
        "images": IMAGE_FOLDER,
        "inside": "/sandbox/inside",
        "hosts": "/etc/hosts",
        "resolver": "/etc/resolv.conf",
    }
    return (
        *(engine.binary, "run", "--rm", "--interactive", "--init=false", "--pull", "never", "--name", name),
        *(("--runtime", runtime) if runtime else ()),
        *("--network", "none", "--hostname", "sandbox", "--ipc", "none", "--log-driver", "none"),
        *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
        *("--user", f"{_NOBODY}:{_NOBODY}", "--workdir", "/tmp", "--entrypoint", "python3"),
        # two more: the keeper and the interpreter
        *("--pids-limit", str(limits.processes + 2), "--memory", memory, "--memory-swap", memory),
        *("--cpus", str(min(_PROCESSORS, os.cpu_count() or 1))),
        *("--ulimit", "core=0", "--ulimit", f"nofile={limits.open_files}:{limits.open_files}"),
        *engine.own_words(),
        *("--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.files_bytes},mode=1777"),
        *(word for place in _CLOSED for word in ("--tmpfs", f"{place}:ro,nosuid,nodev,noexec,size=4096,mode=755")),
        *(
            word
            for source, place in mounts.items()
            for word in ("--mount", f"type=bind,source={folder / source},target={place},readonly")
        ),
        *(image, "-I", "-B", "-c", START),
    )


def _lay_out(folder: Path, images: Sequence[DecodedImage]) -> None:
    """Write what is mounted, so that the user nobody can read it."""
    folder.chmod(0o755)
    shutil.copytree(INSIDE, folder / "inside", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "images").mkdir()
    for index, image in enumerate(images):
        (folder / "images" / Path(image_path(index)).name).write_bytes(png_of(image))
    # In place of what engines write from the files of this machine: its names and addresses.
    (folder / "hosts").write_text("127.0.0.1 localhost\n")
    (folder / "resolver").touch()
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o444)
