"""JSON from a file, strictly: what is not JSON by the letter, or says something twice, is an error and no guess."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from speceyes.errors import ConfigError


def read_object(source: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file. ConfigError, calling it `what`, where the file is missing or holds anything else."""

    def no_constant(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    def finite(text: str) -> float:
        if not math.isfinite(value := float(text)):
            raise ValueError(f"{text} is too large for a number")
        return value

    def no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) != len(pairs):
            raise ValueError("a field stands there twice")
        return content

    try:
        text = source.read_text(encoding="utf-8")
        content = json.loads(text, parse_constant=no_constant, parse_float=finite, object_pairs_hook=no_doubles)
    except OSError as error:
        raise ConfigError(f"Cannot read the {what} {source}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The {what} {source} is not strict JSON: {error}. Restore the file.") from error
    if not isinstance(content, dict):
        raise ConfigError(f"The {what} {source} holds no JSON object. Restore the file.")
    return content
