"""A session over a sandbox's standard input and output: the host's side of what `inside/` does.

A provider says how to launch a sandbox; the rest is the same for all. Whatever goes wrong on the channel ends that
sandbox, and the next step gets a new one: nothing inside can make this side wait beyond the step's time.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import secrets
import signal
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from speceyes.errors import SandboxError
from speceyes.sandbox.base import Limits, Outcome, image_path
from speceyes.sandbox.output import ALL_ANEW, outcome, too_much_memory
from speceyes.sandbox.processes import descendants, resident_bytes
from speceyes.sandbox.seccomp import filter_bytes

_MOST_OF_A_MESSAGE = 64 * 1024**2
_START_S = 30.0
_GRACE_S = 10.0
"""On top of a step's time, which the keeper measures, before this side ends the sandbox itself."""
_LOOK_S = 0.25
_KEPT_COMPLAINTS = 4096
_UNREADABLE = "The sandbox sent something unreadable and was ended."


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that starts a sandbox, with `inside/` speaking on its standard input and output.

    Attributes:
        argv: The command.
        descriptors: Descriptors that it inherits.
        env: Its environment: that of the command on the host, not what is seen inside.
        uid: The user to become inside, or None where the command has seen to that.
        packages: Where inside there are packages.
        processes: Whether the number of processes is limited from inside.
        memory: Whether the memory of all processes is watched from inside, since this machine does not see them.
    """

    argv: Sequence[str]
    descriptors: Sequence[int] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    uid: int | None = None
    packages: Sequence[str] = ()
    processes: bool = True
    memory: bool = False


class Launcher(Protocol):
    """How one session's sandboxes are started, watched and ended."""

    def prepare(self) -> AbstractContextManager[Launch]:
        """The next launch. What it opens is closed once the command runs."""
        ...

    def started(self) -> int | None:
        """The sandbox speaks. Returns its first process, where this machine sees it as its own."""
        ...

    async def end(self) -> None:
        """Kill the sandbox and wait until it is gone. Also where it never came up, and more than once."""
        ...

    async def remains(self) -> tuple[str, ...]:
        """What is still there of all sandboxes of the session."""
        ...


