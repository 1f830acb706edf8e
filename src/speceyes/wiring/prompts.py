"""A user's own wording of a dialect's prompts, from a file, and a file to begin with."""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
from pathlib import Path
from typing import Any

from speceyes.agents.dialects.base import Prompts
from speceyes.errors import ConfigError


def read_prompts(path: Path, base: Prompts) -> Prompts:
    """The prompts with those replaced that a file gives.

    Args:
        path: TOML, or JSON where the name ends in `.json`: an object with any of the fields of `Prompts`.
        base: What stands for the fields that the file leaves out.

    Raises:
        ConfigError: The file is missing or damaged, or holds something else.
    """
    content = _read(path)
    fields = [field.name for field in dataclasses.fields(Prompts)]
    for name, text in content.items():
        if name not in fields:
            near = difflib.get_close_matches(name, fields, 1)
            known = f"did you mean {near[0]}?" if near else f"the prompts are {', '.join(fields)}"
            raise ConfigError(f"{path}: there is no prompt {name!r}; {known}")
        if not isinstance(text, str):
            raise ConfigError(f"{path}: the prompt {name} is {text!r}; it should be a text")
    return dataclasses.replace(base, **content)


def prompts_as_toml(prompts: Prompts) -> str:
    """The prompts as a file that `read_prompts` takes back."""
    return "".join(f"{name} = {_toml(text)}\n" for name, text in dataclasses.asdict(prompts).items())


def _toml(text: str) -> str:
    """A TOML string, over several lines where the text has several."""
    if "\n" not in text:
        return f'"{_escaped(text)}"'
    lines = "\n".join(map(_escaped, text.split("\n")))
    return f'"""\n{lines}"""'


def _escaped(line: str) -> str:
    quoted = line.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in quoted)


def _read(path: Path) -> dict[str, Any]:
    is_json = path.suffix.lower() == ".json"
    try:
        text = path.read_bytes().decode("utf-8-sig")
        content = json.loads(text) if is_json else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot read the prompts {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not {'JSON' if is_json else 'TOML'}: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds no object of prompts")
    return content
