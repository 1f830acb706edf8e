"""From an empty or an older database to the layout that this version reads and writes.

A new database gets today's tables at once. An older one goes through `STEPS`, each of which makes version n out of
n - 1; whoever changes `schema.py` adds one. All of it is one transaction, and of several gateways that start together
one does it while the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sqlalchemy import Connection, inspect, select, text, update

from speceyes.errors import ConfigError
from speceyes.store.schema import METADATA, SCHEMA

FIRST = 1

STEPS: Mapping[int, Callable[[Connection], None]] = MappingProxyType({})
"""By the version that a step leads to: 2, 3, ... without a gap."""

_LOCK = 0x5370_6563  # any number that others are unlikely to use; PostgreSQL's advisory locks have no names


def migrate(connection: Connection, steps: Mapping[int, Callable[[Connection], None]] = STEPS) -> int:
    """Bring the layout up to date, within the caller's transaction.

    Args:
        connection: In a transaction. For SQLite it must hold the write lock already.
        steps: The steps beyond the first version.

    Returns:
        The version that the database had; 0 for an empty one.

    Raises:
        ConfigError: The database was made by a later version of SpecEyes.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    latest = max(steps, default=FIRST)
    if not inspect(connection).has_table(SCHEMA.name):
        METADATA.create_all(connection)
        connection.execute(SCHEMA.insert(), {"version": latest})
        return 0
    found: int = connection.execute(select(SCHEMA.c.version)).scalar_one()
    if found > latest:
        raise ConfigError(
            f"the store of request records has layout {found}, and this version of SpecEyes knows {latest} at most: "
            "a later version made it. Update SpecEyes, or name another store."
        )
    for version in range(found + 1, latest + 1):
        steps[version](connection)
    connection.execute(update(SCHEMA).values(version=latest))
    return found
