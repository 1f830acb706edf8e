"""How each family of agentic models speaks: one file a family, found by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from speceyes.agents.dialects.base import (
    Action,
    Call,
    Dialect,
    Final,
    Malformed,
    Message,
    Occasion,
    Prompts,
    opening_messages,
)
from speceyes.agents.dialects.deepeyes import DeepEyes, DeepEyesNative
from speceyes.agents.dialects.deepeyesv2 import DeepEyesV2
from speceyes.agents.dialects.minio3 import MiniO3
from speceyes.agents.dialects.native import Native
from speceyes.agents.dialects.pixelreasoner import PixelReasoner
from speceyes.agents.dialects.qwen3vl import Qwen3VL, Qwen3VLNative
from speceyes.agents.dialects.thyme import Thyme
from speceyes.errors import ConfigError

__all__ = [
    "DIALECTS",
    "Action",
    "Call",
    "DeepEyes",
    "DeepEyesNative",
    "DeepEyesV2",
    "Dialect",
    "Final",
    "Malformed",
    "Message",
    "MiniO3",
    "Native",
    "Occasion",
    "PixelReasoner",
    "Prompts",
    "Qwen3VL",
    "Qwen3VLNative",
    "Thyme",
    "is_coding",
    "is_native",
    "make_dialect",
    "opening_messages",
]

DIALECTS: dict[str, Callable[..., Dialect]] = {
    family.name: family
    for family in (DeepEyes, DeepEyesNative, DeepEyesV2, Thyme, Qwen3VL, Qwen3VLNative, MiniO3, PixelReasoner, Native)
}
"""Dialects by name. Add your own under a new name."""


def is_coding(name: str) -> bool:
    """Whether the models of this dialect write code, so that it needs a sandbox. False where there is none such."""
    return bool(getattr(DIALECTS.get(name), "needs_sandbox", False))


def is_native(name: str) -> bool:
    """Whether this dialect's calls come as the API's `tool_calls`, so that the server has to parse them."""
    return bool(getattr(DIALECTS.get(name), "native_calls", False))


def make_dialect(name: str, **options: Any) -> Dialect:
    """The dialect `name`, with the options that its class takes.

    Raises:
        ConfigError: There is no such dialect, or it does not take these options.
    """
    if name not in DIALECTS:
        raise ConfigError(f"There is no dialect {name!r}. Known: {', '.join(sorted(DIALECTS))}.")
    try:
        return DIALECTS[name](**options)
    except TypeError as error:
        raise ConfigError(f"Dialect {name!r}: {error}") from error
