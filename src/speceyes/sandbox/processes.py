"""Processes of this machine as /proc shows them: who descends from whom, and what they occupy."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PAGE, _TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
_LAST_TO_LIVE = 1000
"""Of `oom_score_adj`: the first to be killed when the machine runs out of memory."""


def descendants(ancestor: int) -> list[int]:
    """A process and all below it that are alive, in no particular order. A process that is gone has none."""
    found, waiting = [], [ancestor]
    while waiting:
        pid = waiting.pop()
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        found.append(pid)
        for thread in threads:
            try:
                waiting += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
            except OSError:
                continue
    return found


def resident_bytes(pid: int) -> int:
    """Memory of a process; 0 where it is gone. What processes share counts with each."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


def prefer_to_kill(pid: int) -> None:
    """Where memory runs out, the machine shall end this process before any other; those below it inherit that."""
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(_LAST_TO_LIVE))
    except OSError:
        return  # an older kernel or a tighter system; the limits stand all the same


def namespace_of(pid: int) -> str | None:
    """The PID namespace of a process, as a text to compare."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def ticks_now() -> int:
    """The time as the starts of processes are given: since the machine's own start, in the kernel's ticks."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)


def members(namespace: str, before: int | None = None) -> list[int]:
    """All processes in a PID namespace, but for the dead that wait for their burial.

    Args:
        namespace: As `namespace_of` gives it. When a namespace is gone, its name is given to the next one.
        before: Only those that started before this time, so that the next one's are not counted.
    """
    found = []
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        state, started = _state_and_start(pid)
        if state not in "ZX" and (before is None or started < before) and namespace_of(pid) == namespace:
            found.append(pid)
    return found


def _state_and_start(pid: int) -> tuple[str, int]:
    """From /proc/PID/stat, fields 3 and 22; of a process that is gone, those of a dead one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], int(fields[19])
    except (OSError, IndexError, ValueError):
        return "X", 0
