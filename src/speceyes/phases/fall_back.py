"""Phase IV: the agent answers in its tool loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from speceyes.agents.budget import Budget
from speceyes.agents.dialects.base import Call, Dialect
from speceyes.agents.dialects.reader import Piece
from speceyes.agents.ending import Ending
from speceyes.agents.loop import Generate, RunTool, Step, Watch, agent_loop, unwatched
from speceyes.engines.client import Engine
from speceyes.errors import EngineError
from speceyes.imaging.view import View
from speceyes.tools.base import Tool, ToolResult, tools_of_one_run
from speceyes.tools.budget import TOOL_BUDGET, ToolBudget, run_tool
from speceyes.types import AgentRun, ChatRequest, Completion, Query, Sampling

Say = Callable[[Literal["thought", "answer"], str], None]


def unheard(kind: Literal["thought", "answer"], text: str) -> None:
    """The `say` of those who wait for the whole run."""


ToolWatch = Callable[[Call, ToolResult], None]


def unseen(call: Call, result: ToolResult) -> None:
    """The `show` of those to whom the turns' records suffice."""


@dataclass(frozen=True, slots=True)
class AgentModel:
    """The agent, how it speaks, and what a run may spend.

    Attributes:
        engine: Its server.
        dialect: Its way to call tools; it also names the sizes of picture that the model takes.
        budget: Limits of one run. None: the dialect's own.
        fingerprint: What a calibration is bound to; by default the engine's model name.
        tool_budget: Limits of one tool call, for tools that have none of their own.
    """

    engine: Engine
    dialect: Dialect
    budget: Budget | None = None
    fingerprint: str = ""
    tool_budget: ToolBudget = TOOL_BUDGET

    @property
    def identity(self) -> str:
        return self.fingerprint or self.engine.model


async def fall_back(
    query: Query,
    views: Sequence[View],
    agent: AgentModel,
    *,
    watch: Watch = unwatched,
    say: Say = unheard,
    show: ToolWatch = unseen,
) -> AgentRun:
    """Drive one agent run: the loop says what it wants, this does it.

    Args:
        query: The question; its sampling is that of the turns.
        views: The images as the model sees them.
        agent: The agent.
        watch: Is told of each turn when it is over.
        say: Is told what the agent thinks and answers while it writes. The answer's texts, joined, are the run's
            text, cut where `query.sampling` wants it; what has been said is never taken back.
        show: Is told of each tool's result as soon as it is there, pictures included.

    Raises:
        EngineError: The agent's server failed in a turn that the run cannot do without, or in the middle of an
            answer of which something has been said.
    """
    steps = agent_loop(query, agent.dialect, agent.budget, views=views, watch=watch, **_sampling(query, agent))
    speech = _Speech(query.sampling, say)
    async with tools_of_one_run(agent.dialect.toolbox) as toolbox:
        try:
            step = next(steps)
            while True:
                try:
                    reply = await _perform(step, agent, toolbox, speech, show)
                except EngineError as error:
                    if speech.answering:
                        raise
                    step = steps.throw(error)
                else:
                    step = steps.send(reply)
        except StopIteration as finished:
            run: AgentRun = finished.value
            speech.finish(run.text)
            return run


class _Speech:
    """What has been said of one run so far."""

    def __init__(self, sampling: Sampling, say: Say) -> None:
        self._say = say
        self._ending = Ending(sampling)
        self._answered = 0

    @property
    def answering(self) -> bool:
        return self._answered > 0

    def tell(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if piece.kind == "answer":
                self._answered += len(piece.text)
                self._tell(piece.kind, self._ending.feed(piece.text))
            else:
                self._tell(piece.kind, piece.text)

    def finish(self, answer: str) -> None:
        """Tell the rest of the run's answer: all of it, where it could not be known before."""
        self._tell("answer", self._ending.feed(answer[self._answered :]) + self._ending.close())

    def _tell(self, kind: Literal["thought", "answer"], text: str) -> None:
        if text:
            self._say(kind, text)


async def _perform(
    step: Step, agent: AgentModel, toolbox: Mapping[str, Tool], speech: _Speech, show: ToolWatch
) -> Completion | ToolResult:
    match step:
        case Generate(request=request):
            return await _generate(request, agent, speech)
        case RunTool(call=call, context=context):
            result = await run_tool(toolbox[call.name], call.arguments, context, agent.tool_budget)
            show(call, result)
            return result


async def _generate(request: ChatRequest, agent: AgentModel, speech: _Speech) -> Completion:
    reader = agent.dialect.reader()
    completion = await agent.engine.complete(request, on_delta=lambda delta: speech.tell(reader.feed(delta)))
    speech.tell(reader.close())
    return completion


def _sampling(query: Query, agent: AgentModel) -> Mapping[str, Any]:
    """What the caller asks of the turns. What the dialect needs of a request stands above it."""
    chosen = query.sampling
    extra = dict(chosen.extra) if chosen.top_p is None else {**chosen.extra, "top_p": chosen.top_p}
    fields = {name: value for name, value in extra.items() if name not in agent.dialect.extra}
    return {"temperature": chosen.temperature, "seed": chosen.seed, "extra": fields}
