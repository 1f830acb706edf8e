"""From a request's `Authorization` header to who asks, and whether they may.

A key is taken from that header only, never from the URL: URLs end in logs, histories and `Referer` headers.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import SecretStr

from speceyes.errors import ConfigError
from speceyes.gateway.access.keyfile import KeyRecord, Scope, digest, key_id, parse_keys
from speceyes.gateway.access.refusals import Forbidden, Unauthorized

_log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int] | None
_SALT = secrets.token_hex(16)
_NOBODY = digest(secrets.token_hex(32), _SALT)
"""What a key with an unknown id is compared with, so that it takes as long as one with a known id."""


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """Who asks.

    Attributes:
        name: The key's name, fit for logs and metrics.
        id: The key's id; not a secret.
        scopes: What the key is good for.
        max_in_flight: Most requests of this key at a time; None: the server's own limit.
    """

    name: str
    id: str
    scopes: frozenset[Scope]
    max_in_flight: int | None = None

    def require(self, scope: Scope) -> None:
        """Raises Forbidden where the key lacks a scope."""
        if scope not in self.scopes:
            raise Forbidden(scope)


ANYBODY = KeyInfo("anonymous", "", frozenset(Scope))
"""Who asks a server that has no keys. It listens on this machine only, unless it was told otherwise by a flag."""


class Keys:
    """The keys that are valid now.

    The file is read again when it has changed. A file that cannot be understood any more leaves the keys that were
    valid before, and `problem` says so; a file that is gone leaves none.

    Args:
        file: As `speceyes keys` writes it.
        single: One more key, with the scope `chat`, for places where a file is awkward.
        now: The time; for tests.

    Attributes:
        problem: What is wrong with the file, or None.

    Raises:
        ConfigError: The file cannot be read.
    """

    def __init__(
        self,
        file: Path | None = None,
        single: SecretStr | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.problem: str | None = None
        self._file = file
        self._single = digest(single.get_secret_value(), _SALT) if single else None
        self._now = now
        self._records: dict[str, KeyRecord] = {}
        self._stamp: _Stamp = None
        if file is not None:
            self._read(file)

    def __repr__(self) -> str:
        return f"Keys({str(self._file) if self._file else None!r}, {len(self._records)} in the file)"

    @property
    def required(self) -> bool:
        """Whether a request needs a key at all: there is a file, even an empty one, or a single key."""
        return self._file is not None or self._single is not None

    def check(self, header: str | None) -> KeyInfo | None:
        """Who asks, by the value of the `Authorization` header; None where that holds no valid key."""
        key = _bearer(header)
        if key is None:
            return None
        self._refresh()
        # All comparisons are made, and each takes the same time whatever the key is.
        is_single = hmac.compare_digest(digest(key, _SALT), self._single or _NOBODY)
        record = self._records.get(key_id(key) or "")
        salt, expected = (record.salt, record.digest) if record else (_SALT, _NOBODY)
        if hmac.compare_digest(digest(key, salt), expected) and record and record.is_valid(self._now()):
            return KeyInfo(record.name, record.id, record.scopes, record.max_in_flight)
        return KeyInfo("single", "single", frozenset({Scope.CHAT})) if is_single and self._single else None

    def authorize(self, header: str | None, scope: Scope | None) -> KeyInfo:
        """Let a request pass, or say why not.

        Args:
            header: The value of the `Authorization` header.
            scope: What the key must be good for; None: no key is needed.

        Returns:
            Who asks; `ANYBODY` where no key is needed.

        Raises:
            Unauthorized: There is no valid key.
            Forbidden: It lacks the scope.
        """
        if scope is None or not self.required:
            return ANYBODY
        if (info := self.check(header)) is None:
            raise Unauthorized
        info.require(scope)
        return info

    def _refresh(self) -> None:
        if self._file is None or _stamp(self._file) == self._stamp:
            return
        try:
            self._read(self._file)
        except ConfigError as error:
            self.problem = str(error)
            if not self._file.exists():
                self._records = {}
            _log.error("%s; %d keys stay as they were", error, len(self._records))

    def _read(self, file: Path) -> None:
        self._stamp = _stamp(file)  # before the content: what changes in between is read again
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the keys in {file}: {error}") from error
        self._records = {record.id: record for record in parse_keys(text.splitlines(), file)}
        self.problem = None


def _stamp(file: Path) -> _Stamp:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _bearer(header: str | None) -> str | None:
    """The token of `Bearer TOKEN`; the scheme's name in any case (RFC 9110, section 11.1)."""
    scheme, _, token = (header or "").strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token.isascii() and token else None


@dataclass(frozen=True, slots=True)
class Doors:
    """What key each path needs.

    Attributes:
        ready: For `/ready`; None: no key.
        metrics: For `/metrics`; None: no key.
    """

    ready: Scope | None = None
    metrics: Scope | None = Scope.ADMIN

    def scope_of(self, method: str, path: str) -> Scope | None:
        """The scope that a request needs; None: it needs no key.

        Without a key go: whether the process lives, the description of the interface, and `OPTIONS`, with which a
        browser asks before it sends the key.
        """
        parts = path.strip("/").lower().split("/")
        first = f"/{parts[0]}"
        if method == "OPTIONS" or first in ("/health", "/docs", "/openapi.json"):
            return None
        if parts[:2] in (["v1", "audit"], ["v1", "plan"]):
            return Scope.ADMIN
        named = {"/ready": self.ready, "/metrics": self.metrics, "/admin": Scope.ADMIN}
        return named.get(first, Scope.CHAT)
