"""SpecReason: speculation on single steps of reasoning, where SpecEyes speculates on the whole run.

The small model proposes the next step. The large one reads it and gives it a mark from 0 to 9, in one token. A step
with a mark of at least 7 is kept; in the place of a worse one the large model writes its own, and may call its tools.
After at most six steps the answer is due.

The step that holds an answer ends the run: the draft's in <answer> tags, the agent's in its dialect's form. Both models
see all kept steps and every picture that a tool has shown, each in sizes that it takes. A mark that cannot be read is
none, and a draft model whose server fails proposes nothing: then the agent writes the step.

Source: Pan et al., "SpecReason: Fast and Accurate Inference-Time Compute via Speculative Reasoning", 2025, as the
SpecEyes paper runs it on agentic models. The words said to the models are ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from speceyes.agents.dialects.base import Call, Malformed, Message
from speceyes.agents.dialects.base import Final as Answered
from speceyes.agents.loop import agent_request, default_budget
from speceyes.errors import EngineError
from speceyes.evals.baselines.models import Models
from speceyes.evals.baselines.reasoning import Conversation, answer_in, read_rating
from speceyes.evals.systems import Question, Reply, Role, StepNote, SystemName
from speceyes.tools.base import Tool, ToolResult, tools_of_one_run
from speceyes.tools.budget import run_tool
from speceyes.types import (
    AgentRun,
    Answer,
    ChatRequest,
    Completion,
    Crop,
    Finish,
    Query,
    Reason,
    Trace,
    Turn,
    Usage,
)

STEPS: Final = 6
"""Steps after which the answer is due."""
KEPT_FROM: Final = 7
"""The least mark with which a proposed step is kept."""
STEP_TOKENS: Final = 96
"""Longest step that the draft may propose."""


class SpecReason:
    """Step-level speculation over the same pair of models. The calibration has no part in it."""

    name = SystemName.SPECREASON

    def __init__(self, models: Models) -> None:
        self._models = models

    async def answer(self, query: Query, question: Question) -> Reply:
        """Answer a query.

        Raises:
            EngineError: The agent's server failed.
        """
        async with tools_of_one_run(self._models.agent.dialect.toolbox) as toolbox:
            return await self._reason(_Run(query, self._models, toolbox), query)

    async def _reason(self, run: _Run, query: Query) -> Reply:
        talk = await Conversation.begin(query, self._models)
        for _ in range(STEPS):
            proposal = await run.propose(talk)
            if proposal and await run.approves(talk, proposal):
                talk.keep(proposal.text)
                if (text := answer_in(proposal.text)) is not None:
                    return run.reply(Answered(text), Finish.ANSWERED, Role.DRAFT)
            elif final := await run.write(talk):
                return run.reply(final, Finish.ANSWERED if final.tagged else Finish.UNTAGGED, Role.AGENT)
        return run.reply(await run.close(talk), Finish.TURN_LIMIT, Role.AGENT)


class _Run:
    """What one run has written and spent."""

    def __init__(self, query: Query, models: Models, toolbox: Mapping[str, Tool]) -> None:
        self._toolbox = toolbox
        self._query, self._draft, self._agent = query, models.draft, models.agent
        self._budget = models.agent.budget or default_budget(models.agent.dialect)
        self._began = time.monotonic()
        self._seconds: dict[str, float] = {}
        self._usage: dict[Role, Usage] = {}
        self._turns: list[Turn] = []
        self._steps: list[StepNote] = []
        self._seen: set[str] = set()
        self._notes: list[str] = []

    async def propose(self, talk: Conversation) -> Completion | None:
        """The draft's next step; None where it has none to offer."""
        request = ChatRequest(
            tuple(talk.for_draft), STEP_TOKENS, 0.0, stop=("\n\n", "</answer>"), seed=self._query.sampling.seed
        )
        with self._timed("speculate"):
            try:
                completion = await self._draft.engine.complete(request)
            except EngineError as error:
                if error.misconfigured:
                    raise
                self._notes.append(f"{type(error).__name__}: {error}")
                return None
        self._spend(Role.DRAFT, completion)
        if not completion.text.strip():
            self._book(completion, completion.text, StepNote(Role.DRAFT, kept=False))
            return None
        return completion

    async def approves(self, talk: Conversation, proposal: Completion) -> bool:
        """Whether the agent's mark keeps a step."""
        with self._timed("gate"):
            completion = await self._ask_agent(talk.rating(proposal.text), 1, stop=())
        rating = read_rating(completion)
        kept = rating is not None and rating >= KEPT_FROM
        self._book(proposal, proposal.text, StepNote(Role.DRAFT, rating, kept))
        return kept

    async def write(self, talk: Conversation) -> Answered | None:
        """The agent's own step; its answer, where the step is one."""
        with self._timed("fall_back"):
            completion = await self._ask_agent(talk.for_agent, self._budget.max_tokens_per_turn)
            action = talk.dialect.parse(completion)
            written = talk.dialect.written(completion)
            if isinstance(action, Answered):
                self._book(completion, written)
                return action
            if isinstance(action, Malformed):
                await talk.observe(completion, ToolResult(error=action.message))
                self._book(completion, written, error=action.message)
            elif action.identity in self._seen:
                await talk.notice(completion, talk.dialect.prompts.repeated)
                self._book(completion, written, error="The same call as before; it was not run again.")
            else:
                result = await self._use_tool(talk, action)
                await talk.observe(completion, result)
                self._book(completion, written, tool=action.name, error=result.error, crops=_crops(result, action))
        return None

    async def close(self, talk: Conversation) -> Answered:
        """The steps are used up: the agent's answer from what is there."""
        prompt: Message = {"role": "user", "content": talk.dialect.prompts.closing}
        with self._timed("fall_back"):
            completion = await self._ask_agent([*talk.for_agent, prompt], self._budget.closing_tokens)
        self._book(completion, talk.dialect.written(completion))
        return talk.dialect.closing_answer(completion)

    def reply(self, final: Answered, finish: Finish, by: Role) -> Reply:
        """All of it, closed."""
        seconds = time.monotonic() - self._began
        total = sum(self._usage.values(), Usage())
        models = {Role.DRAFT: self._draft.engine.model, Role.AGENT: self._agent.engine.model}
        usage: dict[str, Usage] = {}
        for role, used in self._usage.items():
            usage[models[role]] = usage.get(models[role], Usage()) + used
        trace = Trace(
            Reason.ACCEPTED if by is Role.DRAFT else Reason.BELOW_THRESHOLD,
            run=AgentRun(final.text, tuple(self._turns), finish, total, seconds, final.whole),
            seconds=seconds,
            phase_seconds=self._seconds,
            usage=usage,
            notes=tuple(self._notes),
        )
        answer = Answer(final.text, trace, self._query.id, "stop" if final.whole and final.text else "length")
        return Reply.of(answer, usage=self._usage, steps=tuple(self._steps))

    async def _use_tool(self, talk: Conversation, call: Call) -> ToolResult:
        tool = self._toolbox[call.name]
        result = await run_tool(tool, call.arguments, talk.context(), self._agent.tool_budget)
        if result.error is not None:
            return replace(result, error=f"{call.note} {result.error}".strip())
        self._seen.add(call.identity)
        return replace(result, text=f"{call.note} {result.text}".strip())

    async def _ask_agent(self, messages: Sequence[Message], max_tokens: int, **fields: Any) -> Completion:
        chosen = self._query.sampling
        form = {"temperature": chosen.temperature, "seed": chosen.seed, **fields}
        completion = await self._agent.engine.complete(agent_request(self._agent.dialect, messages, max_tokens, **form))
        self._spend(Role.AGENT, completion)
        return completion

    def _spend(self, role: Role, completion: Completion) -> None:
        self._usage[role] = self._usage.get(role, Usage()) + completion.usage

    def _book(self, completion: Completion, text: str, step: StepNote | None = None, **came_back: Any) -> None:
        turn = Turn(len(self._turns), text, usage=completion.usage, seconds=completion.seconds, **came_back)
        self._turns.append(turn)
        self._steps.append(step or StepNote(Role.AGENT))

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + time.monotonic() - began


def _crops(result: ToolResult, call: Call) -> tuple[Crop, ...]:
    label = str(call.arguments.get("label") or "")
    shown = [view for view in result.views if view.made is None]  # what a tool made shows no part of an image
    return tuple(Crop(view.image_index, view.region.as_tuple(), view.size, label) for view in shown)
