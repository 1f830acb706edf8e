"""Phase IV's exchange: an agent that looks, calls tools and answers, as a generator that awaits nothing.

The generator yields what it wants done and is sent the result, so one loop serves every driver and is tested
without a server:

    steps = agent_loop(query, dialect)
    step = next(steps)
    try:
        while True:
            if isinstance(step, Generate):
                step = steps.send(await engine.complete(step.request))
            else:
                step = steps.send(await dialect.toolbox[step.call.name].run(step.call.arguments,
                step.context))
    except StopIteration as stop:
        run: AgentRun = stop.value
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from speceyes.agents.budget import CLOSING_TOKENS, Budget
from speceyes.agents.dialects.base import Call, Dialect, Final, Malformed, Message
from speceyes.errors import EngineError
from speceyes.imaging.resize import render
from speceyes.imaging.view import View
from speceyes.tools.base import ToolContext, ToolResult
from speceyes.types import AgentRun, ChatRequest, Completion, Crop, Finish, Query, Turn, Usage


@dataclass(frozen=True, slots=True)
class Generate:
    """Ask the agent's server for `request` and send the `Completion`.

    A failed request may be thrown in: in the closing turn the run then ends without an answer, in any other
    turn the error comes out of the generator.
    """

    request: ChatRequest
    closing: bool = False


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run `call` in `context` and send the `ToolResult`."""

    call: Call
    context: ToolContext


Step = Generate | RunTool
Reply = Completion | ToolResult
Steps = Generator[Step, Reply, AgentRun]


