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
                step = steps.send(await dialect.toolbox[step.call.name].run(step.call.arguments, step.context))
    except StopIteration as stop:
        run: AgentRun = stop.value
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from speceyes.agents.budget import CLOSING_TOKENS, Budget
from speceyes.agents.dialects.base import Call, Dialect, Final, Malformed, Message, Occasion, text_part
from speceyes.errors import EngineError
from speceyes.imaging.resize import render
from speceyes.imaging.view import View
from speceyes.tools.base import ToolContext, ToolResult
from speceyes.types import AgentRun, ChatRequest, Completion, Crop, Finish, Query, Turn, Usage

TOO_LARGE = frozenset({400, 413, 422})
"""What servers answer to a prompt beyond their context, or to more pictures than they take."""

GO_ON = {"continue_final_message": True, "add_generation_prompt": False}
"""Fields of a request that ends in the assistant's message, which the model is to go on with (vLLM's names)."""


@dataclass(frozen=True, slots=True)
class Generate:
    """Ask the agent's server for `request` and send the `Completion`.

    A failed request may be thrown in. Where the history has outgrown the server, the run closes with a shorter
    one; a closing turn that fails ends the run without an answer; any other error comes out of the generator.
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
Watch = Callable[[Turn], None]


def unwatched(turn: Turn) -> None:
    """The watch of those who wait for the whole run."""


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
    watch: Watch = unwatched,
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
        watch: Is told of each turn when it is over, so that a run that breaks off is not lost without trace.

    Returns:
        The run, as the generator's value.
    """
    if views is None:
        views = [render(image, None, dialect.limits, image_index=index) for index, image in enumerate(query.images)]
    run = _Run(query, dialect, budget or default_budget(dialect), clock, list(views), watch)
    run.sampling = {
        "temperature": temperature,
        "seed": seed,
        "extra": {**dialect.extra, **(extra or {})},
        "affinity": views[0] if views else None,  # as screening
    }
    while (limit := run.exhausted()) is None:
        try:
            completion = yield from _generate(run.request(run.turn_tokens()))
        except EngineError as error:
            if not run.outgrew(error):
                raise
            run.take_back(error)
            limit = Finish.CONTEXT_LIMIT
            break
        action = dialect.parse(completion)
        if isinstance(action, Final):
            run.record(completion)
            return run.finished(action, Finish.ANSWERED if action.tagged else Finish.UNTAGGED)
        yield from _observe(run, completion, action)
    return (yield from _close(run, limit))


def default_budget(dialect: Dialect) -> Budget:
    """The dialect's own turns, each at its full length, and a closing turn."""
    tokens = dialect.max_tokens_per_turn
    closing = min(CLOSING_TOKENS, tokens)
    return Budget(dialect.max_turns, tokens, max_tokens=dialect.max_turns * tokens + closing, closing_tokens=closing)


def agent_request(dialect: Dialect, messages: Sequence[Message], max_tokens: int, **fields: Any) -> ChatRequest:
    """A request in the dialect's form. Screening uses it too, so that it shares the run's prefix to the letter.

    `fields` are those of `ChatRequest`; they stand above the dialect's own. Messages of the assistant in a row become
    one: a dialect whose results stand inside the assistant's turn goes on with it.
    """
    form: dict[str, Any] = {"stop": dialect.stop, "tools": dialect.tools, "extra": dialect.extra, **fields}
    joined = tuple(_joined(messages))
    if joined and joined[-1]["role"] == "assistant":
        form["extra"] = {**form["extra"], **GO_ON}
    return ChatRequest(joined, max_tokens, **form)


def _joined(messages: Sequence[Message]) -> list[Message]:
    joined: list[Message] = []
    for message in messages:
        if joined and message["role"] == joined[-1]["role"] == "assistant":
            joined[-1] = {**joined[-1], "content": [*_parts(joined[-1]), *_parts(message)]}
        else:
            joined.append(message)
    return joined


def _parts(message: Message) -> list[Any]:
    content = message["content"]
    return [text_part(content)] if isinstance(content, str) else list(content)


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
        run.refuse_repeat(completion, action)
        return
    began = run.clock()
    result = yield RunTool(action, ToolContext(run.query.images, list(run.views), run.dialect.limits))
    if not isinstance(result, ToolResult):
        raise TypeError(f"RunTool must be answered with a ToolResult, not with {type(result).__name__}.")
    run.answer_turn(completion, result, action, run.clock() - began)


def _close(run: _Run, limit: Finish) -> Generator[Step, Reply, AgentRun]:
    """Ask once for the answer. Tools stay in the request, for the prefix cache, but no call is run.

    As long as even this is too large for the server, the history loses its last turn.
    """
    prompt = {"role": "user", "content": run.dialect.prompts.closing}
    while True:
        try:
            completion = yield from _generate(run.request(run.budget.closing_tokens, prompt), closing=True)
            break
        except EngineError as error:
            if not run.outgrew(error):
                run.book("", error=f"The closing request failed: {error}")
                return run.finished(Final("", whole=False), limit)
            run.take_back(error)
    run.record(completion)
    final = run.dialect.closing_answer(completion)
    # An empty answer must not look like success: the limit cut it.
    return run.finished(final if final.text else replace(final, whole=False), limit)


