"""An audit's state on the disk: one file, one process that writes it, and a secret beside it.

audit.json        the state, as `speceyes audit show` reads it; replaced in one step
audit.json.lock   held as long as the process runs; it goes with it, also when that is killed
audit.json.key    the secret by which queries are drawn, made at the first start
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from speceyes.errors import ConfigError
from speceyes.gating.audit import AuditState, dump, load

try:
    import fcntl
except ImportError:  # not made for Windows: there nobody guards the file
    fcntl = None  # type: ignore[assignment]

_PRIVATE = 0o600


def read_state(path: Path) -> AuditState | None:
    """The state in a file; None where there is no file.

    Raises:
        ConfigError: It cannot be read, or is damaged.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the audit's state {path} (trust.audit_state): {_said(error)}") from error
    return load(text, f"the audit's state {path} (trust.audit_state)")


class StateFile:
    """The file of an audit that is under way here. Made, it is locked; `close` gives it free.

    Args:
        path: Where.

    Raises:
        ConfigError: Another process keeps its audit there, or nothing can be written there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(_beside(path, ".lock"), os.O_RDWR | os.O_CREAT, _PRIVATE)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            if fcntl is not None:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise ConfigError(
                f"another process keeps its audit in {path}. Each gateway needs a file of its own: trust.audit_state"
            ) from error

    def write(self, current: Callable[[], AuditState]) -> None:
        """Replace the content, from any thread. The state is asked for when it is written: the last one wins.

        Raises:
            OSError: It cannot be written; then the old content is still there.
        """
        partial = _beside(self.path, ".part")
        with self._writing:
            with open(partial, "w", encoding="ascii", opener=_private) as file:
                file.write(dump(current()) + "\n")
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)

    def check(self, state: AuditState) -> None:
        """Write for the first time.

        Raises:
            ConfigError: That is not possible.
        """
        try:
            self.write(lambda: state)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def secret(self) -> str:
        """The secret; made where there is none.

        Raises:
            ConfigError: It can be neither read nor made.
        """
        path = _beside(self.path, ".key")
        try:
            if not path.exists() or not path.read_text().strip():
                with open(path, "w", encoding="ascii", opener=_private) as file:
                    file.write(secrets.token_hex(32) + "\n")
            return path.read_text().strip()
        except (OSError, ValueError) as error:
            raise _unwritable(path, error) from error

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._lock)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _unwritable(path: Path, error: Exception) -> ConfigError:
    return ConfigError(f"cannot keep an audit in {path}: {_said(error)}. Name another place with trust.audit_state")


def _said(error: Exception) -> Any:
    return getattr(error, "strerror", None) or error
