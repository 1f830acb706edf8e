"""A folder of benchmark files: written whole or not at all, with a manifest of what was written from which seeds."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from speceyes.errors import DatasetError

MANIFEST = "manifest.json"

Advance = Callable[[], None]
"""Is called after each scene."""


class NewFolder:
    """Collects files in a place of its own, until `into` hands them over."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._files: dict[str, dict[str, Any]] = {}

    def write(self, name: str, *parts: bytes) -> None:
        """Write a file. `name` may have folders, parted by slashes.

        Raises:
            DatasetError: A file of this name was written before.
        """
        self.write_parts(name, parts)

    def write_parts(self, name: str, parts: Iterable[bytes]) -> None:
        """As `write`, for a file that is better not held in memory."""
        if name in self._files:
            raise DatasetError(f"{name} would be written twice.")
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, length = hashlib.sha256(), 0
        with path.open("wb") as file:
            for part in parts:
                file.write(part)
                digest.update(part)
                length += len(part)
        self._files[name] = {"bytes": length, "sha256": digest.hexdigest()}

    def fill(self, name: str, fill: Callable[[Path], None]) -> None:
        """Let somebody write a file by its path, for formats that must be written so."""
        if name in self._files:
            raise DatasetError(f"{name} would be written twice.")
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        fill(path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._files[name] = {"bytes": path.stat().st_size, "sha256": digest}

    def write_lines(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Write JSON lines."""
        self.write(name, "".join(f"{json.dumps(row)}\n" for row in rows).encode())

    def write_manifest(self, about: Mapping[str, Any]) -> None:
        """Write down what is in the folder. It comes last: a folder without it is not complete."""
        content = {**about, "made_by": f"speceyes {version('speceyes')}", "files": dict(sorted(self._files.items()))}
        (self.place / MANIFEST).write_text(json.dumps(content, indent=1) + "\n")


@contextmanager
def new_folder(target: Path, *, force: bool = False) -> Iterator[NewFolder]:
    """A folder to fill. Its files appear in `target` at the end; after an error nothing has changed there.

    Args:
        target: Where the files go; it is made where it does not exist.
        force: Take a folder that is not empty. What an earlier manifest lists there is removed, other files stay.

    Raises:
        DatasetError: The target is no folder, cannot be written, or is not empty and `force` is not given.
    """
    _check_target(target, force)
    try:
        target.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=".making-", dir=target))
    except OSError as error:
        raise DatasetError(f"{target} cannot be written: {error.strerror or error}.") from error
    try:
        folder = NewFolder(place)
        yield folder
        _remove_listed(target)
        for path in sorted(place.rglob("*")):
            goal = target / path.relative_to(place)
            if path.is_dir():
                goal.mkdir(exist_ok=True)
            else:
                path.replace(goal)
    except OSError as error:
        raise DatasetError(f"{target} cannot be written: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _check_target(target: Path, force: bool) -> None:
    if target.exists() and not target.is_dir():
        raise DatasetError(f"{target} is a file. Name a folder.")
    if not force and target.is_dir() and any(target.iterdir()):
        raise DatasetError(f"{target} is not empty. Name another folder, or use --force to write into it.")


def _remove_listed(target: Path) -> None:
    """Remove the files of an earlier set, so that none of them is read as part of the new one."""
    try:
        listed = json.loads((target / MANIFEST).read_text())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    for name in listed if isinstance(listed, dict) else ():
        path = target / name
        # A manifest may come from anywhere: nothing outside the folder is touched.
        if path.resolve().is_relative_to(target.resolve()) and path.is_file():
            path.unlink()
