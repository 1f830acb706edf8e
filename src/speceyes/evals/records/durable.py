"""Writing that survives: what these functions have returned from is on the disk, whole, whatever happens next."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def replace_file(path: Path, write: Callable[[BinaryIO], object], *, beside: Path | None = None) -> None:
    """Write a file in one step: whoever looks sees the old file or the new one, also after a crash.

    Args:
        path: The file.
        write: Is given a file to write the content to.
        beside: Folder for the unfinished file, on the same disk. None: the file's own.

    Raises:
        OSError: It cannot be written; then nothing has changed.
    """
    partial = (beside or path.parent) / f".making-{path.name}"
    try:
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file so that it does not come back after a crash."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make sure of the names in a folder: of files that were made, moved or removed there."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """Remove what `replace_file` left behind when its process was killed."""
    for path in folder.glob(".making-*"):
        path.unlink(missing_ok=True)
