"""An audit's state as JSON text and back, to the last digit. Who keeps the text, and where, is not decided here."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from speceyes.errors import ConfigError
from speceyes.gating.audit.state import AuditState

FORMAT: Final = 1
"""Version of the layout."""


def dump(state: AuditState) -> str:
    """Strict JSON in ASCII. `load` gives an equal state."""
    return json.dumps({"format": FORMAT, **asdict(state)}, allow_nan=False)


def load(text: str, name: str = "The audit's state") -> AuditState:
    """What `dump` wrote.

    Args:
        text: The JSON.
        name: What messages call it.

    Raises:
        ConfigError: It is no audit's state, of another format, or was damaged.
    """
    try:
        content = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name} is not strict JSON: {error}. Restore it, or begin a new audit.") from error
    if not isinstance(content, dict) or "plan" not in content:
        raise ConfigError(f"{name} holds no audit's state.")
    if (found := content.pop("format", None)) != FORMAT:
        raise ConfigError(
            f"{name} has the format {found!r}; this version reads {FORMAT}. Use the version that wrote it."
        )
    try:
        state = _adapter().validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:3])
        raise ConfigError(f"{name} is damaged: {problems}. Restore it, or begin a new audit.") from error
    if unknown := _unknown(content, asdict(state)):
        raise ConfigError(f"{name} is damaged: {unknown} is no field. Restore it, or begin a new audit.")
    return state


@cache
def _adapter() -> TypeAdapter[AuditState]:
    return TypeAdapter(AuditState)


def _unknown(given: dict[str, Any], read: dict[str, Any]) -> str | None:
    """The first field that was given and not read."""
    for name, value in given.items():
        if name not in read:
            return name
        if isinstance(value, dict) and isinstance(read[name], dict) and (inner := _unknown(value, read[name])):
            return f"{name}.{inner}"
    return None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