def agent_loop(
    query: Query,
    dialect: Dialect,
    budget: Budget | None = None,
    *,
    views: Sequence[View] | None = None,
    clock: Callable[[], float] = time.monotonic,
    temperature: float = 0.0,
    seed: int | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Steps:
    """One agent run.

    Args:
        query: The question and its images.
        dialect: How the agent speaks.
        budget: What it may spend. None: the dialect's turns and tokens a turn.
        views: The images as the model is to see them. Pass those of the screening request, so that the
            server's prefix cache serves this run. None: rendered here, which takes processor time.
        clock: Monotonic seconds.
        temperature: Of every turn.
        seed: Of every turn.
        extra: Further fields of each request body; they stand above the dialect's own.

    Returns:
        The run, as the generator's value.
    """
    if views is None:
        views = [render(image, None, dialect.limits, image_index=index) for index, image in enumerate(query.images)]
    run = _Run(query, dialect, budget or default_budget(dialect), clock, list(views))
    run.sampling = {"temperature": temperature, "seed": seed, "extra": {**dialect.extra, **(extra or {})}}
    while (limit := run.exhausted()) is None:
        completion = yield from _generate(run.request(run.turn_tokens()))
        action = dialect.parse(completion)
        if isinstance(action, Final):
            run.record(completion)
            return run.finished(action.text, Finish.ANSWERED if action.tagged else Finish.UNTAGGED)
        yield from _observe(run, completion, action)
    return (yield from _close(run, limit))


def default_budget(dialect: Dialect) -> Budget:
    """The dialect's own turns, each at its full length, and a closing turn."""
    tokens = dialect.max_tokens_per_turn
    closing = min(CLOSING_TOKENS, tokens)
    return Budget(dialect.max_turns, tokens, max_tokens=dialect.max_turns * tokens + closing, closing_tokens=closing)


def agent_request(dialect: Dialect, messages: Sequence[Message], max_tokens: int, **fields: Any) -> ChatRequest:
    """A request in the dialect's form. Screening uses it too, so that it shares the run's prefix to the
    letter.

    `fields` are those of `ChatRequest`; they stand above the dialect's own.
    """
    form: dict[str, Any] = {"stop": dialect.stop, "tools": dialect.tools, "extra": dialect.extra}
    return ChatRequest(tuple(messages), max_tokens, **{**form, **fields})


def _generate(request: ChatRequest, closing: bool = False) -> Generator[Step, Reply, Completion]:
    reply = yield Generate(request, closing)
    if not isinstance(reply, Completion):
        raise TypeError(f"Generate must be answered with a Completion, not with {type(reply).__name__}.")
    return reply


def _observe(run: _Run, completion: Completion, action: Call | Malformed) -> Generator[Step, Reply, None]:
    """Give the model what its turn asked for: a tool's result, or the reason why there is none."""
    if isinstance(action, Malformed):
        run.answer_turn(completion, ToolResult(error=action.message))
        return
    if action.identity in run.seen:
        run.refuse_repeat(completion)
        return
    began = run.clock()
    result = yield RunTool(action, ToolContext(run.query.images, list(run.views), run.dialect.limits))
    if not isinstance(result, ToolResult):
        raise TypeError(f"RunTool must be answered with a ToolResult, not with {type(result).__name__}.")
    run.answer_turn(completion, result, action, run.clock() - began)


def _close(run: _Run, limit: Finish) -> Generator[Step, Reply, AgentRun]:
    """Ask once for the answer. Tools stay in the request, for the prefix cache, but no call is run."""
    run.messages.append({"role": "user", "content": run.dialect.prompts.closing})
    try:
        completion = yield from _generate(run.request(run.budget.closing_tokens), closing=True)
    except EngineError as error:
        run.turns.append(Turn(len(run.turns), "", error=f"The closing request failed: {error}"))
        return run.finished("", limit)
    run.record(completion)
    return run.finished(run.dialect.closing_answer(completion).text, limit)


@dataclass(slots=True)
class _Run:
    """What a run has seen, said and spent so far."""

    query: Query
    dialect: Dialect
    budget: Budget
    clock: Callable[[], float]
    views: list[View]
    sampling: Mapping[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(init=False)
    began: float = field(init=False)
    turns: list[Turn] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    spent: int = 0
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.messages = list(self.dialect.opening_messages(self.query, self.views))

    def exhausted(self) -> Finish | None:
        seconds = self.clock() - self.began
        return self.budget.exhausted(turns=len(self.turns), spent=self.spent, seconds=seconds)

    def turn_tokens(self) -> int:
        return self.budget.turn_tokens(self.spent)

    def request(self, max_tokens: int) -> ChatRequest:
        return agent_request(self.dialect, self.messages, max_tokens, **self.sampling)

    def record(self, completion: Completion, **came_back: Any) -> None:
        """Book a turn: its tokens, and what came back."""
        self.usage += completion.usage
        self.spent += _generated(completion)
        turn = Turn(
            len(self.turns),
            self.dialect.written(completion),
            usage=completion.usage,
            seconds=completion.seconds,
        )
        self.turns.append(replace(turn, **came_back))

    def answer_turn(
        self, completion: Completion, result: ToolResult, call: Call | None = None, seconds: float = 0.0
    ) -> None:
        """Put a turn and its result into the history."""
        note = call.note if call else ""
        if result.error is not None:
            result = replace(result, error=f"{note} {result.error}".strip())
        else:
            result = replace(result, text=f"{note} {result.text}".strip())
        self._remember(completion, self.dialect.observation_messages(result))
        self.views.extend(result.views)
        if call and result.error is None:
            self.seen.add(call.identity)
        self.record(
            completion,
            tool=call.name if call else None,
            observation=result.text if result.error is None else result.error,
            crops=_crops(result.views, call),
            error=result.error,
            tool_seconds=seconds,
        )

    def refuse_repeat(self, completion: Completion) -> None:
        """Under greedy decoding a model can ask for the same part for ever: tell it, and show nothing."""
        notice = self.dialect.prompts.repeated
        self._remember(completion, self.dialect.notice_messages(notice))
        self.record(completion, observation=notice, error="The same call as before; it was not run again.")

    def finished(self, text: str, finish: Finish) -> AgentRun:
        return AgentRun(text, tuple(self.turns), finish, self.usage, self.clock() - self.began)

    def _remember(self, completion: Completion, answer: Sequence[Message]) -> None:
        self.messages += [*self.dialect.assistant_messages(completion), *answer]


def _generated(completion: Completion) -> int:
    """Tokens of a turn, for the budget; where the server does not say, about one for three bytes of text."""
    if completion.usage.completion_tokens is not None:
        return completion.usage.completion_tokens
    written = completion.reasoning + completion.text + "".join(call.arguments for call in completion.tool_calls)
    return len(completion.tokens) or len(written.encode("utf-8", "replace")) // 3 + 1


def _crops(views: Sequence[View], call: Call | None) -> tuple[Crop, ...]:
    label = str(call.arguments.get("label") or "") if call else ""
    return tuple(Crop(view.image_index, view.region.as_tuple(), view.size, label) for view in views)
