"""SpecEyes: speculative execution for agentic vision-language models.

    import speceyes

    async with speceyes.open_funnel(speceyes.load_settings()) as funnel:
        query = speceyes.Query("What digit is on the red sign?", (speceyes.load_image("scene.png"),))
        answer = await funnel.answer(query)
        print(answer.text, answer.route, answer.reason)

Names are loaded when they are first used, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from speceyes.config import Settings as Settings
    from speceyes.config import load_settings as load_settings
    from speceyes.engines.client import ChatClient as ChatClient
    from speceyes.errors import SpecEyesError as SpecEyesError
    from speceyes.export import as_json as as_json
    from speceyes.funnel import Funnel as Funnel
    from speceyes.gating import Calibration as Calibration
    from speceyes.imaging import DecodedImage as DecodedImage
    from speceyes.imaging import DecodeLimits as DecodeLimits
    from speceyes.imaging import decode as decode_image  # noqa: F401
    from speceyes.imaging import load as load_image  # noqa: F401
    from speceyes.phases import AgentModel as AgentModel
    from speceyes.phases import DraftModel as DraftModel
    from speceyes.tools import FunctionTool as FunctionTool
    from speceyes.tools import ToolBudget as ToolBudget
    from speceyes.tools import tool as tool
    from speceyes.types import Answer as Answer
    from speceyes.types import Query as Query
    from speceyes.types import Reason as Reason
    from speceyes.types import Route as Route
    from speceyes.types import Trace as Trace
    from speceyes.wiring import open_agent as open_agent
    from speceyes.wiring import open_draft as open_draft
    from speceyes.wiring import open_funnel as open_funnel
    from speceyes.wiring.agent import Agent as Agent
    from speceyes.wiring.agent import AgentAnswer as AgentAnswer

    __version__: str

_HOMES = {
    "Agent": "speceyes.wiring.agent",
    "AgentAnswer": "speceyes.wiring.agent",
    "AgentModel": "speceyes.phases",
    "Answer": "speceyes.types",
    "Calibration": "speceyes.gating",
    "ChatClient": "speceyes.engines.client",
    "DecodeLimits": "speceyes.imaging",
    "DecodedImage": "speceyes.imaging",
    "DraftModel": "speceyes.phases",
    "FunctionTool": "speceyes.tools",
    "Funnel": "speceyes.funnel",
    "Query": "speceyes.types",
    "Reason": "speceyes.types",
    "Route": "speceyes.types",
    "Settings": "speceyes.config",
    "SpecEyesError": "speceyes.errors",
    "ToolBudget": "speceyes.tools",
    "Trace": "speceyes.types",
    "as_json": "speceyes.export",
    "decode_image": "speceyes.imaging:decode",
    "load_image": "speceyes.imaging:load",
    "load_settings": "speceyes.config",
    "open_agent": "speceyes.wiring",
    "open_draft": "speceyes.wiring",
    "open_funnel": "speceyes.wiring",
    "tool": "speceyes.tools",
}
"""Where each name lives, and what it is called there if that differs."""

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("speceyes")
    elif name in _HOMES:
        module, _, there = _HOMES[name].partition(":")
        value = getattr(import_module(module), there or name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