class PipeSession:
    """The session of every provider. Use it as an asynchronous context manager."""

    def __init__(self, launcher: Launcher, limits: Limits, images: int) -> None:
        self._launcher = launcher
        self._limits = limits
        self._images = [image_path(index) for index in range(images)]
        self._process: Process | None = None
        self._first: int | None = None
        self._said = b""
        self._hearing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._too_much: str | None = None
        self.python = ""

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def remains(self) -> tuple[str, ...]:
        return await self._launcher.remains()

    async def run(self, code: str, timeout_s: float | None = None) -> Outcome:
        if len(code) > self._limits.code_chars:
            return Outcome(error=f"The code has {len(code):,} characters; {self._limits.code_chars:,} are allowed.")
        seconds = self._limits.wall_s if timeout_s is None else min(timeout_s, self._limits.wall_s)
        async with self._one_at_a_time:
            began = time.monotonic()
            try:
                if self._process is None:
                    await self._start()
                return await self._step(code, seconds)
            except _Broken as broken:
                await self._end()
                spent = time.monotonic() - began
                return Outcome(
                    error=str(broken), notes=(ALL_ANEW,), timed_out=broken.timed_out, state_lost=True, seconds=spent
                )
            except BaseException:
                # Cancelled at the start, or in the middle of a message: the channel cannot be used again.
                await self._end()
                raise

    # Starting and ending ---------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        with self._launcher.prepare() as launch:
            try:
                spawning = asyncio.ensure_future(
                    asyncio.create_subprocess_exec(
                        *launch.argv,
                        stdin=PIPE,
                        stdout=PIPE,
                        stderr=PIPE,
                        pass_fds=launch.descriptors,
                        env=dict(launch.env),
                        start_new_session=True,
                    )
                )
                try:
                    self._process = await asyncio.shield(spawning)
                except asyncio.CancelledError:
                    # A command that is killed half started leaves children, and asyncio waits for their pipes. So it
                    # comes up, which is a matter of milliseconds, and is ended as any other.
                    self._process = await spawning
                    raise
            except OSError as error:
                raise SandboxError(f"the sandbox cannot be started: {launch.argv[0]}: {error.strerror}") from error
        self._said = b""
        self._hearing = asyncio.create_task(self._hear(self._process))
        try:
            async with asyncio.timeout(_START_S):
                await self._expect("hello")
                self._first = self._launcher.started()
                await self._send(self._config(launch))
                self.python = str((await self._expect("ready")).get("python"))
        except (_Broken, OSError) as error:  # a time-out is an OSError
            await self._end()
            why = self._said.decode("utf-8", "replace").strip().splitlines() or [str(error) or "it says nothing"]
            raise SandboxError(f"the sandbox did not come up: {why[-1]}") from error

    def _config(self, launch: Launch) -> dict[str, Any]:
        limits = self._limits
        names = ("cpu_s", "memory_bytes", "open_files", "file_bytes", "files", "output_chars", "pictures")
        return {
            **{name: getattr(limits, name) for name in (*names, "picture_bytes", "listed_files")},
            "processes": limits.processes if launch.processes else None,
            "total_memory_bytes": limits.total_memory_bytes if launch.memory else None,
            "uid": launch.uid,
            "packages": list(launch.packages),
            "filter": base64.b64encode(filter_bytes()).decode("ascii"),
            "images": self._images,
        }

    async def _hear(self, process: Process) -> None:
        """What the command says on standard error, for a message if it fails."""
        assert process.stderr is not None
        while piece := await process.stderr.read(4096):
            self._said = (self._said + piece)[-_KEPT_COMPLAINTS:]

    async def _end(self) -> None:
        process, self._process, self._first = self._process, None, None
        await self._launcher.end()
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            await _until_over(process)
        if self._hearing is not None:
            await asyncio.wait([self._hearing], timeout=1)
            self._hearing.cancel()
            self._hearing = None

    # One step --------------------------------------------------------------------------------------------------------

    async def _step(self, code: str, seconds: float) -> Outcome:
        name = secrets.token_hex(16)
        watch = asyncio.create_task(self._watch_memory())
        streams = {"stdout": b"", "stderr": b""}
        pictures: list[tuple[str, bytes]] = []
        try:
            async with asyncio.timeout(seconds + _GRACE_S):
                await self._send({"id": name, "code": code, "timeout_s": seconds})
                while (message := await self._receive()).get("kind") != "end":
                    self._check(message, name)
                    self._take(message, streams, pictures)
                self._check(message, name)
        except TimeoutError:
            raise _Broken(f"The code was stopped after {seconds:.1f} s: it took too long.", timed_out=True) from None
        except _Broken as broken:
            raise _Broken(self._too_much or str(broken)) from None
        finally:
            watch.cancel()
        try:
            result = await outcome(message, streams, pictures, self._limits)
        except (KeyError, TypeError, ValueError):
            raise _Broken(_UNREADABLE) from None
        if message["ended"] == "files":
            await self._end()
        return result

    def _check(self, message: Mapping[str, Any], name: str) -> None:
        if message.get("id") != name:
            raise _Broken("The sandbox spoke out of turn and was ended.")

    def _take(self, message: Mapping[str, Any], streams: dict[str, bytes], pictures: list[tuple[str, bytes]]) -> None:
        kind = message.get("kind")
        try:
            data = base64.b64decode(message["data"])
        except (KeyError, TypeError, ValueError):
            raise _Broken(_UNREADABLE) from None
        if kind == "picture" and len(pictures) < self._limits.pictures:
            pictures.append((str(message.get("name")), data))
        elif kind in streams and len(streams[kind]) <= 4 * self._limits.output_chars:
            streams[kind] += data
        else:
            raise _Broken("The sandbox said more than it may and was ended.")

    async def _watch_memory(self) -> None:
        """End the sandbox where all its processes together hold too much."""
        self._too_much = None
        while self._first is not None:
            await asyncio.sleep(_LOOK_S)
            pids = await asyncio.to_thread(descendants, self._first)
            if sum(map(resident_bytes, pids)) > self._limits.total_memory_bytes:
                self._too_much = too_much_memory(self._limits)
                await self._launcher.end()
                return

    # The channel -----------------------------------------------------------------------------------------------------

    async def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        body = json.dumps(message).encode("ascii")
        try:
            self._process.stdin.write(len(body).to_bytes(4, "big") + body)
            await self._process.stdin.drain()
        except (ConnectionError, BrokenPipeError) as error:
            raise _Broken("The sandbox ended.") from error

    async def _receive(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            length = int.from_bytes(await self._process.stdout.readexactly(4), "big")
            if length > _MOST_OF_A_MESSAGE:
                raise _Broken("The sandbox sent a message that is too long and was ended.")
            message = json.loads(await self._process.stdout.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise _Broken("The sandbox ended in the middle of the step.") from error
        except ValueError as error:
            raise _Broken(_UNREADABLE) from error
        if not isinstance(message, dict):
            raise _Broken(_UNREADABLE)
        return message

    async def _expect(self, kind: str) -> dict[str, Any]:
        message = await self._receive()
        if message.get("kind") != kind:
            raise _Broken(f"it should say {kind!r} and says something else")
        return message


async def _until_over(process: Process) -> None:
    """The command ends by itself when its sandbox has; where not, it is killed, with all that it started."""
    try:
        async with asyncio.timeout(_GRACE_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


class _Broken(Exception):
    """The channel cannot be used any more; the sandbox must end. The message is for the model."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out
