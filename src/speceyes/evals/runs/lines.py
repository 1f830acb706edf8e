"""A file of lines that is only appended to, so that a crash costs at most the line that was being written."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from speceyes.errors import ConfigError
from speceyes.evals.runs.format import to_line
from speceyes.evals.runs.loading import whole


class Lines:
    """Append records to a file, each with one write that has reached the system when `append` returns.

    What a crash left of a last line is cut off on opening. Threads may share it.

    Args:
        path: The file. It is made if it is not there.

    Raises:
        ConfigError: It cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._alone = path, threading.Lock()
        try:
            self._file = path.open("a+b", buffering=0)
            self._file.seek(0)
            self._file.truncate(whole(self._file.readall()))
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror or error}.") from error

    def append(self, record: object) -> None:
        """Append a record. Where that fails, the file is as it was.

        Raises:
            ConfigError: It cannot be written.
        """
        data = to_line(record)
        with self._alone:
            size = os.fstat(self._file.fileno()).st_size
            try:
                written = 0
                while written < len(data):
                    written += self._file.write(data[written:])
            except OSError as error:
                self._file.truncate(size)
                raise ConfigError(f"{self._path} cannot be written: {error.strerror or error}.") from error

    def sync(self) -> None:
        """Wait until all of it is on the disk: a crash of the machine costs nothing either."""
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
