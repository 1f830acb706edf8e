"""One request under observation: what is noted while it runs, and the record that comes of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from speceyes.errors import EngineError
from speceyes.events import Answered, Cancelled, Decided, Event, Failed, PhaseEnded, TextStreamed, TurnEnded
from speceyes.gateway.observe.telemetry import Timed
from speceyes.gating import is_repetitive
from speceyes.store import ImageFacts, RequestRecord
from speceyes.types import Answer, Draft, Query, Reason, Trace, Turn, Usage, Verdict

if TYPE_CHECKING:
    from speceyes.gateway.observe.observer import Observer

Agree = Callable[[str, str, str], bool]
"""Whether two answers, the draft's and the agent's, state the same answer to a question, the third text."""


class Observation:
    """The notes on one request. Whoever serves it fills in the attributes as they become known.

    Attributes:
        id: The request's id.
        model: The name that was asked for.
        key: Name of the API key, if there is one.
        streamed: Whether the answer was asked for as a stream.
        user: The request's `user`.
        metadata: The request's `metadata`.
        query: The question with its images, once they are decoded.
        trust: `enforce` or `observe`.
        setup: Models and prompts that it is answered with, where they are not those of all requests.
        done: Whether the request is over.
        beside: Phases I to III where they run beside the agent; the record of an answer waits for them.
        afterwards: Is called once the record has been handed over.
    """

    def __init__(self, observer: Observer, id: str, span: Any) -> None:
        self.id = id
        self.model = ""
        self.key: str | None = None
        self.streamed = False
        self.user: str | None = None
        self.metadata: Mapping[str, str] = {}
        self.query: Query | None = None
        self.trust = "enforce"
        self.setup: Mapping[str, str] | None = None
        self.done = False
        self.span = span
        self.created = time.time()
        self.timed: list[Timed] = []
        self.verdict: Verdict | None = None
        self.usage: Mapping[str, Usage] = {}
        self.first_token_s: float | None = None
        self.beside: asyncio.Future[Trace | None] | None = None
        self.afterwards: list[Callable[[], None]] = []
        self._began = time.monotonic()
        self._took: float | None = None
        self._observer = observer

    @property
    def seconds(self) -> float:
        """Since the request came, until it was over."""
        return time.monotonic() - self._began if self._took is None else self._took

    def listener(self, event: Event) -> None:
        """Hears what the core tells of this request's query: `Funnel.answer(query, listen=observation.listener)`."""
        match event:
            case TextStreamed(kind="answer"):
                self.first_token()
            case PhaseEnded(phase=phase, seconds=seconds):
                self.timed.append(Timed(phase, time.time_ns(), seconds))
            case TurnEnded(turn=turn):
                self.timed.append(Timed(turn, time.time_ns(), turn.seconds + turn.tool_seconds))
            case Decided(verdict=verdict):
                self.verdict = verdict
            case Answered(answer=answer):
                self.usage = answer.trace.usage
            case Failed(usage=usage) | Cancelled(usage=usage):
                self.usage = usage
        self._observer.heard(event, self)

    def first_token(self) -> None:
        """The first words of a streamed answer go to the client. Further calls change nothing."""
        if self.first_token_s is None and self.streamed:
            self.first_token_s = self.seconds

    def finished(
        self,
        status: int,
        *,
        answer: Answer | None = None,
        error: BaseException | None = None,
        reason: Reason | None = None,
        usage: Mapping[str, Usage] | None = None,
        text: str | None = None,
    ) -> None:
        """The request is over. Only the first call counts, and none raises.

        Args:
            status: The HTTP status that the client got; `CLIENT_GONE` where it did not wait.
            answer: What it was answered, if it went down the funnel.
            error: What ended it.
            reason: Why it went where it went, where there is no `answer`: it was passed through.
            usage: What that cost, by model.
            text: What the agent's server answered to it.
        """
        if self.done:
            return
        self.done, self._took = True, self.seconds

        def end(answer: Answer | None) -> None:
            self._observer.ended(self, status, answer, error, reason, usage, text)
            for call in self.afterwards:
                call()

        if answer is None or self.beside is None:
            end(answer)
        else:
            self.beside.add_done_callback(lambda found: end(self._with_speculation(answer, found)))

    def _with_speculation(self, answer: Answer, found: asyncio.Future[Trace | None]) -> Answer:
        trace = None if found.cancelled() or found.exception() else found.result()
        if trace is not None:
            answer = with_speculation(answer, trace)
            self.usage = answer.trace.usage
        return answer

    @property
    def phase_seconds(self) -> dict[str, float]:
        """Of the phases that ended."""
        found: dict[str, float] = {}
        for one in self.timed:
            if isinstance(one.what, str):  # there may be several looks
                found[one.what] = found.get(one.what, 0.0) + one.seconds
        return found

    @property
    def failing_upstream(self) -> str:
        """Whose server an error most likely came from: the phase that ended last tells."""
        phases = [one.what for one in self.timed if isinstance(one.what, str)]
        return "draft" if phases[-1:] in (["speculate"], ["look_closer"]) else "agent"


