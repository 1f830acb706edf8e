"""Starting llama.cpp inside this process, and finding out why it did not start.

`xllamacpp` is llama.cpp's own HTTP server as a Python extension. It is silent here: at verbosity 0 it writes
nothing to standard error, and at any other level it writes a line for every refused request. What it costs us
is the reason for a failed start, so `why_not` starts the same settings again, aloud, in a child process.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import xllamacpp

from speceyes.errors import EngineError

Settings = Mapping[str, Any]
"""Fields of `xllamacpp.CommonParams` by (dotted) name; values are JSON, enum members stand as their names."""

_ENUMS = {
    "flash_attn_type": xllamacpp.llama_flash_attn_type,
    "cache_type_k": xllamacpp.ggml_type,
    "cache_type_v": xllamacpp.ggml_type,
    "reasoning_format": xllamacpp.common_reasoning_format,
}
_DIAGNOSIS_S = 60.0
_NOT_THE_REASON = re.compile(
    r"exiting due to|^failed to load model$|fit params|consider disabling|for example:|memory usage of"
)


def start(settings: Settings) -> Any:
    """A running `xllamacpp.Server`. It stops when the last reference to it goes.

    Holds the interpreter's lock until the model is loaded, so every thread of this process waits.

    Raises:
        EngineError: llama.cpp could not start; the message gives its reason.
    """
    try:
        return xllamacpp.Server(parameters(settings))
    except RuntimeError as error:
        raise EngineError(f"llama.cpp could not start: {why_not(settings) or error}") from error


def parameters(settings: Settings) -> Any:
    """The settings as llama.cpp takes them."""
    params = xllamacpp.CommonParams()
    for name, value in settings.items():
        owner: Any = params
        *path, field = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        if field in _ENUMS:
            value = getattr(_ENUMS[field], value)
        elif field == "model_alias":
            value = set(value)  # JSON has no sets
        setattr(owner, field, value)
    return params


def why_not(settings: Settings) -> str:
    """What llama.cpp says when it cannot start with these settings, or "" if it starts or says nothing."""
    try:
        child = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps({**settings, "verbosity": 1}),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DIAGNOSIS_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return _reasons(child.stderr)


def _reasons(log: str) -> str:
    """The error lines of a log that say more than that there was an error, the first two of them."""
    found: list[str] = []
    for line in log.splitlines():
        entry = re.match(r"[\d.]+ E (?:\w+ +)?(\w+): (.+)", line)
        if entry is None:
            continue
        said = re.sub(r"^(\w+: )?(error: |error loading model: |init: )?", "", entry[2].strip())
        if not _NOT_THE_REASON.search(said) and said not in found:
            found.append(said)
    return "; ".join(found[:2])


if __name__ == "__main__":
    server = xllamacpp.Server(parameters(json.load(sys.stdin)))
    del server
