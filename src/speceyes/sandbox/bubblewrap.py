"""Bubblewrap: a sandbox made of Linux namespaces, a seccomp filter and resource limits.

What it does not cover:

- Faults of the kernel. Code inside speaks to the same kernel as everything else on this machine, through some 280 of
  its system calls. Where that is too much, use a virtual machine for the whole service.
- Side channels. Two sessions on one processor can measure each other's use of its caches.
- Memory of all processes together to the byte. The kernel holds one process to `memory_bytes`; the sum is looked at
  four times a second, and beyond `total_memory_bytes` the sandbox is ended.
- The processor. A session has a lower priority and its seconds, but no cores of its own.
- What the code tells the model. Text that it prints may be meant to mislead the model, as may text in a picture.
- Pillow, outside. Pictures that come back are PNG, JPEG or WebP within limits, and are decoded in this process.

What it does: namespaces of its own for processes, mounts, network, IPC and host name; a root that is read-only and
holds the shared libraries, one Python and its packages; `/tmp` in memory with a limit; no `/proc`, no `/sys`, five
devices; an empty environment; no capabilities; no new privileges; a user that owns nothing on the host. Started by
root, the code runs as an unused user of the host, a new one for each session, without a user namespace. Started by
anybody else, it runs in a user namespace as that user, with a limit of processes that the kernel counts for the
namespace alone (Linux 5.14 and later; before, it counts all processes of the user).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from speceyes.errors import SandboxError, SandboxUnavailable
from speceyes.imaging.decode import DecodedImage
from speceyes.sandbox import interpreter as pythons
from speceyes.sandbox.base import Availability, Limits, Session, image_path
from speceyes.sandbox.files import INSIDE, START, png_of
from speceyes.sandbox.processes import members, namespace_of, prefer_to_kill, ticks_now
from speceyes.sandbox.session import Launch, PipeSession

NOT_COVERED = (
    "Faults of the kernel: the code inside speaks to the same kernel as everything else here.",
    "Side channels between sessions on one processor.",
    "Memory of all processes together to the byte: it is looked at four times a second.",
    "A share of the processor: a session has lower priority, but no limit other than its seconds.",
    "What printed text makes the model believe.",
    "Faults of Pillow: pictures that come back (PNG, JPEG, WebP) are decoded outside.",
)

_DEVICES = ("null", "zero", "full", "random", "urandom")
_LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/lib", "/lib32", "/lib64", "/libx32")
_LOADER_FILES = ("/etc/ld.so.cache", "/etc/alternatives")
_FIRST_UNUSED, _UNUSED = 2_000_000_000, 100_000_000
"""Users that no system gives out (systemd's list of user and group numbers)."""
_NOBODY = 65534
_GONE_S = 20.0


class Bubblewrap:
    """Sandboxes by the program `bwrap`.

    Args:
        environment: A folder made by `speceyes sandbox setup`. None: the usual one, or this process's packages.
        binary: The program. None: looked for on the path.
    """

    name = "bubblewrap"
    not_covered = NOT_COVERED

    def __init__(self, environment: Path | None = None, binary: str | None = None) -> None:
        self._environment = environment
        self._binary = binary
        self._found: Availability | None = None
        self._looking = asyncio.Lock()

    async def available(self) -> Availability:
        async with self._looking:
            if self._found is None:
                self._found = await self._look()
        return self._found

    async def _look(self) -> Availability:
        try:
            launcher = self._launcher((), Limits())
            async with PipeSession(launcher, Limits(), 0) as session:
                outcome = await session.run("import numpy, PIL\nprint(numpy.__version__, PIL.__version__)")
        except (SandboxUnavailable, SandboxError) as error:
            return Availability(False, str(error))
        if outcome.error is not None:
            return Availability(False, f"NumPy and Pillow cannot be loaded inside: {outcome.error.splitlines()[-1]}")
        numpy, pillow = outcome.stdout.split()
        missing = "".join(f", no {name}" for name in launcher.python.missing)
        return Availability(True, f"Python {session.python}, NumPy {numpy}, Pillow {pillow}{missing}")

    @asynccontextmanager
    async def open(self, images: Sequence[DecodedImage] = (), limits: Limits | None = None) -> AsyncIterator[Session]:
        found = await self.available()
        if not found.available:
            raise SandboxUnavailable(f"bubblewrap: {found.reason}")
        given = [await asyncio.to_thread(png_of, image) for image in images]
        limits = limits or Limits()
        async with PipeSession(self._launcher(given, limits), limits, len(given)) as session:
            yield session

    def _launcher(self, images: Sequence[bytes], limits: Limits) -> _Launcher:
        if sys.platform != "linux":
            raise SandboxUnavailable("bubblewrap works on Linux only")
        binary = self._binary or shutil.which("bwrap")
        if binary is None:
            raise SandboxUnavailable("the program `bwrap` is not there; install the package `bubblewrap`")
        python = pythons.find_interpreter(self._environment)
        return _Launcher(binary, python, images, limits)


class _Launcher:
    """Starts bwrap, and knows how to end what it started."""

    def __init__(self, binary: str, python: pythons.Interpreter, images: Sequence[bytes], limits: Limits) -> None:
        self.python = python
        self._binary, self._images, self._limits = binary, images, limits
        self._about: int | None = None
        self._first: int | None = None
        self._namespace: str | None = None
        self._ending = asyncio.Lock()
        self._namespaces: dict[str, int | None] = {}
        """Those of the session, and when they were ended."""

    @contextmanager
    def prepare(self) -> Iterator[Launch]:
        self._forget()
        uid = _unused_user() if os.geteuid() == 0 else None
        with ExitStack() as stack:

            def given(content: bytes) -> int:
                fd = os.memfd_create("speceyes", 0)
                stack.callback(os.close, fd)
                with open(fd, "wb", closefd=False) as file:
                    file.write(content)
                os.lseek(fd, 0, os.SEEK_SET)
                return fd

            self._about, about = os.pipe()
            stack.callback(os.close, about)
            pictures = [given(content) for content in self._images]
            argv = [self._binary, *_isolation(uid), *_mounts(self.python)]
            for index, fd in enumerate(pictures):
                argv += ["--perms", "0444", "--ro-bind-data", str(fd), image_path(index)]
            argv += ["--perms", "1777", "--size", str(self._limits.files_bytes), "--tmpfs", "/tmp"]
            argv += ["--remount-ro", "/", "--chdir", "/tmp", "--info-fd", str(about)]
            argv += [f"{pythons.HOME}/bin/python3", "-I", "-S", "-B", "-c", START]
            packages = [place for _, place in self.python.package_mounts]
            yield Launch(tuple(argv), (about, *pictures), {}, uid, packages)

    def started(self) -> int | None:
        assert self._about is not None
        first = int(json.loads(os.read(self._about, 4096))["child-pid"])
        # Held from now on: a number may be given to another process, a descriptor stays with this one.
        self._first = os.pidfd_open(first)
        if namespace := namespace_of(first):
            self._namespaces[namespace] = None
            self._namespace = namespace
        prefer_to_kill(first)
        return first

    async def end(self) -> None:
        """Kill process 1 of the namespace; the kernel kills the rest with it, and reports it dead when all are."""
        async with self._ending:
            if self._first is not None:
                if self._namespace is not None:
                    self._namespaces[self._namespace] = ticks_now()
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._first, signal.SIGKILL)
                await _until_dead(self._first)
            self._forget()

    async def remains(self) -> tuple[str, ...]:
        alive = set()
        for namespace, ended in self._namespaces.items():
            alive.update(await asyncio.to_thread(members, namespace, ended))
        return tuple(f"process {pid}" for pid in sorted(alive))

    def _forget(self) -> None:
        for fd in (self._about, self._first):
            if fd is not None:
                os.close(fd)
        self._about = self._first = None


