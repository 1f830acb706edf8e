"""The store of request records: add, read, prune."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from speceyes.errors import ConfigError
from speceyes.store.database import WRITES, connect, default_url, what_failed
from speceyes.store.migrations import migrate
from speceyes.store.record import EVERYTHING, AuditOutcome, RequestRecord, Retention, Selection
from speceyes.store.schema import (
    REQUESTS,
    SETUPS,
    finite,
    plain,
    record_of,
    row_of,
    setup_digest,
    usage_json,
    usage_of,
)
from speceyes.types import Usage

PAGE = 200
"""Records that are read at a time."""
DELETED_AT_ONCE = 1000
"""Rows of one delete: nobody waits long for the lock."""
PAGES_AT_ONCE = 25_000
"""Of 4 KiB each, that a SQLite file gives back at most when records were deleted."""

Written = RequestRecord | AuditOutcome


class Store:
    """Request records in a database. One event loop at a time; several processes may share a database.

    Make it with `Store.open`.

    Attributes:
        content: Whether questions and answers are kept.
    """

    def __init__(self, engine: AsyncEngine, *, content: bool = False) -> None:
        self.content = content
        self._engine = engine
        self._known_setups: set[str] = set()
        self._insert = sqlite.insert if engine.dialect.name == "sqlite" else postgresql.insert

    @classmethod
    async def open(cls, url: str | None = None, *, content: bool = False) -> Self:
        """Open a store, and make its tables or bring them up to date.

        Args:
            url: `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`. None: a SQLite file in the user's state folder.
            content: Whether questions and answers are to be kept.

        Raises:
            ConfigError: It cannot be opened; the message says why.
        """
        engine = connect(url or default_url())
        try:
            async with _writing(engine) as connection:
                await connection.run_sync(_migrate)
        except ConfigError:
            await engine.dispose()
            raise
        except (SQLAlchemyError, OSError) as error:
            await engine.dispose()
            where = engine.url.render_as_string(hide_password=True)
            raise ConfigError(f"the store {where} cannot be opened: {what_failed(error)}") from error
        return cls(engine, content=content)

    async def add(self, *items: Written) -> None:
        """Write records and audits' outcomes in one transaction. What is there already stays as it is.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database did not take them; then none of them is written.
        """
        records = [item for item in items if isinstance(item, RequestRecord)]
        await self._add_setups(record.setup for record in records)
        async with _writing(self._engine) as connection:
            if records:
                rows = [row_of(record, content=self.content) for record in records]
                await connection.execute(self._insert(REQUESTS).on_conflict_do_nothing(), rows)
            for item in items:
                if isinstance(item, AuditOutcome):
                    await self._audit(connection, item)

    async def get(self, id: str) -> RequestRecord | None:
        """One request's record."""
        async for record in self._read(select(REQUESTS).where(REQUESTS.c.id == id)):
            return record
        return None

    async def beginning_with(self, prefix: str, limit: int = 2) -> list[RequestRecord]:
        """Requests whose id begins with this."""
        found = select(REQUESTS).where(REQUESTS.c.id.startswith(prefix, autoescape=True)).limit(limit)
        return [record async for record in self._read(found)]

    async def iterate(self, selection: Selection = EVERYTHING) -> AsyncIterator[RequestRecord]:
        """The selected records, oldest first, read in pages: there may be more than memory holds."""
        row = -1
        while True:
            page = select(REQUESTS).where(*_conditions(selection), REQUESTS.c.row > row).order_by(REQUESTS.c.row)
            count = 0
            async with self._engine.connect() as connection:
                rows = (await connection.execute(page.limit(PAGE))).mappings().all()
                setups = await _setups(connection, rows)
            for found in rows:
                row, count = found["row"], count + 1
                yield record_of(found, setups.get(found["setup"], {}))
            if count < PAGE:
                return

    async def newest(self, limit: int, selection: Selection = EVERYTHING) -> list[RequestRecord]:
        """The last of the selected records, newest first."""
        found = select(REQUESTS).where(*_conditions(selection)).order_by(REQUESTS.c.row.desc()).limit(limit)
        return [record async for record in self._read(found)]

    async def count(self, selection: Selection = EVERYTHING) -> int:
        """How many records are selected."""
        async with self._engine.connect() as connection:
            found = await connection.execute(select(func.count()).select_from(REQUESTS).where(*_conditions(selection)))
            return int(found.scalar_one())

    async def oldest(self) -> float | None:
        """When the oldest record's request came, in seconds since 1970; None in an empty store."""
        async with self._engine.connect() as connection:
            found = await connection.execute(select(func.min(REQUESTS.c.created)))
            return finite(found.scalar_one())

    async def prune(self, retention: Retention, now: float) -> int:
        """Delete what is too old or too much, a little at a time.

        Args:
            retention: What is to stay.
            now: Seconds since 1970.

        Returns:
            How many records were deleted.
        """
        deleted = 0
        if retention.max_age_s is not None:
            deleted += await self._delete(REQUESTS.c.created < now - retention.max_age_s)
        if retention.max_records is not None:
            first = select(REQUESTS.c.row).order_by(REQUESTS.c.row.desc()).offset(retention.max_records).limit(1)
            async with self._engine.connect() as connection:
                row = (await connection.execute(first)).scalar_one_or_none()
            if row is not None:
                deleted += await self._delete(REQUESTS.c.row <= row)
        if deleted and self._engine.dialect.name == "sqlite":
            await self._give_back_space()
        return deleted

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _add_setups(self, setups: Iterable[Mapping[str, str]]) -> None:
        """In a transaction of its own: what is noted as known must be there, whatever becomes of the records."""
        digests = {digest: dict(setup) for setup in setups if (digest := setup_digest(setup))}
        new = [{"digest": digest, "bound_to": digests[digest]} for digest in digests.keys() - self._known_setups]
        if new:
            async with _writing(self._engine) as connection:
                await connection.execute(self._insert(SETUPS).on_conflict_do_nothing(), new)
            self._known_setups |= digests.keys()

    async def _audit(self, connection: AsyncConnection, outcome: AuditOutcome) -> None:
        mine = REQUESTS.c.id == plain(outcome.id)
        stored = (await connection.execute(select(REQUESTS.c.usage).where(mine))).scalar_one_or_none()
        usage = usage_of(stored)
        for model, spent in outcome.usage.items():
            usage[model] = usage.get(model, Usage()) + spent
        values = {
            "audited": True,
            "agrees": outcome.agrees,
            "audit_seconds": finite(outcome.seconds),
            "agent_text": plain(outcome.agent_text) if self.content else None,
            "agent_depth": outcome.agent_depth,
            "agent_finish": outcome.agent_finish,
            "usage": usage_json(usage),
        }
        await connection.execute(update(REQUESTS).where(mine).values(values))

    async def _delete(self, condition: ColumnElement[bool]) -> int:
        some = select(REQUESTS.c.row).where(condition).order_by(REQUESTS.c.row).limit(DELETED_AT_ONCE)
        deleted, count = 0, DELETED_AT_ONCE
        while count == DELETED_AT_ONCE:
            async with _writing(self._engine) as connection:
                count = (await connection.execute(delete(REQUESTS).where(REQUESTS.c.row.in_(some)))).rowcount
            deleted += count
        return deleted

    async def _give_back_space(self) -> None:
        async with self._engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            # Only a script runs the pragma to its end; a single statement gives back one page.
            await driver.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")

    async def _read(self, statement: Select[Any]) -> AsyncIterator[RequestRecord]:
        async with self._engine.connect() as connection:
            rows = (await connection.execute(statement)).mappings().all()
            setups = await _setups(connection, rows)
        for row in rows:
            yield record_of(row, setups.get(row["setup"], {}))


@asynccontextmanager
async def _writing(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction that is going to write."""
    async with engine.connect() as connection:
        await connection.execution_options(**WRITES)
        async with connection.begin():
            yield connection


def _migrate(connection: Connection) -> None:
    migrate(connection)


async def _setups(connection: AsyncConnection, rows: Sequence[RowMapping]) -> dict[str, dict[str, str]]:
    digests = {row["setup"] for row in rows if row["setup"]}
    if not digests:
        return {}
    found = await connection.execute(select(SETUPS).where(SETUPS.c.digest.in_(digests)))
    return {row.digest: row.bound_to for row in found}


def _conditions(selection: Selection) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if selection.since is not None:
        conditions.append(REQUESTS.c.created >= selection.since)
    if selection.until is not None:
        conditions.append(REQUESTS.c.created < selection.until)
    named = {name: getattr(selection, name) for name in ("route", "reason", "status", "key", "trust", "audited")}
    return conditions + [REQUESTS.c[name] == value for name, value in named.items() if value is not None]
