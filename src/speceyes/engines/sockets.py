"""Ending the connections of a server that runs in this process, from outside of it."""

from __future__ import annotations

import os
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path

_LOOK_S = 0.005


def end_service(port: int, timeout_s: float) -> bool:
    """Make a server in this process stop accepting on a local TCP port, and hang up on all its clients.

    The server sees that its clients are gone, ends what it was doing for them, and closes their sockets. This
    waits until it has closed the last one.

    Returns:
        Whether it did so in time.
    """
    deadline = time.monotonic() + timeout_s
    doors = _shut(port, listening=True)
    # Again and again: a connection may have been on its way from the kernel's queue to the server.
    while _shut(port, listening=False) - doors:
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True


def _shut(port: int, *, listening: bool) -> set[int]:
    """Shut the TCP sockets of this process that are bound to a port: those that listen, or all others.

    Returns:
        The inodes of the sockets that there were.
    """
    found = set()
    for descriptor in _descriptors():
        with suppress(OSError):  # the server may close any of them meanwhile
            status = os.fstat(descriptor)
            if not stat.S_ISSOCK(status.st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as bound:
                if _is_tcp(bound) and bound.getsockname()[1] == port and _listens(bound) is listening:
                    found.add(status.st_ino)
                    bound.shutdown(socket.SHUT_RDWR)
    return found


def _is_tcp(candidate: socket.socket) -> bool:
    return candidate.family in (socket.AF_INET, socket.AF_INET6) and candidate.type == socket.SOCK_STREAM


def _listens(candidate: socket.socket) -> bool:
    return bool(candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _descriptors() -> list[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        if Path(folder).is_dir():
            return [int(name) for name in os.listdir(folder) if name.isdigit()]
    return []
