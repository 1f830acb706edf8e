"""Transparent mode: the client brings its own tools, or reads the agent's text itself, and runs the agent's loop.

On a new question with an image we speculate, and an accepted draft goes back as a final answer, so that the client's
loop ends at once. Everything else passes to the agent's server as it came (`relay`), and every later turn too. What is
done is decided by the request alone (`turns`, `conversation`): nothing is kept between two requests.

Tokens: an accepted draft's `usage` is the sum of screening and draft. A reply that is passed on keeps the server's own
`usage`; what speculating has cost before it stands in two headers, and the request's record has the sum of both.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import msgspec

from speceyes.errors import EngineError
from speceyes.events import Failed, PhaseEnded
from speceyes.gateway.calls import Call
from speceyes.gateway.client_words import draft_question, screening_request
from speceyes.gateway.conversation import History, answers_plainly, read_history
from speceyes.gateway.exchange import Outgoing
from speceyes.gateway.intake import take_in
from speceyes.gateway.observe import Observation
from speceyes.gateway.relay import Relay, as_told
from speceyes.gateway.serving import Gateway
from speceyes.gateway.speculation import NATIVE
from speceyes.gateway.templates import TextForm
from speceyes.gateway.turns import Pass, needs_agent, why_pass
from speceyes.gateway.wire.content import Conversation
from speceyes.gateway.wire.errors import ApiError
from speceyes.gateway.wire.fields import sampling
from speceyes.gateway.wire.requests import read_fields
from speceyes.gateway.wire.responses import completion, extension, route_headers, verdict_json
from speceyes.gateway.wire.responses import usage as usage_counts
from speceyes.gateway.wire.stream import DONE, Chunks
from speceyes.types import Answer, ChatRequest, Query, Reason, Route, Sampling, Trace, Usage, Verdict

_NOTE = "x-speceyes-note"
_SPENT = "x-speceyes-speculation-"
_INCLUDE_STOP = "include_stop_str_in_output"
"""vLLM's field: a stop string is part of the text that it ends."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A new question, as both models are asked it."""

    query: Query
    screening: ChatRequest


async def answer_turn(gateway: Gateway, call: Call, out: Outgoing, seen: Observation) -> None:
    """Answer one turn of a client's own loop, and close the observation, unless something fails on our side.

    Raises:
        ApiError, SpecEyesError: What a client is to be told; `out` knows whether a response has begun.
    """
    turn = _Turn(gateway, call, out, seen)
    found = await turn.speculate()
    if isinstance(found, Answer):
        await turn.reply(found)
        seen.finished(200, answer=found)
    else:
        await turn.pass_on(found)