async def _until_dead(pidfd: int) -> None:
    loop = asyncio.get_running_loop()
    dead = asyncio.Event()
    loop.add_reader(pidfd, dead.set)
    try:
        async with asyncio.timeout(_GONE_S):
            await dead.wait()
    except TimeoutError:
        return  # the kernel is busy with it; `remains` tells
    finally:
        loop.remove_reader(pidfd)


def _isolation(uid: int | None) -> list[str]:
    """Namespaces and rights. With a user to become, the start keeps the two rights that this takes, until it has."""
    words = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--as-pid-1", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL"]
    if uid is None:
        words += ["--unshare-user", "--uid", str(_NOBODY), "--gid", str(_NOBODY)]
    else:
        words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return [*words, "--clearenv", "--setenv", "LD_LIBRARY_PATH", f"{pythons.HOME}/lib"]


def _mounts(python: pythons.Interpreter) -> list[str]:
    """The root that the code sees: libraries, Python, packages, devices."""
    words = []
    # Named one by one: folders that bwrap makes on the way belong to root alone.
    for folder in ("/usr", "/etc", "/dev", "/images", "/sandbox", "/packages", pythons.HOME, f"{pythons.HOME}/bin"):
        words += ["--perms", "0755", "--dir", folder]
    for place in _LIBRARIES:
        if os.path.islink(place):
            words += ["--symlink", os.readlink(place), place]
        elif os.path.isdir(place):
            words += ["--ro-bind", place, place]
    for place in _LOADER_FILES:
        words += ["--ro-bind-try", place, place]
    for source, place in (*python.libraries, *python.package_mounts, (INSIDE, "/sandbox/inside")):
        words += ["--ro-bind", str(source), place]
    words += ["--ro-bind", str(python.binary), f"{pythons.HOME}/bin/python3"]
    for device in _DEVICES:
        words += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    return words


def _unused_user() -> int:
    """A user that nobody is, from those that this machine or container has."""
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    for first, _, count in ranges:
        if first <= _FIRST_UNUSED and first + count >= _FIRST_UNUSED + _UNUSED:
            return _FIRST_UNUSED + secrets.randbelow(_UNUSED)
    first, _, count = max(ranges, key=lambda found: found[2])
    if first + count < 2:
        raise SandboxUnavailable("this machine has no user but root to run code as")
    return first + count - 1 - secrets.randbelow(max(1, min(1000, count - 2)))