@dataclass(slots=True)
class _Run:
    """What a run has seen, said and spent so far."""

    query: Query
    dialect: Dialect
    budget: Budget
    clock: Callable[[], float]
    views: list[View]
    watch: Watch
    sampling: Mapping[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(init=False)
    began: float = field(init=False)
    turns: list[Turn] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    spent: int = 0
    starts: list[int] = field(default_factory=list)
    """Where in `messages` each turn of the history begins."""

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.messages = list(self.dialect.opening_messages(self.query, self.views))

    def exhausted(self) -> Finish | None:
        seconds = self.clock() - self.began
        return self.budget.exhausted(turns=len(self.turns), spent=self.spent, seconds=seconds)

    def turn_tokens(self) -> int:
        return self.budget.turn_tokens(self.spent)

    def request(self, max_tokens: int, *more: Message) -> ChatRequest:
        return agent_request(self.dialect, [*self.messages, *more], max_tokens, **self.sampling)

    def outgrew(self, error: EngineError) -> bool:
        """Whether a request was refused for what the history has grown by, and can shrink again."""
        return bool(self.starts) and not error.retryable and error.status in TOO_LARGE

    def take_back(self, error: EngineError) -> None:
        """Drop the last turn from the history, and book that. What the model wrote in it stays on the record."""
        del self.messages[self.starts.pop() :]
        self.book("", error=f"Too large with the last turn, which is left out: {error}", usage=Usage(calls=1))

    def book(self, text: str, **fields: Any) -> None:
        self.turns.append(Turn(len(self.turns), text, **fields))
        self.watch(self.turns[-1])

    def record(self, completion: Completion, **came_back: Any) -> None:
        """Book a turn that the model wrote: its tokens, and what came back."""
        self.spent += _generated(completion)
        text = self.dialect.written(completion)
        self.book(text, usage=completion.usage, seconds=completion.seconds, **came_back)

    def answer_turn(
        self, completion: Completion, result: ToolResult, call: Call | None = None, seconds: float = 0.0
    ) -> None:
        """Put a turn and its result into the history."""
        note = call.note if call else ""
        if result.error is not None:
            result = replace(result, error=f"{note} {result.error}".strip())
        else:
            result = replace(result, text=f"{note} {result.text}".strip())
        self._remember(completion, self.dialect.observation_messages(result, self._occasion(completion)))
        self.views.extend(result.views)
        if call and result.error is None:
            self.seen.add(call.identity)
        self.record(
            completion,
            tool=call.name if call else None,
            observation=result.text if result.error is None else result.error,
            crops=_crops(result.views, call),
            error=result.error,
            repairs=call.repairs if call else (),
            tool_seconds=seconds,
        )

    def refuse_repeat(self, completion: Completion, call: Call) -> None:
        """Under greedy decoding a model can ask for the same part for ever: tell it, and show nothing."""
        notice = self.dialect.prompts.repeated
        self._remember(completion, self.dialect.notice_messages(notice, self._occasion(completion)))
        error = "The same call as before; it was not run again."
        self.record(completion, observation=notice, error=error, repairs=call.repairs)

    def finished(self, final: Final, finish: Finish) -> AgentRun:
        usage = sum((turn.usage for turn in self.turns), Usage())
        notes = (self.dialect.note,) if self.dialect.note and any(turn.tool for turn in self.turns) else ()
        return AgentRun(final.text, tuple(self.turns), finish, usage, self.clock() - self.began, final.whole, notes)

    def _occasion(self, completion: Completion) -> Occasion:
        return Occasion(completion, len(self.turns) + 1, len(self.query.images), len(self.views))

    def _remember(self, completion: Completion, answer: Sequence[Message]) -> None:
        self.starts.append(len(self.messages))
        self.messages += [*self.dialect.assistant_messages(completion), *answer]


def _generated(completion: Completion) -> int:
    """Tokens of a turn, for the budget; where the server does not say, about one for three bytes of text."""
    if completion.usage.completion_tokens is not None:
        return completion.usage.completion_tokens
    written = completion.reasoning + completion.text + "".join(call.arguments for call in completion.tool_calls)
    return len(completion.tokens) or len(written.encode("utf-8", "replace")) // 3 + 1


def _crops(views: Sequence[View], call: Call | None) -> tuple[Crop, ...]:
    label = str(call.arguments.get("label") or "") if call else ""
    shown = [view for view in views if view.made is None]  # what a tool made shows no part of an image
    return tuple(Crop(view.image_index, view.region.as_tuple(), view.size, label) for view in shown)
