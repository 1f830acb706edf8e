"""`Agent`: a model, its dialect and its tools as one object that answers questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from speceyes.agents.budget import Budget
from speceyes.agents.dialects import Call, Dialect, Prompts, is_native
from speceyes.agents.ending import end_answer
from speceyes.engines.attempts import Attempts, CountedEngine
from speceyes.engines.client import ChatClient, Engine
from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.nano import NANO_LIMITS, nano_agent
from speceyes.engines.slot_leases import SlotLeases
from speceyes.errors import ConfigError, InputError
from speceyes.events import TextStreamed, TurnEnded
from speceyes.imaging.looks import look
from speceyes.imaging.resize import PixelLimits
from speceyes.imaging.view import View
from speceyes.phases import AgentModel, fall_back
from speceyes.tools.base import ToolResult
from speceyes.tools.budget import TOOL_BUDGET, ToolBudget
from speceyes.types import Query, Sampling
from speceyes.wiring.agent.answer import AgentAnswer, AgentEvent, ToolRan
from speceyes.wiring.agent.code import Sandbox, code_tools_in, sandbox_of
from speceyes.wiring.agent.conversation import Remembering, continued
from speceyes.wiring.agent.dialects import Toolish, dialect_with
from speceyes.wiring.agent.pictures import Picture, read_pictures
from speceyes.wiring.engines import connect
from speceyes.wiring.funnel import nano_options

T = TypeVar("T")

Tell = Callable[[AgentEvent], None]


class Agent:
    """An agentic model behind an OpenAI-compatible URL, which looks, calls tools and answers.

    One object may answer any number of questions at a time, within one event loop. Close it, or use it as a context
    manager, `async with` or `with`.

    Args:
        url: The server's base, with or without `/v1`.
        model: The name by which the server knows the model. None: its only one.
        dialect: How the model calls tools: a name of `DIALECTS`, or an object.
        tools: Tools beside the dialect's own: functions with type hints, or anything with the form of `Tool`. One with
            the name of a tool of the dialect replaces it.
        limits: Sizes of picture that the model takes. None: those of the dialect's family.
        budget: Turns, tokens and seconds of one run. None: the dialect's.
        tool_budget: Seconds, text and pictures of one tool call.
        prompts: The words said to the model, or a file with some of them. None: the dialect's.
        system: Your own system prompt; it follows the dialect's.
        sandbox: Where the code runs that models of some dialects write (Thyme, DeepEyesV2): `bubblewrap`, `container`,
            or `auto` for the first that works here; the whole section of the settings; or a provider. Such a dialect
            gets a tool `python`, unless `tools` has one.
        sampling: Temperature, seed, and where the answer ends.
        api_key: Sent as a bearer token.
        timeout_s: Limit in seconds on one call of the model.
        connect_timeout_s: Limit in seconds on making a connection.
        retries: Attempts after the first one, where a retry can help.
        slots: Slots of a llama.cpp server that gets its calls from this object alone: each question then keeps one from
            its first call to its last, and its pictures are read once. None: the server chooses.
        options: Further options of the dialect's class (`coordinates`, `zoom_context`, `max_turns`, ...).

    Raises:
        ConfigError: The URL, the key, the dialect or a tool cannot be used. The message says why.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        dialect: str | Dialect = "deepeyes",
        *,
        tools: Sequence[Toolish] = (),
        limits: PixelLimits | None = None,
        budget: Budget | None = None,
        tool_budget: ToolBudget = TOOL_BUDGET,
        prompts: Prompts | str | Path | None = None,
        system: str | None = None,
        sandbox: Sandbox = "auto",
        sampling: Sampling | None = None,
        api_key: str | None = None,
        timeout_s: float = 120,
        connect_timeout_s: float = 5,
        retries: int = 2,
        slots: int | None = None,
        **options: Any,
    ) -> None:

        def with_tools(*tools: Toolish) -> Dialect:
            return dialect_with(dialect, tools, limits=limits, prompts=prompts, **options)

        self._named, self._with_tools = isinstance(dialect, str), with_tools
        self._tools, self._sandbox = tools, sandbox_of(sandbox)
        self.dialect = with_tools(*tools)
        self.budget, self.tool_budget = budget, tool_budget
        self.system, self.sampling = system, sampling or Sampling()
        self.url = url
        self._model = model
        self._options: dict[str, Any] = {
            "api_key": api_key,
            "timeout_s": timeout_s,
            "connect_timeout_s": connect_timeout_s,
            "retries": retries,
        }
        ChatClient(url, model or "", **self._options)  # the faults of the URL and the key show here
        if slots is not None and slots < 1:
            raise ConfigError(f"slots: a server has at least one, not {slots}")
        self._leases = None if slots is None else SlotLeases(slots)
        self._client: ChatClient | None = None
        self._server: EmbeddedServer | None = None

    @classmethod
    def nano(cls, *, parallel: int = 4, threads: int | None = None, **options: Any) -> Self:
        """The nano agent that comes with SpecEyes, served from this process. It knows sign scenes only.

        Starting takes a second or so, in which an event loop would wait.

        Args:
            parallel: Questions that it works on at a time.
            threads: Processor threads. None: what is good for models of this size.
            options: Those of `Agent`, without `url`, `model`, `limits` and `slots`.

        Raises:
            ConfigError: The models are not there, or as `Agent`.
            EngineError: The server does not start.
        """
        dialect = options.get("dialect", "deepeyes")
        spoken = nano_options(dialect) if isinstance(dialect, str) else {}
        parses = isinstance(dialect, str) and is_native(dialect)
        server = nano_agent(parallel=parallel, threads=threads, parse_calls=parses)
        try:
            agent = cls(server.url, server.model, slots=server.parallel, **{**spoken, "limits": NANO_LIMITS, **options})
        except BaseException:
            server.close()
            raise
        agent._server = server
        return agent

    def __repr__(self) -> str:
        return f"Agent({self.url!r}, {self._model!r}, {self.dialect.name!r})"

    async def answer(
        self, question: str, images: Picture | Sequence[Picture] = (), *, after: AgentAnswer | None = None
    ) -> AgentAnswer:
        """Ask a question about one or several images, and wait for the answer.

        Args:
            question: The question, answer options included.
            images: A path, bytes, a Pillow image, an array, or a list of these.
            after: An earlier answer of this agent: the question follows it in the same conversation, on its images.

        Raises:
            ImageError: An image cannot be read.
            InputError: A question that follows an answer came with images.
            ConfigError: The server has several models, and none was named.
            EngineError: The server failed. What the model or a tool does wrong is no error.
        """
        return await self._run(await self._connected(), question, images, after, _ignore)

    def answer_sync(
        self, question: str, images: Picture | Sequence[Picture] = (), *, after: AgentAnswer | None = None
    ) -> AgentAnswer:
        """As `answer`, for programs without an event loop, and for notebooks."""

        async def once() -> AgentAnswer:
            async with await self._connect() as client:  # not the one that another event loop may be using
                return await self._run(client, question, images, after, _ignore)

        with nullcontext() if self._leases is None else self._leases.visited():  # nor its slots
            return _run_to_end(once())

    async def stream(
        self, question: str, images: Picture | Sequence[Picture] = (), *, after: AgentAnswer | None = None
    ) -> AsyncGenerator[AgentEvent, None]:
        """As `answer`, event by event: what the model thinks and answers, each tool's result, each turn, and at last
        the `AgentAnswer`. Leaving the loop early ends the run, as soon as the generator is closed.

            async for event in agent.stream("What does the sign say?", "street.jpg"):
                match event:
                    case TextStreamed(kind="thought", text=text): ...
                    case ToolRan(name=name, views=views): ...
                    case TurnEnded(turn=turn): ...
                    case AgentAnswer(text=text): ...
        """
        told: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        client = await self._connected()
        running = asyncio.create_task(self._run(client, question, images, after, told.put_nowait))
        running.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (event := await told.get()) is not None:
                yield event
            yield await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def aclose(self) -> None:
        """Close the connections, and stop the server where it is our own."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        self.close()

    def close(self) -> None:
        """Stop the server where it is our own."""
        if self._server is not None:
            self._server.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _run(
        self,
        engine: Engine,
        question: str,
        images: Picture | Sequence[Picture],
        after: AgentAnswer | None,
        tell: Tell,
    ) -> AgentAnswer:
        query, views, dialect = await self._asked(question, images, after)
        attempts = Attempts()
        remembering = Remembering(CountedEngine(engine, attempts))
        shown = list(views)

        def show(call: Call, result: ToolResult) -> None:
            shown.extend(result.views)
            tell(ToolRan(call.name, call.arguments, result.text, result.views, result.error))

        try:
            run = await fall_back(
                query,
                views,
                AgentModel(remembering, dialect, self.budget, tool_budget=self.tool_budget),
                watch=lambda turn: tell(TurnEnded(query.id, turn)),
                say=lambda kind, text: tell(TextStreamed(query.id, kind, text)),
                show=show,
            )
        finally:
            attempts.close()
        text, ended = end_answer(run.text, query.sampling)
        whole = run.whole and ended == "stop"
        return AgentAnswer(text, whole, run, query, tuple(shown), remembering.history(self.dialect))

    async def _asked(
        self, question: str, images: Picture | Sequence[Picture], after: AgentAnswer | None
    ) -> tuple[Query, tuple[View, ...], Dialect]:
        """The question, what the model has seen or sees now, and the dialect that opens the run."""
        pictures = await read_pictures(images)
        if self._named and (code := await code_tools_in(self._sandbox, self.dialect)):
            self.dialect = self._with_tools(*self._tools, *code)
        if after is None:
            query = Query(question, pictures, self.system, sampling=self.sampling)
            return query, await look(pictures, self.dialect.limits), self.dialect
        if pictures:
            raise InputError("a question that follows an answer is about its images: leave `images` or `after` out")
        query = Query(question, after.query.images, self.system, sampling=self.sampling)
        return query, after.views, continued(self.dialect, after)

    async def _connected(self) -> ChatClient:
        if self._client is None:
            client = await self._connect(self._leases)
            self._client = self._client or client  # another question may have been faster; this one has opened nothing
        return self._client

    async def _connect(self, leases: SlotLeases | None = None) -> ChatClient:
        if self._server is not None and self._server.closed:
            raise ConfigError("this agent is closed, and its nano model with it")
        client = await connect(self.url, self._model, setting="model=...", leases=leases, **self._options)
        self._model = client.model
        return client


def _ignore(event: AgentEvent) -> None:
    pass


def _run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """What the coroutine gives back, in an event loop of its own: in this thread, or beside a loop that runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, "agent") as thread:
        return thread.submit(asyncio.run, work).result()
