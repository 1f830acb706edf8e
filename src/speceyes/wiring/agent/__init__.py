"""The agent alone, for programs: any dialect against any URL, without the funnel.

async with Agent("http://127.0.0.1:8002", dialect="deepeyes") as agent:
    answer = await agent.answer("What does the sign say?", "street.jpg")
"""

from speceyes.wiring.agent.agent import Agent
from speceyes.wiring.agent.answer import AgentAnswer, AgentEvent, ToolRan

__all__ = ["Agent", "AgentAnswer", "AgentEvent", "ToolRan"]
