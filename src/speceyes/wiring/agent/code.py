"""Where the code of a program's agent runs: as in the settings, but said in one word, or by a provider."""

from __future__ import annotations

from pydantic import ValidationError

from speceyes.agents.dialects import Dialect
from speceyes.agents.dialects.forms import PYTHON
from speceyes.config.sandbox import SandboxSettings
from speceyes.errors import ConfigError
from speceyes.sandbox import Provider
from speceyes.tools.base import Tool
from speceyes.tools.python import PythonTool
from speceyes.wiring.code import code_tools

Sandbox = str | SandboxSettings | Provider
"""`auto`, `bubblewrap`, `container` or `off`; all of the settings; or a provider."""


def sandbox_of(given: Sandbox) -> SandboxSettings | Provider:
    """The sandbox that a program names.

    Raises:
        ConfigError: There is none of that name.
    """
    if not isinstance(given, str):
        return given
    try:
        return SandboxSettings.model_validate({"provider": given})
    except ValidationError as error:
        raise ConfigError(f"there is no sandbox {given!r}: take auto, bubblewrap, container or off") from error


async def code_tools_in(sandbox: SandboxSettings | Provider, dialect: Dialect) -> list[Tool]:
    """The tool that runs code there, for a dialect that lacks one. Raises as `wiring.code.code_tools`."""
    if isinstance(sandbox, SandboxSettings):
        return await code_tools(dialect, sandbox)
    needed = getattr(dialect, "needs_sandbox", False) and PYTHON not in dialect.toolbox
    return [PythonTool(sandbox, name=PYTHON)] if needed else []
