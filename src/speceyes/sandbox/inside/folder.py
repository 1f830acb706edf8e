"""The session's folder: which pictures and files are new after a step."""

from __future__ import annotations

import os
import stat
from typing import Any

from .channel import printable

FOLDER = "/tmp"
SHOWN = FOLDER + "/.shown"
"""Where pictures go that the code shows and does not save."""
PICTURES = (".png", ".jpg", ".jpeg", ".webp")
OTHER_PICTURES = (".gif", ".bmp", ".tif", ".tiff", ".ppm", ".svg", ".pdf")
DEEPEST = 8
MOST_NOTES = 20


class Seen:
    """A version of a file: equal to another where nothing has been written in between."""

    def __init__(self, found: os.stat_result) -> None:
        self.link = stat.S_ISLNK(found.st_mode)
        self.changed = found.st_mtime_ns
        self.size = found.st_size
        self.version = (self.link, self.changed, self.size, found.st_ino)


class Folder:
    """What is in the folder, and was there before."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        self._known = {path: seen.version for path, seen in _scan(FOLDER, 0)}

    def crowded(self) -> bool:
        """Whether there are more files than may be."""
        used = os.statvfs(FOLDER)
        return bool(used.f_files - used.f_ffree > self._config["files"])

    def collect(self) -> tuple[list[tuple[str, bytes]], list[tuple[str, int]], list[str]]:
        """What is new: pictures by name, the other files with their sizes, and notes on what is left out."""
        found = dict(_scan(FOLDER, 0))
        new = {path: seen for path, seen in found.items() if self._known.get(path) != seen.version}
        self._known = {path: seen.version for path, seen in found.items()}
        shown = sorted(path for path in new if path.startswith(SHOWN))
        saved = sorted((path for path in new if not path.startswith(SHOWN)), key=lambda path: new[path].changed)
        pictures: list[tuple[str, bytes]] = []
        files: list[tuple[str, int]] = []
        notes: list[str] = []
        left_out = 0
        for path in shown + saved:
            name = f"figure {len(pictures) + 1}" if path in shown else printable(os.path.relpath(path, FOLDER))
            ending = os.path.splitext(path)[1].lower()
            if new[path].link:
                if ending in PICTURES:
                    notes.append(f"{name} is a link; only regular files come back as pictures.")
            elif ending not in PICTURES:
                if ending in OTHER_PICTURES:
                    notes.append(f"{name} is not shown: only PNG, JPEG and WebP files come back as pictures.")
                files.append((name, new[path].size))
            elif len(pictures) >= self._config["pictures"]:
                left_out += 1
            elif new[path].size > self._config["picture_bytes"]:
                most = self._config["picture_bytes"]
                notes.append(f"{name} is left out: the file of a picture may have {most:,} bytes at most.")
            elif (data := _read(path, self._config["picture_bytes"])) is not None:
                pictures.append((name, data))
        _remove(shown)
        if left_out:
            notes.append(f"{left_out} more pictures are left out: {len(pictures)} at most are shown.")
        listed = self._config["listed_files"]
        if len(files) > listed:
            notes.append(f"{len(files) - listed} more new files are not listed.")
        return pictures, files[:listed], notes[:MOST_NOTES]


def _scan(folder: str, depth: int) -> list[tuple[str, Seen]]:
    """Regular files and links, by path. Hidden ones are the libraries' own affair."""
    found: list[tuple[str, Seen]] = []
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return found
    for entry in entries:
        if (entry.name.startswith(".") and entry.path != SHOWN) or entry.name == "__pycache__":
            continue
        try:
            seen = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(seen.st_mode):
            found += _scan(entry.path, depth + 1) if depth < DEEPEST else []
        elif stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode):
            found.append((entry.path, Seen(seen)))
    return found


def _read(path: str, most: int) -> bytes | None:
    """The bytes of a regular file, which may have become something else since it was seen."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    with open(fd, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(fd).st_mode) else None


def _remove(paths: list[str]) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            continue
