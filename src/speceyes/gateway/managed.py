"""Managed mode: an ordinary chat request about images, run down the funnel with the agent's loop on our side.

The answer is the final one only. A stream begins with its first words: by then the route is known, for the headers, and
an agent's server that refuses has refused, for the status. It begins before that only if nothing was to be said for
`serve.keep_alive_s`, or the client asked for progress.
"""

from __future__ import annotations

from speceyes.events import Decided, Event, Listener, TextStreamed, TurnEnded
from speceyes.gateway.calls import Call
from speceyes.gateway.exchange import Outgoing
from speceyes.gateway.intake import take_in
from speceyes.gateway.listening import listening
from speceyes.gateway.observe import Observation
from speceyes.gateway.serving import Gateway
from speceyes.gateway.wire.errors import bad_request
from speceyes.gateway.wire.responses import completion, decision, draft_logprobs, extension, route_headers
from speceyes.gateway.wire.responses import usage as usage_counts
from speceyes.gateway.wire.stream import DONE, KEEP_ALIVE, Chunks, progress
from speceyes.types import Answer, Query, Verdict

_MOMENT_S = 0.05


async def answer_call(gateway: Gateway, call: Call, out: Outgoing, seen: Observation, *, deadline_s: float) -> Answer:
    """Answer a call that has images.

    Args:
        gateway: What answers.
        call: The request.
        out: Where its response goes.
        seen: What is noted of it.
        deadline_s: Seconds that it may take, counted from its arrival.

    Returns:
        The answer that was sent.

    Raises:
        ApiError, SpecEyesError: What a client is to be told; `out` knows whether a stream has begun.
    """
    seen.query = query = await make_query(gateway, call)
    # The funnel's own deadline comes a moment before the exchange's, for its message says what was done by then.
    left_s = max(0.001, deadline_s - seen.seconds - _MOMENT_S)
    run = _Run(gateway, call, query, left_s, seen)
    return await (run.streamed(out) if call.body.stream else run.whole(out))


async def make_query(gateway: Gateway, call: Call) -> Query:
    """The query that a call asks, with its images decoded.

    Raises:
        ApiError: An image cannot be had, or more log-probs are asked for than the draft is.
    """
    most = gateway.funnel.draft.logprobs
    if (call.body.top_logprobs or 0) > most:
        raise bad_request(f"top_logprobs: the draft is asked for {most} of each token; ask for less.", "top_logprobs")
    asked = call.conversation
    images = await take_in(
        asked.images,
        gateway.image_limits,
        max_images=gateway.settings.serve.max_images,
        fetcher=gateway.access.fetcher,
    )
    return Query(asked.question, images, asked.system, id=call.envelope.request_id, sampling=call.sampling)


class _Run:
    """One query on its way, and what its client is told of it."""

    def __init__(self, gateway: Gateway, call: Call, query: Query, deadline_s: float, seen: Observation) -> None:
        self._gateway, self._call, self._query = gateway, call, query
        self._deadline_s, self._seen = deadline_s, seen
        self._id = call.envelope.request_id
        wanted = call.body.options.reasoning
        self._reasoning = gateway.settings.serve.reasoning if wanted is None else wanted

    async def whole(self, out: Outgoing) -> Answer:
        thoughts, said = _Thoughts(), list[str]()
        answer = await self._ask(lambda event: said.append(thoughts.of(event)) if self._reasoning else None)
        told = self._extension(answer)
        body = completion(self._call.envelope, answer, told, thoughts="".join(said), logprobs=self._logprobs(answer))
        await out.whole(body, route_headers(told))
        return answer

    async def streamed(self, out: Outgoing) -> Answer:
        stream = _Stream(out, self._call, self._seen, self._reasoning)
        if self._call.body.options.progress:
            await stream.open()
        async with listening(self._ask, self._gateway.settings.serve.keep_alive_s) as (events, working):
            async for event in events:
                await stream.tell(event)
            answer = await working
        await stream.finish(answer, self._extension(answer), self._logprobs(answer))
        return answer

    async def _ask(self, listen: Listener) -> Answer:
        trust, route = self._gateway.trust, self._call.route
        return await trust.answer(self._query, self._seen, route, listen=listen, deadline_s=self._deadline_s)

    def _extension(self, answer: Answer) -> dict[str, object]:
        left_out = self._call.conversation.left_out
        notes = (f"Images of earlier turns that were not shown again: {left_out}.",) if left_out else ()
        return extension(self._id, answer, trace=self._call.body.options.trace, notes=notes)

    def _logprobs(self, answer: Answer) -> dict[str, object] | None:
        asked = self._call.body
        return draft_logprobs(answer, asked.top_logprobs or 0) if asked.logprobs else None


class _Stream:
    """The events of one stream, in an order that clients understand."""

    def __init__(self, out: Outgoing, call: Call, seen: Observation, reasoning: bool) -> None:
        self._out, self._call, self._seen, self._reasoning = out, call, seen, reasoning
        self._chunks = Chunks(call.envelope, include_usage=call.body.include_usage)
        self._progress = call.body.options.progress
        self._thoughts = _Thoughts()
        self._verdict: Verdict | None = None
        self._sent = 0

    async def open(self) -> None:
        """Send the head and the first chunk, with what is known by now; a second call does nothing."""
        if self._out.status is not None:
            return
        known = decision(self._call.envelope.request_id, self._verdict)
        await self._out.begin_events(route_headers(known))
        await self._out.write(self._chunks.opening(known))

    async def tell(self, event: Event | None) -> None:
        """Send what an event, or a silence (None), means to the client."""
        match event:
            case None:
                await self._write(KEEP_ALIVE)
                return
            case Decided(verdict=verdict):
                self._verdict = verdict
            case TextStreamed(kind="answer", text=text):
                await self._content(text)
        if self._reasoning and (thought := self._thoughts.of(event)):
            await self._write(self._chunks.thought(thought))
        if self._progress and (told := progress(event)):
            await self._write(self._chunks.progress(told))

    async def finish(self, answer: Answer, told: dict[str, object], logprobs: dict[str, object] | None) -> None:
        """Send what is still missing of the answer, and the end."""
        self._verdict = answer.trace.verdict
        self._seen.first_token()
        if logprobs is not None and not self._sent:
            await self._write(self._chunks.logprobs(answer.text, logprobs))
        else:
            await self._content(answer.text[self._sent :])
        await self._write(self._chunks.end(answer.finish, told))
        if self._call.body.include_usage:
            await self._write(self._chunks.usage(usage_counts(answer.trace.usage)))
        await self._write(DONE)
        await self._out.end()

    async def _content(self, text: str) -> None:
        if text:
            await self._write(self._chunks.content(text))
            self._sent += len(text)

    async def _write(self, chunk: bytes) -> None:
        await self.open()
        await self._out.write(chunk)


class _Thoughts:
    """The agent's thoughts, those of one turn a paragraph apart from those of the next."""

    def __init__(self) -> None:
        self._begun = self._pause = False

    def of(self, event: Event) -> str:
        """What an event adds to them."""
        if isinstance(event, TurnEnded):
            self._pause = self._begun
        if not isinstance(event, TextStreamed) or event.kind != "thought":
            return ""
        gap, self._begun, self._pause = "\n\n" if self._pause else "", True, False
        return gap + event.text
