"""Container engines: which are on the path, which of the two they are, and how one asks them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
from dataclasses import dataclass
from typing import Literal, get_args

from speceyes.errors import SandboxUnavailable

EngineName = Literal["docker", "podman"]
_ANSWER_S = 60.0
_PROCESSES_OF_A_USER = 32768
_FOR_THE_CLIENT = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "DBUS_SESSION_BUS_ADDRESS")
_FOR_THE_CLIENT_TOO = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "XDG_", "BUILDAH_", "STORAGE_")
"""Beginnings of names: where the engine is, and where its settings and its images are."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A client of an engine.

    Attributes:
        name: By which it was looked for.
        binary: Its path.
        podman: Whether it is Podman, which wants other words than Docker here and there. A program called `docker`
            may be either.
    """

    name: EngineName
    binary: str
    podman: bool

    async def ask(self, *words: str, within_s: float = _ANSWER_S) -> tuple[int, str]:
        """Run a command of the engine: its exit code, and the last line that it said."""
        return await ask(self.binary, *words, within_s=within_s)

    async def complaint(self) -> str | None:
        """Why nothing can be started with it, or None."""
        code, said = await self.ask("version", "--format", "{{.Client.Version}}")
        return None if code == 0 else f"{self.name} has no engine to speak to: {said}"

    async def remove(self, container: str) -> None:
        """Kill a container and remove it. Also where there is none."""
        # Podman waits ten seconds for a container to end by itself, unless it is told not to.
        at_once = ("--time", "0", "--ignore") if self.podman else ()
        await self.ask("rm", "--force", "--volumes", *at_once, container)

    def own_words(self) -> tuple[str, ...]:
        """Flags of `run` that only this engine knows, and needs to do what the other one does by itself."""
        if not self.podman:
            return ()
        # A "read-only" container has writable folders in memory, and the proxies of this machine are told inside.
        words = ("--read-only-tmpfs=false", "--http-proxy=false")
        # It sets the limit of processes of one user higher than every root may. The one that matters is `--pids-limit`.
        most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        most = _PROCESSES_OF_A_USER if most == resource.RLIM_INFINITY else min(most, _PROCESSES_OF_A_USER)
        return (*words, "--ulimit", f"nproc={most}:{most}")


async def engines(wanted: EngineName | None = None) -> list[Engine]:
    """The engines whose clients are on the path: the one that is wanted, or Docker before Podman."""
    names: tuple[EngineName, ...] = (wanted,) if wanted else get_args(EngineName)
    return [
        Engine(name, binary, "podman" in (await ask(binary, "--version"))[1].lower())
        for name in names
        if (binary := shutil.which(name))
    ]


async def working_engine(wanted: EngineName | None = None) -> Engine:
    """The first of `engines` that answers.

    Raises:
        SandboxUnavailable: None does; why is said for each.
    """
    complaints = []
    for engine in await engines(wanted):
        if (complaint := await engine.complaint()) is None:
            return engine
        complaints.append(complaint)
    raise SandboxUnavailable("; ".join(complaints) or missing(wanted))


def missing(wanted: EngineName | None) -> str:
    """What to say where no client is on the path."""
    return f"{wanted or 'docker or podman'} is not on the path"


def environment() -> dict[str, str]:
    """What a client needs of this process's environment. Keys are none of its business."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _FOR_THE_CLIENT or name.startswith(_FOR_THE_CLIENT_TOO)
    }


async def ask(*words: str, within_s: float = _ANSWER_S) -> tuple[int, str]:
    """Run a command: its exit code, and the last line that it said."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=asyncio.subprocess.STDOUT, env=environment()
        )
    except OSError as error:
        return 127, str(error.strerror)
    try:
        async with asyncio.timeout(within_s):
            said, _ = await process.communicate()
    except TimeoutError:
        return 124, f"no answer within {within_s:g} s"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return process.returncode or 0, lines[-1] if lines else ""
