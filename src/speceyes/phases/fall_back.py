"""Phase IV: the agent answers in its tool loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from speceyes.agents.budget import Budget
from speceyes.agents.dialects.base import Dialect
from speceyes.agents.loop import Generate, RunTool, Step, Watch, agent_loop, unwatched
from speceyes.engines.client import Engine
from speceyes.errors import EngineError
from speceyes.imaging.view import View
from speceyes.tools.base import ToolResult
from speceyes.types import AgentRun, Completion, Query


@dataclass(frozen=True, slots=True)
class AgentModel:
    """The agent, how it speaks, and what a run may spend.

    Attributes:
        engine: Its server.
        dialect: Its way to call tools; it also names the sizes of picture that the model takes.
        budget: Limits of one run. None: the dialect's own.
        fingerprint: What a calibration is bound to; by default the engine's model name.
    """

    engine: Engine
    dialect: Dialect
    budget: Budget | None = None
    fingerprint: str = ""

    @property
    def identity(self) -> str:
        return self.fingerprint or self.engine.model


async def fall_back(query: Query, views: Sequence[View], agent: AgentModel, *, watch: Watch = unwatched) -> AgentRun:
    """Drive one agent run: the loop says what it wants, this does it. `watch` is told of each turn.

    Raises:
        EngineError: The agent's server failed in a turn that the run cannot do without.
    """
    steps = agent_loop(query, agent.dialect, agent.budget, views=views, watch=watch)
    try:
        step = next(steps)
        while True:
            try:
                reply = await _perform(step, agent)
            except EngineError as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as finished:
        run: AgentRun = finished.value
        return run


async def _perform(step: Step, agent: AgentModel) -> Completion | ToolResult:
    match step:
        case Generate(request=request):
            return await agent.engine.complete(request)
        case RunTool(call=call, context=context):
            return await agent.dialect.toolbox[call.name].run(call.arguments, context)