def with_speculation(answer: Answer, found: Trace) -> Answer:
    """The agent's answer with what phases I to III found beside it. Why the agent answered stays as it is."""
    mine = answer.trace
    trace = replace(
        found,
        reason=mine.reason,
        run=mine.run,
        seconds=mine.seconds,
        phase_seconds={**found.phase_seconds, **mine.phase_seconds},
        usage=total_usage(mine, found),
        notes=(*mine.notes, *found.notes),
        attempts=total_attempts(mine, found),
    )
    return replace(answer, trace=trace)


def total_usage(*traces: Trace) -> dict[str, Usage]:
    """Tokens by model."""
    models = dict.fromkeys(model for trace in traces for model in trace.usage)
    return {model: reduce(add, (trace.usage.get(model, Usage()) for trace in traces)) for model in models}


def total_attempts(*traces: Trace) -> dict[str, int]:
    """Requests sent, by model."""
    return dict(reduce(add, (Counter(trace.attempts) for trace in traces)))


def make_record(
    seen: Observation,
    status: int,
    *,
    answer: Answer | None,
    error: BaseException | None,
    reason: Reason | None,
    usage: Mapping[str, Usage] | None,
    text: str | None,
    setup: Mapping[str, str],
    agree: Agree | None,
) -> RequestRecord:
    """The record of a request that is over. With all its words: the store and the log leave out what is not wanted."""
    trace = answer.trace if answer else None
    verdict = (trace.verdict if trace else None) or seen.verdict
    why = trace.reason if trace else reason
    return RequestRecord(
        id=seen.id,
        created=seen.created,
        model=seen.model,
        status=status,
        key=seen.key,
        streamed=seen.streamed,
        error=None if error is None else type(error).__name__,
        trust=seen.trust,
        route=None if why is None or error is not None else why.route.value,
        reason=None if why is None else why.value,
        verdict=verdict.reason.value if verdict else None,
        score=verdict.score if verdict else None,
        squashed=verdict.squashed if verdict else None,
        threshold=verdict.threshold if verdict else None,
        question=seen.query.question if seen.query else None,
        usage=dict(usage if usage is not None else seen.usage),
        seconds=seen.seconds,
        first_token_s=seen.first_token_s,
        phase_seconds=seen.phase_seconds,
        images=_images(seen.query),
        user=seen.user,
        metadata=seen.metadata,
        setup=setup if seen.setup is None else seen.setup,
        **_phases(trace, agree, seen.query, text),
        phase_usage=_phase_usage(trace, seen),
    )


def _phases(trace: Trace | None, agree: Agree | None, query: Query | None, text: str | None) -> dict[str, Any]:
    if trace is None:
        return {"agent_text": text}
    screening, draft, run = trace.screening, trace.draft, trace.run
    return {
        "p_yes": screening.p_yes if screening else None,
        "p_no": screening.p_no if screening else None,
        "draft_tokens": draft.tokens if draft else (),
        "draft_fault": _fault(draft),
        "draft_text": draft.text if draft else None,
        "agent_text": run.text if run else text,
        "agent_depth": run.depth if run else None,
        "agent_finish": run.finish.value if run else None,
        "agrees": agree(draft.text, run.text, query.question if query else "") if draft and run and agree else None,
    }


def _fault(draft: Draft | None) -> str | None:
    """Why a draft cannot be scored, also where only its text tells, which may not be kept."""
    if draft is None:
        return None
    if draft.fault is not None:
        return draft.fault.value
    if not draft.text.strip():
        return Reason.EMPTY_ANSWER.value
    said = "".join(token.text for token in draft.tokens)
    return Reason.REPETITIVE_ANSWER.value if is_repetitive(said) else None


def _phase_usage(trace: Trace | None, seen: Observation) -> dict[str, Usage]:
    turns = [one.what.usage for one in seen.timed if isinstance(one.what, Turn)]
    found = {"fall_back": reduce(add, turns)} if turns else {}
    if trace is not None:
        parts = {"screen": trace.screening, "speculate": trace.draft, "fall_back": trace.run}
        found |= {name: part.usage for name, part in parts.items() if part is not None}
        if trace.closer:
            found["look_closer"] = reduce(add, (draft.usage for draft in trace.closer))
    return found


def _images(query: Query | None) -> tuple[ImageFacts, ...]:
    images = query.images if query else ()
    return tuple(ImageFacts(one.sha256, one.format, len(one.source), *one.size) for one in images)


def is_upstream(error: BaseException | None) -> bool:
    """Whether a model's server was at fault."""
    return isinstance(error, EngineError)