class _Turn:
    def __init__(self, gateway: Gateway, call: Call, out: Outgoing, seen: Observation) -> None:
        self._gateway, self._call, self._out, self._seen = gateway, call, out, seen
        self._mine = gateway.speculation
        self._form: TextForm | None = None if call.client_loop == NATIVE else self._mine.form
        self._fields: Mapping[str, msgspec.Raw] = read_fields(call.raw)
        seen.setup = self._mine.setup

    async def speculate(self) -> Answer | Trace | Pass:
        """An accepted answer; what else was found out; or why there was nothing to find out."""
        route, funnel = self._call.route, self._mine.funnel
        if route is Route.AGENT:
            return Pass(Reason.FORCED_AGENT)
        history = self._history()
        if (passed := self._why_pass(history)) is not None:
            return passed
        if funnel is None:
            return Pass(Reason.SPECULATION_OFF)
        if isinstance(why := self._gateway.trust.who_answers(self._seen, route), Reason):
            return Pass(why)
        if not funnel.calibration.feasible and route is None:
            return Pass(Reason.INFEASIBLE)
        question = await self._question(history)
        if isinstance(question, Pass):
            return question
        self._seen.query = question.query
        found = await funnel.decide(question.query, question.screening, listen=self._seen.listener, by=route)
        self._seen.usage = (found.trace if isinstance(found, Answer) else found).usage
        if self._form is None or isinstance(found, Trace):
            return found
        text = self._form.write(found.text)
        if text is None:  # its own words would be taken for tags
            unfit = replace(found.trace.verdict or Verdict(Reason.NEEDS_AGENT), reason=Reason.NEEDS_AGENT)
            return replace(found.trace, reason=unfit.reason, verdict=unfit)
        return replace(found, text=_until_stop(text, self._call.body.stops, self._includes_stop))

    async def reply(self, answer: Answer) -> None:
        """Send an accepted draft as the agent's final turn."""
        call, out = self._call, self._out
        told = extension(call.envelope.request_id, answer, trace=call.body.options.trace)
        headers = route_headers(told)
        if not call.body.stream:
            await out.whole(completion(call.envelope, answer, told), headers)
            return
        chunks = Chunks(call.envelope, include_usage=call.body.include_usage)
        events = [chunks.opening(told), chunks.content(answer.text), chunks.end(answer.finish, told)]
        if call.body.include_usage:
            events.append(chunks.usage(usage_counts(answer.trace.usage)))
        await out.begin_events(headers)
        self._seen.first_token()
        await out.write(b"".join([*events, DONE]))
        await out.end()

    async def pass_on(self, found: Trace | Pass) -> None:
        """Let the model's own server answer."""
        gateway, seen = self._gateway, self._seen
        to_draft = self._call.route is Route.DRAFT
        upstream = gateway.draft if to_draft else gateway.agent
        relay = Relay(upstream, self._call.raw, self._headers(found))
        began = time.monotonic()
        try:
            async with (gateway.funnel.stateless if to_draft else gateway.funnel.loops).place():
                await relay.run(self._out, seen)
        except EngineError as error:
            if isinstance(found, Trace):
                seen.listener(PhaseEnded(seen.id, "relay", time.monotonic() - began))
                seen.listener(Failed(seen.id, error, found.usage))
            if self._out.status is not None:
                raise
            told = as_told(error)
            await self._out.fail(told)
            seen.finished(told.status, error=error)
            return
        spent = {upstream.client.model: relay.usage}
        if isinstance(found, Pass):
            reason = Reason.FORCED_DRAFT if to_draft else found.reason
            seen.finished(200, reason=reason, usage=spent, text=relay.text)
            return
        seen.listener(PhaseEnded(seen.id, "relay", time.monotonic() - began))
        total = {name: found.usage.get(name, Usage()) + used for name, used in spent.items()}
        trace = replace(found, usage={**found.usage, **total})
        seen.finished(200, answer=Answer(relay.text, trace, seen.id), usage=trace.usage, text=relay.text)

    def _history(self) -> History:
        messages: list[dict[str, Any]] = msgspec.json.decode(self._fields["messages"])
        return read_history(messages, answers_plainly if self._form is None else self._form.answers)

    def _why_pass(self, history: History) -> Pass | None:
        ignored = {*self._mine.settings.ignore_fields, *((_INCLUDE_STOP,) if self._form else ())}
        return why_pass(self._call.body, self._fields.keys(), history, ignored)

    async def _question(self, history: History) -> _Question | Pass:
        gateway, form, body = self._gateway, self._form, self._call.body
        system = self._mine.settings.draft_system
        try:
            asked = draft_question(history, form, system=form is None if system is None else system)
            if not asked.images:
                return Pass(Reason.NO_IMAGE)
            query = await self._query(asked, sampling(body))
        except ApiError as error:  # the agent's server may see it otherwise
            return needs_agent(error.message)
        ignored = gateway.settings.transparent.ignore_fields
        extra = {name: msgspec.json.decode(self._fields[name]) for name in ignored if name in self._fields}
        if body.reasoning_effort is not None:
            extra["reasoning_effort"] = body.reasoning_effort
        return _Question(query, screening_request(history, form, self._mine.screen, body, extra))

    async def _query(self, asked: Conversation, chosen: Sampling) -> Query:
        gateway = self._gateway
        images = await take_in(
            asked.images,
            gateway.image_limits,
            max_images=gateway.settings.serve.max_images,
            fetcher=gateway.access.fetcher,
        )
        if self._form is not None:  # such stop strings are about the whole text, not about the answer in it
            chosen = replace(chosen, stop=())
        return Query(asked.question, images, asked.system, id=self._seen.id, sampling=chosen)

    def _headers(self, found: Trace | Pass) -> dict[str, str]:
        if isinstance(found, Pass):
            reason = Reason.FORCED_DRAFT if self._call.route is Route.DRAFT else found.reason
            note = {_NOTE: _one_line(found.note)} if found.note else {}
            return route_headers({"route": reason.route.value, "reason": reason.value}) | note
        told = verdict_json(found.verdict) if found.verdict else {}
        headers = route_headers({**told, "route": Route.AGENT.value, "reason": found.reason.value})
        spent = reduce(add, found.usage.values(), Usage())
        counts = {"prompt-tokens": spent.prompt_tokens, "completion-tokens": spent.completion_tokens}
        return headers | {_SPENT + name: str(count) for name, count in counts.items() if count is not None}

    @property
    def _includes_stop(self) -> bool:
        found = self._fields.get(_INCLUDE_STOP)
        return found is not None and bytes(found) == b"true"


def _until_stop(text: str, stops: tuple[str, ...], include: bool) -> str:
    """The text as a server would leave it that stops at the first of these strings."""
    found = [(at, stop) for stop in stops if (at := text.find(stop)) >= 0]
    if not found:
        return text
    at, stop = min(found)
    return text[: at + len(stop)] if include else text[:at]


def _one_line(text: str) -> str:
    """For a header."""
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "~"
