"""The filter, run by a small machine for its programs; and its numbers, against the kernel's headers."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import SandboxUnavailable
from speceyes.sandbox.seccomp import ALLOW, KILL_PROCESS, NAMESPACES, filter_bytes, program, refusal
from speceyes.sandbox.syscalls import CLONE, CLONE3, IOCTL, MACHINES, NEWEST_KNOWN, REFUSED, SOCKETPAIR, Machine

MACHINE = st.sampled_from(sorted(MACHINES))
WORD = st.integers(0, 2**64 - 1)


def answer(machine: Machine, number: int, arguments: tuple[int, ...] = (), audit: int | None = None) -> int:
    """What the kernel would be told: the program is run as `net/core/filter.c` runs it."""
    given_words = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, machine.audit if audit is None else audit, 0, *given_words)
    lines, place, held = program(machine), 0, 0
    while True:
        line = lines[place]
        place += 1
        match line.operation:
            case 0x20:
                (held,) = struct.unpack_from("<I", data, line.operand)
            case 0x15:
                place += line.if_true if held == line.operand else line.if_false
            case 0x25:
                place += line.if_true if held > line.operand else line.if_false
            case 0x45:
                place += line.if_true if held & line.operand else line.if_false
            case 0x06:
                return line.operand
            case other:
                raise AssertionError(f"operation {other:#x}")


@given(MACHINE, st.sampled_from(sorted(REFUSED)), st.tuples(WORD, WORD))
def test_what_is_on_the_list_is_refused_whatever_its_arguments(name: str, call: str, words: tuple[int, int]) -> None:
    number = REFUSED[call][MACHINES[name].column]
    if number is not None:
        assert answer(MACHINES[name], number, words) == refusal(errno.EPERM)


@given(MACHINE, st.integers(0, NEWEST_KNOWN), st.tuples(WORD, WORD))
def test_nothing_else_is(name: str, number: int, words: tuple[int, int]) -> None:
    machine = MACHINES[name]
    looked_at = {pair[machine.column] for pair in (CLONE, CLONE3, IOCTL, SOCKETPAIR)}
    if number not in looked_at and number not in machine.refused:
        assert answer(machine, number, words) == ALLOW


@given(MACHINE, st.integers(NEWEST_KNOWN + 1, 2**32 - 1))
def test_calls_that_are_newer_or_of_x32_do_not_exist(name: str, number: int) -> None:
    assert answer(MACHINES[name], number) == refusal(errno.ENOSYS)


@given(MACHINE, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_calls_of_another_processor_end_the_process(name: str, number: int, audit: int) -> None:
    if audit != MACHINES[name].audit:
        assert answer(MACHINES[name], number, audit=audit) == KILL_PROCESS


@given(MACHINE, WORD)
def test_clone_makes_processes_and_no_namespaces(name: str, flags: int) -> None:
    machine = MACHINES[name]
    expected = refusal() if flags & NAMESPACES else ALLOW
    assert answer(machine, CLONE[machine.column], (flags,)) == expected
    assert answer(machine, CLONE3[machine.column], (flags,)) == refusal(errno.ENOSYS)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_pairs_of_sockets_are_local_and_nothing_types_into_a_terminal(name: str) -> None:
    machine = MACHINES[name]
    pair, control = SOCKETPAIR[machine.column], IOCTL[machine.column]
    assert [answer(machine, pair, (family,)) for family in (1, 2, 16, 40)] == [ALLOW, *[refusal()] * 3]
    assert [answer(machine, control, (0, request)) for request in (0x5401, 0x5412, 0x541C)] == [
        ALLOW,
        refusal(),
        refusal(),
    ]


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_a_program_is_within_what_the_kernel_takes(name: str) -> None:
    lines = program(MACHINES[name])
    assert len(lines) <= 4096
    assert len(filter_bytes(name)) == 8 * len(lines)
    for place, line in enumerate(lines):
        assert place + 1 + max(line.if_true, line.if_false) < len(lines) or line.operation == 0x06


def test_an_unknown_processor_is_told_as_such() -> None:
    with pytest.raises(SandboxUnavailable, match="no list of system calls for the processor vax"):
        filter_bytes("vax")


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("name", [name for name in sorted(HEADERS) if HEADERS[name].is_file()])
def test_numbers_are_those_of_the_kernels_headers(name: str) -> None:
    text, column = HEADERS[name].read_text(), MACHINES[name].column
    stated = {call: int(number) for call, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    closer = {"clone": CLONE, "clone3": CLONE3, "ioctl": IOCTL, "socketpair": SOCKETPAIR}
    for call, pair in {**REFUSED, **closer}.items():
        # A header that is older than a call does not have it; `None` says that no header has.
        assert stated.get(call, pair[column]) == pair[column], call
        assert pair[column] is not None or call not in stated
