"""API keys on disk: a file with one line of JSON for each, which holds a hash of the key and never the key.

A key is 256 random bits. The slow hashes that passwords need (scrypt, Argon2) slow down guessing, and here there is
nothing to guess: trying 2^256 keys is out of reach at any speed. They would only make every request dear, those with
wrong keys first. So the hash is one pass of BLAKE2b with a salt of its own for each key.

The file is replaced as a whole, with access for its owner only, so a reader sees the old one or the new one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from speceyes.errors import ConfigError

PREFIX = "sk-speceyes-"
_KEY = re.compile(rf"{PREFIX}([0-9a-f]{{12}})-[A-Za-z0-9_-]{{43}}")


class Scope(StrEnum):
    """What a key is good for. One scope does not include the other."""

    CHAT = "chat"
    """Ask questions: everything under `/v1`."""
    ADMIN = "admin"
    """Look at the server itself: metrics and administration."""


class KeyRecord(BaseModel):
    """What is known of one key.

    Attributes:
        name: Whose key it is, or what for.
        id: Is part of the key; finds the record.
        salt: 16 random bytes, in hexadecimal.
        digest: BLAKE2b-256 of the key under the salt, in hexadecimal.
        scopes: What it is good for.
        created: When it was made.
        expires: When it ends to be valid; None: never.
        revoked: When it was revoked; None: it was not.
        max_in_flight: Most of its requests at a time; None: the server's own limit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=r"^[\w.@+-]{1,64}$")]
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", repr=False)]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", repr=False)]
    scopes: Annotated[frozenset[Scope], Field(min_length=1)] = frozenset({Scope.CHAT})
    created: AwareDatetime
    expires: AwareDatetime | None = None
    revoked: AwareDatetime | None = None
    max_in_flight: Annotated[int, Field(ge=1)] | None = None

    def is_valid(self, now: datetime) -> bool:
        """Whether the key opens anything at a time."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    def state(self, now: datetime) -> str:
        """`valid`, `expired` or `revoked`."""
        return "revoked" if self.revoked else "valid" if self.is_valid(now) else "expired"


def key_id(key: str) -> str | None:
    """The id inside a key, or None where it has not the form of one of ours."""
    found = _KEY.fullmatch(key)
    return found[1] if found else None


def digest(key: str, salt: str) -> str:
    """The hash that is kept of a key."""
    return hashlib.blake2b(key.encode(), digest_size=32, salt=bytes.fromhex(salt), person=b"speceyes key").hexdigest()


def read_keys(path: Path) -> tuple[KeyRecord, ...]:
    """All keys of a file, revoked ones too.

    Raises:
        ConfigError: It cannot be read, a line is not as it should be, or an id is there twice.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"cannot read the keys in {path}: {reason}") from error
    return parse_keys(lines, path)


def parse_keys(lines: Sequence[str], path: Path) -> tuple[KeyRecord, ...]:
    """As `read_keys`, from the file's lines."""
    records: dict[str, KeyRecord] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = KeyRecord.model_validate_json(line)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, problem["loc"])) or "the line"
            raise ConfigError(f"{path}, line {number} is no key: {where}: {problem['msg']}") from None
        if record.id in records:
            raise ConfigError(f"{path}, line {number}: the key {record.id} is there twice; delete one of the lines")
        records[record.id] = record
    return tuple(records.values())


def create_key(
    path: Path,
    name: str,
    scopes: frozenset[Scope] = frozenset({Scope.CHAT}),
    *,
    expires: datetime | None = None,
    max_in_flight: int | None = None,
) -> tuple[SecretStr, KeyRecord]:
    """Make a key and add it to a file, which is made where there is none.

    Returns:
        The key, which exists nowhere else, and what the file holds of it.

    Raises:
        ConfigError: The name is in use or cannot be one, or the file cannot be read or written.
    """
    identity, salt = secrets.token_hex(6), secrets.token_hex(16)
    key = f"{PREFIX}{identity}-{secrets.token_urlsafe(32)}"
    try:
        record = KeyRecord(
            name=name,
            id=identity,
            salt=salt,
            digest=digest(key, salt),
            scopes=scopes,
            created=_now(),
            expires=expires,
            max_in_flight=max_in_flight,
        )
    except ValidationError as error:
        fields = ", ".join(str(problem["loc"][0]) for problem in error.errors())
        allowed = "a name has up to 64 letters, digits and . _ - @ +, and no spaces"
        raise ConfigError(f"no key can be made with this {fields} ({allowed})") from None
    path = path.resolve()
    with _writing(path):
        before = read_keys(path) if path.exists() else ()
        if any(known.name == name and not known.revoked for known in before):
            raise ConfigError(f"{path} has a key named {name} already: revoke that first, or take another name")
        _replace(path, (*before, record))
    return SecretStr(key), record


def revoke_key(path: Path, name: str) -> KeyRecord:
    """Revoke a key. Its record stays, so that the file tells what there was.

    Raises:
        ConfigError: There is no such key, or the file cannot be read or written.
    """
    path = path.resolve()
    with _writing(path):
        before = read_keys(path)
        found = next((record for record in before if record.name == name and not record.revoked), None)
        if found is None:
            names = ", ".join(sorted(record.name for record in before if not record.revoked)) or "none"
            raise ConfigError(f"{path} has no key named {name} that could be revoked; there are: {names}")
        after = found.model_copy(update={"revoked": _now()})
        _replace(path, tuple(after if record is found else record for record in before))
    return after


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Alone among all processes that change files in this folder, so that no change is lost."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {path.parent}: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
        os.fsync(folder)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    finally:
        os.close(folder)


def _replace(path: Path, records: Sequence[KeyRecord]) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # with access for its owner only
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(record.model_dump_json(exclude_none=True) + "\n" for record in records)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            # The server may run as somebody else than the administrator.
            with suppress(PermissionError):
                os.chown(name, path.stat().st_uid, path.stat().st_gid)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
