"""The seccomp filter of the sandbox: a small assembler, and the program that the kernel asks about every system call.

The program is classic BPF over `struct seccomp_data` (linux/seccomp.h): the call's number at offset 0, the processor at
4, argument i at 16 + 8 i, low word first. It knows three answers: allow, an error number, or an end to the process.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from speceyes.errors import SandboxUnavailable
from speceyes.sandbox.syscalls import CLONE, CLONE3, IOCTL, MACHINES, NEWEST_KNOWN, SOCKETPAIR, Machine

_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16

# Operations, from linux/bpf_common.h: class, size and mode, or class, test and operand.
_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06

ALLOW, KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

NAMESPACES = 0x7E020080
"""The flags of clone(2) that make a namespace: NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
LOCAL_SOCKETS = 1
TYPE_INTO_TERMINAL = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: ways to type into the terminal of whoever started the sandbox."""
FOREIGN_CALLS = 0x3FFFFFFF
"""Numbers above are those of x32, a second set of calls on x86_64 that nobody needs."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One BPF instruction. Jumps count the instructions that are skipped."""

    operation: int
    operand: int
    if_true: int = 0
    if_false: int = 0

    def packed(self) -> bytes:
        """As `struct sock_filter` in the machine's own byte order."""
        return struct.pack("=HBBI", self.operation, self.if_true, self.if_false, self.operand)


def refusal(number: int = errno.EPERM) -> int:
    """The answer that makes a call fail with an error number."""
    return _ERRNO | number


def program(machine: Machine) -> tuple[Instruction, ...]:
    """The filter for a processor."""

    def lines() -> Iterator[Instruction]:
        yield Instruction(_LOAD, _MACHINE)
        yield from _unless_equal(machine.audit, KILL_PROCESS)
        yield Instruction(_LOAD, _NUMBER)
        yield from _if(_ABOVE, NEWEST_KNOWN, refusal(errno.ENOSYS))
        for number in machine.refused:
            yield from _if(_EQUAL, number, refusal())
        # Its flags lie in memory, where a filter cannot look; without it, libraries take `clone`.
        yield from _if(_EQUAL, CLONE3[machine.column], refusal(errno.ENOSYS))
        yield from _look_closer(CLONE[machine.column], 0, (_if(_ANY_BIT, NAMESPACES, refusal()),))
        yield from _look_closer(SOCKETPAIR[machine.column], 0, (_unless_equal(LOCAL_SOCKETS, refusal()),))
        typing = tuple(_if(_EQUAL, request, refusal()) for request in TYPE_INTO_TERMINAL)
        yield from _look_closer(IOCTL[machine.column], 1, typing)
        yield Instruction(_RETURN, ALLOW)

    return tuple(lines())


def _if(test: int, operand: int, answer: int) -> tuple[Instruction, ...]:
    return Instruction(test, operand, 0, 1), Instruction(_RETURN, answer)


def _unless_equal(operand: int, answer: int) -> tuple[Instruction, ...]:
    return Instruction(_EQUAL, operand, 1, 0), Instruction(_RETURN, answer)


def _look_closer(number: int, argument: int, checks: tuple[tuple[Instruction, ...], ...]) -> Iterator[Instruction]:
    """Checks of one argument's low word, for one call only. What passes them is allowed."""
    body = [line for check in checks for line in check]
    yield Instruction(_EQUAL, number, 0, len(body) + 2)
    yield Instruction(_LOAD, _ARGUMENTS + 8 * argument)
    yield from body
    yield Instruction(_RETURN, ALLOW)


def filter_bytes(machine: str | None = None) -> bytes:
    """The filter as the kernel takes it.

    Args:
        machine: As `platform.machine()` names it. None: this one.

    Raises:
        SandboxUnavailable: The processor's system calls are not known here.
    """
    name = platform.machine() if machine is None else machine
    if name not in MACHINES:
        known = " and ".join(sorted(MACHINES))
        raise SandboxUnavailable(f"no list of system calls for the processor {name}; there is one for {known}")
    return b"".join(line.packed() for line in program(MACHINES[name]))
