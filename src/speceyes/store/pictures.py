"""Images beside the records, where somebody asked for them: files named by the hash of their bytes.

An image that comes again is one file, with a fresh time of change. So no file is older than the newest request that
showed it, and what is older than the oldest record belongs to none.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

GRACE_S = 3600.0
"""A file may be written a little before its record is."""


class Pictures:
    """A folder of image files.

    Args:
        folder: Is made with the first image.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha256: str, format: str) -> Path:
        """Where an image is, or would be: a subfolder for the first two digits keeps folders small."""
        return self.folder / sha256[:2] / f"{sha256}.{format.lower()}"

    def keep(self, sha256: str, format: str, data: bytes) -> None:
        """Write an image, whole or not at all, unless it is there; OSError where that fails."""
        path = self.path(sha256, format)
        with suppress(FileNotFoundError):
            os.utime(path)
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_suffix(f".{os.getpid()}.part")
        try:
            with open(os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
                file.write(data)
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise

    def prune(self, oldest: float) -> int:
        """Delete the files that no record mentions any more.

        Args:
            oldest: When the oldest record's request came, in seconds since 1970.

        Returns:
            How many files were deleted.
        """
        deleted = 0
        for path in self.folder.glob("??/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest - GRACE_S:
                    path.unlink()
                    deleted += 1
        return deleted
