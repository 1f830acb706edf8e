"""How much memory all processes inside occupy together, where the host cannot see them one by one."""

from __future__ import annotations

import os

_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Memory of all processes of the namespace, as its /proc tells. What processes share counts with each."""
    return sum(_of(name) for name in os.listdir("/proc") if name.isdigit())


def _of(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0  # it is gone
