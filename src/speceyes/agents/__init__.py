"""Agents: models that look, call visual tools and answer. The exchange is a generator."""

from speceyes.agents.budget import Budget
from speceyes.agents.dialects import DIALECTS, Dialect, Prompts, make_dialect
from speceyes.agents.loop import Generate, RunTool, Steps, agent_loop, agent_request, default_budget

__all__ = [
    "DIALECTS",
    "Budget",
    "Dialect",
    "Generate",
    "Prompts",
    "RunTool",
    "Steps",
    "agent_loop",
    "agent_request",
    "default_budget",
    "make_dialect",
]
