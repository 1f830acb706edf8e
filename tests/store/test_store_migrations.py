"""From an older layout to today's, once, whoever comes first."""

import pytest
from request_records import Database, record
from sqlalchemy import Connection, text

from speceyes.errors import ConfigError
from speceyes.store.database import WRITES, connect
from speceyes.store.migrations import FIRST, STEPS, migrate


def add_column(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE requests ADD COLUMN weather TEXT"))


def fail(connection: Connection) -> None:
    add_column(connection)
    raise RuntimeError("half-way")


def test_the_steps_lead_from_the_first_layout_without_a_gap() -> None:
    assert sorted(STEPS) == list(range(FIRST + 1, FIRST + 1 + len(STEPS)))


async def run(database: Database, **options: object) -> int:
    engine = connect(database.url)
    try:
        async with engine.connect() as connection:
            await connection.execution_options(**WRITES)
            async with connection.begin():
                return await connection.run_sync(migrate, **options)
    finally:
        await engine.dispose()


async def test_each_step_runs_once_and_keeps_the_records(database: Database) -> None:
    async with await database.open() as store:
        await store.add(record(1))
    later = FIRST + len(STEPS) + 1
    assert await run(database, steps={**STEPS, later: add_column}) == later - 1
    assert await run(database, steps={**STEPS, later: add_column}) == later
    engine = connect(database.url)
    async with engine.connect() as connection:
        rows = (await connection.execute(text("SELECT id, weather FROM requests"))).all()
    await engine.dispose()
    assert rows == [("r00001", None)]


async def test_a_step_that_fails_changes_nothing(database: Database) -> None:
    async with await database.open():
        pass
    later = FIRST + len(STEPS) + 1
    with pytest.raises(RuntimeError, match="half-way"):
        await run(database, steps={**STEPS, later: fail})
    assert await run(database, steps={**STEPS, later: add_column}) == later - 1


async def test_a_later_layout_is_refused(database: Database) -> None:
    async with await database.open():
        pass
    await run(database, steps={**STEPS, FIRST + len(STEPS) + 1: add_column})
    with pytest.raises(ConfigError, match="a later version made it"):
        await database.open()
