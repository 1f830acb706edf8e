"""One file's pixels, whole and at fractions of its size, each unpacked once."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

from PIL import Image


class Unpacked:
    """Pictures by the factor at which they are smaller than their file: 1 is the whole picture.

    Threads that ask at the same time for pictures of one file wait for each other, and for those of no other file.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # one size may be made from another
        self._at: dict[int, Image.Image] = {}

    def __getstate__(self) -> dict[int, Image.Image]:
        return self._at  # a lock stays in its process

    def __setstate__(self, at: dict[int, Image.Image]) -> None:
        self._lock, self._at = RLock(), at

    @property
    def factors(self) -> tuple[int, ...]:
        """Those that are in memory."""
        return tuple(sorted(self._at))

    def keep(self, factor: int, picture: Image.Image) -> None:
        """Take a picture that has been unpacked already."""
        self._at[factor] = picture

    def get(self, factor: int, unpack: Callable[[], Image.Image]) -> Image.Image:
        """The picture at a factor; where it is not there yet, `unpack` makes it."""
        with self._lock:
            found = self._at.get(factor)
            if found is None:
                found = self._at[factor] = unpack()
            return found
