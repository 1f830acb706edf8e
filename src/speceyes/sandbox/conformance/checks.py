"""What a check is: an attack or an accident, tried for real, that fails loudly where it gets through."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from speceyes.imaging.decode import DecodedImage
from speceyes.sandbox.base import Limits, Outcome, Provider, Session
from speceyes.sandbox.conformance.host import Host

_MIB = 1024**2

LIMITS = Limits(
    wall_s=120,
    cpu_s=60,
    memory_bytes=1024 * _MIB,
    total_memory_bytes=1536 * _MIB,
    processes=32,
    file_bytes=16 * _MIB,
    files_bytes=64 * _MIB,
    files=500,
)
"""Of the suite's sessions: small enough to be reached, and so much time that a busy machine is no failure."""

SOON_S = 1.5
"""The time of a step that would never end."""

_PRELUDE = '''
import os, sys

def attempt(what, action):
    """Do what must not work."""
    try:
        got = action()
    except Exception as refusal:
        print("refused:", what, type(refusal).__name__)
    else:
        print("ESCAPED:", what, repr(got)[:200])

def system_call(number, *arguments):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    given = [one if isinstance(one, bytes) else ctypes.c_long(one) for one in arguments]
    got = libc.syscall(ctypes.c_long(number), *given)
    if got == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got
'''
_TRIED = "all of it was tried"


class Broken(AssertionError):
    """An attack got through, or an accident did harm. The message says how."""


@dataclass(slots=True)
class Ground:
    """Where the checks take place: a provider, and a host with things to steal.

    Attributes:
        provider: Whose sandboxes are attacked.
        host: What is planted outside.
        outcomes: Of all steps of the check that is under way.
    """

    provider: Provider
    host: Host
    outcomes: list[Outcome] = field(default_factory=list)

    @asynccontextmanager
    async def session(
        self, limits: Limits = LIMITS, images: Sequence[DecodedImage] = ()
    ) -> AsyncIterator[CheckedSession]:
        """A session of its own for a check. When it is over, nothing of it may be left."""
        async with self.provider.open(images, limits) as session:
            yield CheckedSession(self, session)
        if left := await session.remains():
            raise Broken(f"left behind after the session: {', '.join(left)}")

    async def tried_in_vain(self, code: str) -> Outcome:
        """Run code that prints ESCAPED where it gets through, in a session of its own. It must run to its end."""
        async with self.session() as session:
            return await session.tried_in_vain(code)


@dataclass(frozen=True, slots=True)
class CheckedSession:
    """A session whose outcomes are looked through for what was planted."""

    ground: Ground
    session: Session

    async def run(self, code: str, timeout_s: float | None = None) -> Outcome:
        outcome = await self.session.run(_PRELUDE + textwrap.dedent(code), timeout_s)
        self.ground.outcomes.append(outcome)
        return outcome

    async def tried_in_vain(self, code: str) -> Outcome:
        outcome = await self.run(f"{textwrap.dedent(code)}\nprint({_TRIED!r})")
        if "ESCAPED" in outcome.stdout:
            raise Broken(next(line for line in outcome.stdout.splitlines() if "ESCAPED" in line))
        if _TRIED not in outcome.stdout:
            raise Broken(f"the attack was not tried to its end: {outcome.error or outcome.stdout[-200:]}")
        return outcome

    async def works(self) -> None:
        """The session can be used: a step runs, and says what it should."""
        outcome = await self.run("print(6 * 7)")
        if outcome.stdout != "42\n" or outcome.error is not None:
            raise Broken(f"afterwards the session does not work: {outcome.error or outcome.stdout[:200]}")


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        group: What it is about.
        name: Its name in reports, unique.
        title: What must hold, in a sentence.
        run: Tries it. Raises `Broken` where it does not hold.
    """

    group: str
    name: str
    title: str
    run: Callable[[Ground], Awaitable[None]]


class Checks:
    """The checks of one group, in their order."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.all: list[Check] = []

    def add(self, title: str) -> Callable[[Callable[[Ground], Awaitable[None]]], Callable[[Ground], Awaitable[None]]]:
        """Decorate an async function to be a check; the function's name is the check's."""

        def take(function: Callable[[Ground], Awaitable[None]]) -> Callable[[Ground], Awaitable[None]]:
            self.all.append(Check(self.group, getattr(function, "__name__", ""), title, function))
            return function

        return take

    def refused(self, name: str, title: str, code: str | Callable[[Host], str]) -> None:
        """A check that is code which must be refused. It may be made from what is planted on the host."""

        async def run(ground: Ground) -> None:
            await ground.tried_in_vain(code if isinstance(code, str) else code(ground.host))

        self.all.append(Check(self.group, name, title, run))


def must(holds: bool, otherwise: str) -> None:
    """Raise `Broken` where something does not hold."""
    if not holds:
        raise Broken(otherwise)
