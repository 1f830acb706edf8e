"""What runs the code of an agent whose dialect writes it: the sandbox that the settings name."""

from __future__ import annotations

from speceyes.agents import Dialect
from speceyes.agents.dialects.forms import PYTHON
from speceyes.config.sandbox import SandboxSettings
from speceyes.errors import ConfigError
from speceyes.sandbox import choose_provider, limits_of
from speceyes.tools.base import Tool
from speceyes.tools.python import PythonTool


async def code_tools(dialect: Dialect, chosen: SandboxSettings) -> list[Tool]:
    """The tool that runs code, for a dialect that lacks one; none for the others.

    Raises:
        ConfigError: The dialect needs a sandbox, and the settings turn it off.
        SandboxUnavailable: The sandbox that they name does not work on this machine.
    """
    if not getattr(dialect, "needs_sandbox", False) or PYTHON in dialect.toolbox:
        return []
    provider = await choose_provider(chosen)
    if provider is None:
        raise ConfigError(
            f"the agent's dialect {dialect.name} writes Python code, so it needs a sandbox: set sandbox.provider to "
            "auto, bubblewrap or container (--set sandbox.provider=auto), or choose a dialect that zooms"
        )
    return [PythonTool(provider, limits_of(chosen), name=PYTHON)]
