"""The one object that the gateway tells about its requests: metrics, log lines, records and spans come from it."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Any

from speceyes.engines.trace_context import carry, incoming
from speceyes.errors import EngineError
from speceyes.events import CircuitChanged, Decided, Event, Failed, Misconfigured, PhaseEnded, TurnEnded
from speceyes.gateway.observe.logs import RequestLog
from speceyes.gateway.observe.metrics import Metrics
from speceyes.gateway.observe.observation import Agree, Observation, is_upstream, make_record
from speceyes.gateway.observe.savings import Savings
from speceyes.gateway.observe.telemetry import Telemetry, trace_id
from speceyes.store import AuditOutcome, Image, Recorder, RequestRecord
from speceyes.types import AgentRun, Answer, Reason, Usage

log = logging.getLogger(__name__)


class Observer:
    """Watches requests. Nothing that goes wrong in it reaches a request.

        seen = observer.started(request_id, headers)
        seen.model, seen.key, seen.query = "speceyes", "team-a", query
        answer = await funnel.answer(query, listen=seen.listener)
        seen.finished(200, answer=answer)

    Args:
        metrics: Counts.
        log: Writes a line a request; None writes none.
        recorder: Keeps a record a request; None keeps none.
        telemetry: Makes spans; None makes none.
        setup: Models and prompts in use, by the names of `Calibration`; they stand in the records.
        agree: Compares a draft's and an agent's answer. None: records do not say whether they agree.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        log: RequestLog | None = None,
        recorder: Recorder | None = None,
        telemetry: Telemetry | None = None,
        setup: Mapping[str, str] | None = None,
        agree: Agree | None = None,
    ) -> None:
        self.metrics, self.log, self.recorder, self.telemetry = metrics, log, recorder, telemetry
        self.setup, self.agree = dict(setup or {}), agree
        self._savings = Savings()
        self._watch_self()

    def started(self, request_id: str, headers: Mapping[str, str] | None = None) -> Observation:
        """A request came. Call it in the task that serves the request: its upstream calls carry the trace.

        Args:
            request_id: As the client will be told.
            headers: The request's, with names in lower case; for its `traceparent`.
        """
        self.metrics.request_began()
        trace = incoming(headers or {})
        span = None
        if self.telemetry is not None:
            with _harmless():
                span = self.telemetry.begin(trace, time.time_ns())
                trace = self.telemetry.headers(span)
        carry(trace)
        return Observation(self, request_id, span)

    def listen(self, event: Event) -> None:
        """Hears what concerns no single request: `Funnel(..., listen=observer.listen)`."""
        if isinstance(event, CircuitChanged | Misconfigured):
            self.metrics.circuit(event)
        if isinstance(event, Misconfigured):
            log.error("%s refuses what every request asks of it: %s", event.model, event.error)

    def heard(self, event: Event, seen: Observation) -> None:
        """An event of one request's query; called by its observation."""
        with _harmless():
            match event:
                case PhaseEnded(phase=phase, seconds=seconds):
                    self.metrics.phase_ended(phase, seconds)
                case TurnEnded(turn=turn):
                    self.metrics.turn_ended(turn.tool is not None)
                case Decided(verdict=verdict):
                    phases = seen.phase_seconds
                    first = verdict.glance or verdict
                    drafted = "speculate" in phases and first.reason is not Reason.DRAFT_FAILED
                    self.metrics.decided(first.reason, screened="screen" in phases, drafted=drafted)
                    if "look_closer" in phases:
                        self.metrics.looked_closer(verdict.reason is Reason.ACCEPTED_CLOSER)
                case Failed(error=error) if isinstance(error, EngineError):
                    self.metrics.upstream_failed(seen.failing_upstream, type(error).__name__)

    def ended(
        self,
        seen: Observation,
        status: int,
        answer: Answer | None,
        error: BaseException | None,
        reason: Reason | None,
        usage: Mapping[str, Usage] | None,
        text: str | None,
    ) -> None:
        """A request is over; called by its observation."""
        with _harmless():
            record = make_record(
                seen,
                status,
                answer=answer,
                error=error,
                reason=reason,
                usage=usage,
                text=text,
                setup=self.setup,
                agree=self.agree,
            )
            self._count(record, seen, answer, error)
            identity = None
            if self.telemetry is not None and seen.span is not None:
                identity = trace_id(seen.span)
                self.telemetry.end(seen.span, record, seen.timed, time.time_ns())
            if self.log is not None:
                self.log.write(record, identity)
            if self.recorder is not None:
                self.recorder.offer(record, self._pictures(seen))

    def audited(
        self, request_id: str, run: AgentRun | None, *, agrees: bool | None, seconds: float, agent: str
    ) -> None:
        """The agent also answered a request whose draft had been accepted.

        Args:
            request_id: The request.
            run: What the agent did; None where it failed.
            agrees: Whether it states the same as the draft.
            seconds: What that took.
            agent: The agent's model name.
        """
        with _harmless():
            usage = {agent: run.usage} if run else {}
            self.metrics.used(usage)
            self.metrics.audited(agrees)
            if run is not None:
                self.metrics.saved(self._savings.agent_ran(seconds, accepted=True))
            if self.recorder is not None:
                depth, finish = (run.depth, run.finish.value) if run else (None, None)
                text = run.text if run else None
                self.recorder.offer(AuditOutcome(request_id, agrees, seconds, text, depth, finish, usage))

    async def close(self) -> None:
        """Write what waits, and stop."""
        if self.recorder is not None:
            await self.recorder.close()
        if self.telemetry is not None:
            self.telemetry.close()
        if self.log is not None:
            self.log.close()

    def _count(
        self, record: RequestRecord, seen: Observation, answer: Answer | None, error: BaseException | None
    ) -> None:
        self.metrics.request_ended(
            model=record.model,
            key=record.key,
            route=record.route,
            reason=record.reason,
            status=record.status,
            seconds=record.seconds,
            first_token_s=record.first_token_s,
        )
        self.metrics.used(record.usage)
        if answer is None:
            if is_upstream(error) and not seen.timed:  # passed through: no phase, so the core has told of no failure
                self.metrics.upstream_failed("agent", type(error).__name__)
            return
        self.metrics.planned(answer.trace.plan)
        for note in answer.trace.notes:
            self.metrics.upstream_survived(record.verdict, note)
        self._count_savings(answer)

    def _count_savings(self, answer: Answer) -> None:
        trace = answer.trace
        good = trace.verdict is not None and trace.verdict.reason.by_gate
        if trace.run is not None:
            self.metrics.saved(self._savings.agent_ran(trace.run.seconds, accepted=good))
            spent = [trace.phase_seconds.get(phase, 0.0) for phase in ("screen", "speculate", "look_closer")]
            self.metrics.speculated_in_vain(sum(spent))
        elif good:
            self.metrics.saved(self._savings.accepted())

    def _pictures(self, seen: Observation) -> tuple[Image, ...]:
        if self.recorder is None or not self.recorder.keeps_pictures or seen.query is None:
            return ()
        return tuple(Image(one.sha256, one.format, one.source) for one in seen.query.images)

    def _watch_self(self) -> None:
        watch = self.metrics.gauges.watch
        if (recorder := self.recorder) is not None:
            watch("speceyes_records_waiting", "Records in the queue.", lambda: {"": recorder.waiting})
            watch("speceyes_records_written", "Records stored.", lambda: {"": recorder.written}, counts=True)
            dropped = "Records that were not stored."
            watch("speceyes_records_dropped", dropped, recorder.counts, label="cause", counts=True)
        if (lines := self.log) is not None:
            watch("speceyes_log_lines_dropped", "Log lines that nobody read.", lambda: {"": lines.dropped}, counts=True)


class _harmless(contextlib.AbstractContextManager[None]):  # noqa: N801, it is used as a function
    """An error in observing is logged, and does not reach the request."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if isinstance(error, Exception):
            log.error("observing a request failed", exc_info=error)
            return True
        return False
