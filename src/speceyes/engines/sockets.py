"""Hanging up on the clients of a server that runs in this process."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path


def hang_up(port: int) -> int:
    """Shut every connection that a server inside this process has accepted on a local TCP port.

    The server then sees that its client is gone, and ends what it was doing for it. The sockets stay open:
    they are the server's to close.

    Returns:
        How many connections were shut.
    """
    shut = 0
    for descriptor in _descriptors():
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            # A duplicate: the server's own thread may close the original at any time.
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                if _accepted_on(connection, port):
                    connection.shutdown(socket.SHUT_RDWR)
                    shut += 1
    return shut


def _accepted_on(connection: socket.socket, port: int) -> bool:
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return False
    if connection.getsockname()[1] != port:
        return False
    connection.getpeername()  # fails on the listening socket
    return True


def _descriptors() -> list[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        if Path(folder).is_dir():
            return [int(name) for name in os.listdir(folder) if name.isdigit()]
    return []
