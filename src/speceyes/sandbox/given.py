"""Folders of this machine that a container is given. Whoever made one may die without a word; the next one clears up.

A folder is in use as long as its maker holds the lock on a file in it, which the kernel opens when the maker dies. That
is true across containers and namespaces too, where numbers of processes mean nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "speceyes-sandbox-"
_LOCK = "in-use"


@contextmanager
def given_folder() -> Iterator[Path]:
    """A folder among the temporary ones, for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as place, open(Path(place, _LOCK), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(place)


def remove_orphans() -> None:
    """Remove the folders whose makers are dead. Those of others, which cannot be opened, stay."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use
        finally:
            os.close(lock)
