"""Checking a call against the tools that there are: what is wrong becomes a line for the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from speceyes.agents.dialects.base import Call, Malformed
from speceyes.agents.dialects.literals import read_nested
from speceyes.agents.dialects.tags import WrittenCall
from speceyes.errors import ConfigError

Schema = Mapping[str, Any]


def check_call(
    written: WrittenCall,
    tools: Sequence[Schema],
    aliases: Mapping[str, str],
    form: str = "",
    forgiven: Collection[str] = (),
) -> Call | Malformed:
    """The call, ready to run, or what the model must be told.

    Args:
        written: As it stands in the turn.
        tools: The schemas of the tools that there are. Fields that none of them knows are passed on; a tool ignores
            what it does not use.
        aliases: Field names that are accepted besides the schema's own, and what they stand for.
        form: How a right call is written, in a sentence. Empty: as JSON, with the names and fields of `tools`.
        forgiven: Fields that may be missing although a schema requires them.
    """
    form = form or " ".join(_signature(tool["function"]) for tool in tools)
    if written.value is None:
        return Malformed(f"{written.problem} {form}")
    known = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    name = written.value.get("name")
    if not isinstance(name, str):
        return Malformed(f"The call has no name. {form}")
    if name not in known:
        return Malformed(f"There is no tool {name[:40]!r}. {form}")
    arguments, repairs = read_nested(written.value.get("arguments", {}))
    if not isinstance(arguments, dict):
        return Malformed(f"The arguments of {name} must be an object. {form}")
    given = {aliases.get(field, field): value for field, value in arguments.items()}
    required = [field for field in known[name].get("required", ()) if field not in forgiven]
    missing = [field for field in required if given.get(field) is None]
    if missing:
        return Malformed(f"{name} needs {', '.join(missing)}. {form}")
    return Call(name, given, repairs=(*written.repairs, *repairs))


def check_schemas(tools: Sequence[Schema], aliases: Mapping[str, str]) -> None:
    """Refuse a toolbox that no call could satisfy.

    Raises:
        ConfigError: A required field is not described, or an alias stands for a field that no tool has.
    """
    fields: set[str] = set()
    for tool in tools:
        function = tool["function"]
        described = set(function["parameters"].get("properties", ()))
        undescribed = set(function["parameters"].get("required", ())) - described
        if undescribed:
            raise ConfigError(f"Tool {function['name']} requires {', '.join(sorted(undescribed))}: not in its schema.")
        fields |= described
    stray = sorted(alias for alias, field in aliases.items() if field not in fields)
    if stray:
        raise ConfigError(f"Aliases {', '.join(stray)} stand for fields that no tool has.")


def _signature(function: Mapping[str, Any]) -> str:
    """The valid name and fields in one sentence."""
    required = function["parameters"].get("required", ())
    fields = [
        field if field in required else f"{field} (optional)" for field in function["parameters"].get("properties", ())
    ]
    return f"Write JSON with name {function['name']} and arguments {', '.join(fields)}."
