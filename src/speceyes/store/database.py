"""Connections: SQLite in a file without any set-up, PostgreSQL by URL."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from speceyes.errors import ConfigError

DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
BUSY_S = 5.0
"""Seconds that SQLite waits for another process's lock, and PostgreSQL's client for a connection."""
WRITES = {"speceyes_writes": True}
"""Execution options of a connection that is going to write: SQLite then takes its lock at once, not half-way."""


def state_folder() -> Path:
    """Where a user's programs keep what has to outlive them, by the XDG base directory specification."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "speceyes"


def default_url() -> str:
    """A SQLite file in the user's state folder."""
    return f"sqlite:///{state_folder() / 'requests.db'}"


def parse_url(url: str) -> URL:
    """A store's URL with the driver that we use.

    Raises:
        ConfigError: It is no URL, or of another kind of database. The message does not repeat it: it may hold a
            password.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigError(
            "the store's URL cannot be read; write it as sqlite:///FILE (an absolute path: four slashes) or "
            "postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from None
    driver = DRIVERS.get(parsed.get_backend_name())
    if driver is None:
        raise ConfigError(f"the store's URL begins with {parsed.drivername}://; it can be sqlite:// or postgresql://")
    return parsed.set(drivername=driver)


def connect(url: str) -> AsyncEngine:
    """An engine for a store; nothing is opened yet, but a SQLite file is made, for its owner's eyes only.

    Raises:
        ConfigError: The URL cannot be used, its driver is not installed, or the file cannot be made.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database and parsed.database != ":memory:":
            _make_file(Path(parsed.database))
        engine = create_async_engine(parsed, connect_args={"timeout": BUSY_S}, pool_size=2, max_overflow=2)
        event.listen(engine.sync_engine, "connect", _set_up_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return engine
    options: dict[str, Any] = {"pool_size": 2, "max_overflow": 2, "pool_pre_ping": True}
    try:
        return create_async_engine(parsed, connect_args={"connect_timeout": int(BUSY_S)}, **options)
    except ModuleNotFoundError:
        raise ConfigError("a store in PostgreSQL needs an extra: pip install 'speceyes[postgres]'") from None


def check_url(url: str | None) -> None:
    """Find out early whether a store could be opened; a server is not asked.

    Raises:
        ConfigError: As `connect`.
    """
    connect(url or default_url())


def what_failed(error: BaseException) -> str:
    """A database error in one line, without the statement and the values, which may be a user's words."""
    original = getattr(error, "orig", None) or error
    shown = original if isinstance(error, SQLAlchemyError | OSError) else error
    lines = str(shown).strip().splitlines() or [""]
    return f"{type(original).__name__}: {lines[0][:300]}".rstrip(": ")


def _make_file(path: Path) -> None:
    """A SQLite file, unless it is there. It appears in one step, so processes that start together do not collide."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(partial)) as connection:
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # deleted records give their space back
                connection.execute("PRAGMA journal_mode=WAL")  # readers and one writer side by side
            with suppress(FileExistsError):
                os.link(partial, path)
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"the store {path} cannot be made: {reason}") from error
    finally:
        with suppress(OSError):
            partial.unlink()
    if not path.is_file():
        raise ConfigError(f"the store {path} is not a file")


def _set_up_sqlite(connection: Any, record: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions at moments of its own choosing
    cursor = connection.cursor()
    # With a write-ahead log: a commit survives the process, and a power cut leaves the file whole.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("speceyes_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
