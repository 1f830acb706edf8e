"""The dialect of an agent that a program asks for, with the program's own tools in its toolbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from speceyes.agents.dialects import Dialect, Prompts, make_dialect
from speceyes.errors import ConfigError
from speceyes.imaging.resize import PixelLimits
from speceyes.tools.addressing import speaking
from speceyes.tools.base import Tool
from speceyes.tools.functions import FunctionTool
from speceyes.wiring.prompts import read_prompts

Toolish = Tool | Callable[..., Any]
"""A tool, or a function to make one of."""


def dialect_with(
    dialect: str | Dialect,
    tools: Sequence[Toolish] = (),
    *,
    limits: PixelLimits | None = None,
    prompts: Prompts | str | Path | None = None,
    **options: Any,
) -> Dialect:
    """The dialect by its name, with further tools beside its own. One that has the name of another replaces it.

    Tools that leave their coordinates open speak those of the dialect.

    Raises:
        ConfigError: There is no such dialect, it lacks an option, two tools have one name, or a finished dialect came
            with options.
    """
    given = {"limits": limits, "prompts": prompts, **options}
    chosen = {name: value for name, value in given.items() if value is not None}
    if not isinstance(dialect, str):
        if tools or chosen:
            refused = ", ".join([*(["tools"] if tools else []), *chosen])
            raise ConfigError(f"the dialect is an object already, so it cannot take {refused}: give them to its class")
        return dialect
    if prompts is not None and not isinstance(prompts, Prompts):
        chosen["prompts"] = read_prompts(Path(prompts), make_dialect(dialect).prompts)
    plain = make_dialect(dialect, **chosen)
    if not tools:
        return plain
    own = [as_tool(tool) for tool in tools]
    names = [tool.name for tool in own]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two tools are called {', '.join(doubled)}: name one of them otherwise")
    beside = [tool for tool in plain.toolbox.values() if tool.name not in names]
    return make_dialect(dialect, **chosen, toolbox=[*beside, *speaking(own, plain.coordinates)])


def as_tool(tool: Toolish) -> Tool:
    """A tool as it is, a function as a tool.

    Raises:
        ConfigError: It is neither, or the function cannot be described to a model.
    """
    if all(hasattr(tool, part) for part in ("name", "schema", "run")):
        return tool  # type: ignore[return-value]
    if callable(tool):
        return FunctionTool.of(tool)
    raise ConfigError(f"{tool!r} is no tool: give a tool, or a function with type hints")
