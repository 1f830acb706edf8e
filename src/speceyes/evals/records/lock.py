"""One process at a time writes a run. The lock goes with its process, also when that is killed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from speceyes.errors import ConfigError

LOCK: Final = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock. The file stays where it is: to remove it would let two processes hold one lock each.

    Raises:
        ConfigError: Another process holds it, or the folder cannot be written.
    """
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror or error}.") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise ConfigError(
                f"{folder}: process {holder} records into this run. Wait until it is done, or name another folder."
            ) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)
