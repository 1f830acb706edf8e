"""The tables, and how a record becomes a row and a row a record.

    requests          a row a request, in the order of writing
    setups            the models and prompts that requests were answered with: few, so they stand once each
    speceyes_schema   one row: the version of this layout

Times are seconds since 1970 in UTC: one number, the same in every database and every time zone.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    RowMapping,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB

from speceyes.store.record import ImageFacts, RequestRecord
from speceyes.store.tokens import pack, unpack
from speceyes.types import Usage

METADATA = MetaData()
_Json = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
_Row = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only where the type is INTEGER

SCHEMA = Table("speceyes_schema", METADATA, Column("version", Integer, primary_key=True, autoincrement=False))

SETUPS = Table("setups", METADATA, Column("digest", String(64), primary_key=True), Column("bound_to", _Json))

REQUESTS = Table(
    "requests",
    METADATA,
    Column("row", _Row, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("created", Float(53), nullable=False, index=True),
    Column("key", Text),
    Column("model", Text, nullable=False),
    Column("streamed", Boolean, nullable=False),
    Column("status", Integer, nullable=False),
    Column("error", Text),
    Column("trust", Text, nullable=False),
    Column("route", Text),
    Column("reason", Text),
    Column("verdict", Text),
    Column("score", Float(53)),
    Column("squashed", Float(53)),
    Column("threshold", Float(53)),
    Column("p_yes", Float(53)),
    Column("p_no", Float(53)),
    Column("draft_tokens", LargeBinary),
    Column("draft_fault", Text),
    Column("agrees", Boolean),
    Column("question", Text),
    Column("draft_text", Text),
    Column("agent_text", Text),
    Column("agent_depth", Integer),
    Column("agent_finish", Text),
    Column("usage", _Json),
    Column("phase_usage", _Json),
    Column("seconds", Float(53), nullable=False),
    Column("first_token_s", Float(53)),
    Column("phase_seconds", _Json),
    Column("images", _Json),
    Column("user", Text),
    Column("metadata", _Json),
    Column("audited", Boolean, nullable=False),
    Column("audit_seconds", Float(53)),
    Column("setup", String(64)),
    sqlite_autoincrement=True,
)

_AS_IT_IS = (
    *("key", "model", "streamed", "status", "error", "trust", "route", "reason", "verdict", "draft_fault", "agrees"),
    *("agent_depth", "agent_finish", "created", "seconds", "audited"),
)
_NUMBERS = ("score", "squashed", "threshold", "p_yes", "p_no", "first_token_s", "audit_seconds")
_WORDS = ("question", "draft_text", "agent_text")


def row_of(record: RequestRecord, *, content: bool) -> dict[str, Any]:
    """A record as a row of `REQUESTS`.

    Args:
        record: The record.
        content: Whether question and answers are kept.
    """
    row = {name: plain(getattr(record, name)) for name in _AS_IT_IS}
    row |= {name: finite(getattr(record, name)) for name in _NUMBERS}
    row |= {name: plain(getattr(record, name)) if content else None for name in _WORDS}
    return row | {
        "id": plain(record.id),
        "draft_tokens": pack(record.draft_tokens, texts=content),
        "usage": usage_json(record.usage),
        "phase_usage": usage_json(record.phase_usage),
        "phase_seconds": {name: round(value, 6) for name, value in record.phase_seconds.items()},
        "images": [asdict(image) for image in record.images],
        "user": plain(record.user),
        "metadata": plain(dict(record.metadata)),
        "setup": setup_digest(record.setup),
    }


def record_of(row: RowMapping, setup: Mapping[str, str]) -> RequestRecord:
    """A row of `REQUESTS`, and the setup that it names, as a record."""
    same = {name: row[name] for name in (*_AS_IT_IS, *_NUMBERS, *_WORDS)}
    return RequestRecord(
        id=row["id"],
        draft_tokens=unpack(row["draft_tokens"]),
        usage=usage_of(row["usage"]),
        phase_usage=usage_of(row["phase_usage"]),
        phase_seconds=row["phase_seconds"] or {},
        images=tuple(ImageFacts(**image) for image in row["images"] or ()),
        user=row["user"],
        metadata=row["metadata"] or {},
        setup=setup,
        **same,
    )


def setup_digest(setup: Mapping[str, str]) -> str | None:
    """What a setup is filed under; None for an empty one."""
    return hashlib.sha256(json.dumps(dict(setup), sort_keys=True).encode()).hexdigest() if setup else None


def usage_json(usage: Mapping[str, Usage]) -> dict[str, Any]:
    """Tokens by model as JSON."""
    return {plain(model): asdict(spent) for model, spent in usage.items()}


def usage_of(stored: Mapping[str, Any] | None) -> dict[str, Usage]:
    """The reverse of `usage_json`."""
    return {model: replace(Usage(), **spent) for model, spent in (stored or {}).items()}


def finite(value: float | None) -> float | None:
    """A number that every database holds; None for NaN and the infinities."""
    return value if value is not None and math.isfinite(value) else None


def plain(value: Any) -> Any:
    """Text that every database takes: PostgreSQL refuses NUL, and none takes half of a surrogate pair."""
    if isinstance(value, dict):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if not isinstance(value, str) or (value.isascii() and "\x00" not in value):
        return value
    return value.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
