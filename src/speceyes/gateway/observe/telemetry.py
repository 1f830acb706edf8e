"""OpenTelemetry traces: a span a request, a child a phase, and below the agent's phase one a turn and one a tool.

    chat speceyes                     SERVER    the request
      chat nano-agent                 CLIENT    phase I,  speceyes.phase = screen
      chat nano-draft                 CLIENT    phase II, speceyes.phase = speculate
      invoke_agent nano-agent         INTERNAL  phase IV, speceyes.phase = fall_back
        chat nano-agent               CLIENT    a turn,   speceyes.turn = 0
        execute_tool image_zoom_...   INTERNAL  its tool

Names follow OpenTelemetry's semantic conventions for generative AI, which are still in development. Neither questions
nor answers nor images are in a span. Children are made when the request is over, from the times that were noted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from speceyes.errors import ConfigError
from speceyes.types import Turn, Usage

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

    from speceyes.store import RequestRecord

SERVICE = "speceyes"
PATH = "/v1/traces"

OPERATION, PROVIDER = "gen_ai.operation.name", "gen_ai.provider.name"
REQUEST_MODEL, RESPONSE_ID = "gen_ai.request.model", "gen_ai.response.id"
INPUT_TOKENS, OUTPUT_TOKENS = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
TOOL_NAME, ERROR_TYPE, STATUS_CODE = "gen_ai.tool.name", "error.type", "http.response.status_code"

_DRAFT_PHASES = frozenset({"speculate", "look_closer"})


@dataclass(frozen=True, slots=True)
class Timed:
    """Something that ended at a moment and took a while: a phase by its name, or a turn.

    Attributes:
        what: Which phase, or the turn.
        ended: In nanoseconds since 1970.
        seconds: How long it took.
    """

    what: str | Turn
    ended: int
    seconds: float

    @property
    def began(self) -> int:
        """In nanoseconds since 1970."""
        return self.ended - round(self.seconds * 1e9)


class Telemetry:
    """Makes the spans.

    Args:
        provider: Where spans go. It is not made the process's global one.
        draft: Name of the draft model.
        agent: Name of the agent.
    """

    def __init__(self, provider: TracerProvider, *, draft: str, agent: str) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("speceyes.gateway")
        self._format = TraceContextTextMapPropagator()
        self._draft, self._agent = draft, agent

    def begin(self, headers: Mapping[str, str], began: int) -> Span:
        """Begin a request's span, as a child of the caller's where the headers name one."""
        from opentelemetry.trace import SpanKind

        context = self._format.extract(headers)
        return self._tracer.start_span("chat", context, SpanKind.SERVER, start_time=began)

    def headers(self, span: Span) -> dict[str, str]:
        """What upstream calls carry, so that the servers' own spans become children of this one."""
        from opentelemetry.trace import set_span_in_context

        carrier: dict[str, str] = {}
        self._format.inject(carrier, set_span_in_context(span))
        return carrier

    def end(self, span: Span, record: RequestRecord, timed: Sequence[Timed], ended: int) -> None:
        """Close a request's span.

        Args:
            span: From `begin`.
            record: What became of the request.
            timed: Its phases and turns, in the order in which they ended.
            ended: In nanoseconds since 1970.
        """
        from opentelemetry.trace import StatusCode

        if span.is_recording():
            span.update_name(f"chat {record.model}".rstrip())
            span.set_attributes(_of_request(record))
            if record.error is not None or record.status >= 500:
                span.set_status(StatusCode.ERROR)
            self._children(span, record, timed)
        span.end(ended)

    def close(self) -> None:
        """Send what waits, and stop."""
        self._provider.shutdown()

    def _children(self, parent: Span, record: RequestRecord, timed: Sequence[Timed]) -> None:
        turns = [one for one in timed if isinstance(one.what, Turn)]
        for phase in timed:
            if isinstance(phase.what, Turn):
                continue
            model = self._draft if phase.what in _DRAFT_PHASES else self._agent
            usage = record.phase_usage.get(phase.what)
            loop = phase.what == "fall_back"
            operation = "invoke_agent" if loop else "chat"
            span = self._start(parent, operation, model, phase.began, client=not loop)
            span.set_attributes({"speceyes.phase": phase.what, REQUEST_MODEL: model, **_tokens(usage)})
            if loop:
                for turn in turns:
                    self._turn(span, turn, model)
            span.end(phase.ended)

    def _turn(self, parent: Span, timed: Timed, model: str) -> None:
        turn = timed.what
        assert isinstance(turn, Turn)
        tool_began = timed.ended - round(turn.tool_seconds * 1e9)
        span = self._start(parent, "chat", model, tool_began - round(turn.seconds * 1e9), client=True)
        span.set_attributes({"speceyes.turn": turn.index, REQUEST_MODEL: model, **_tokens(turn.usage)})
        span.end(tool_began)
        if turn.tool is not None:
            tool = self._start(parent, "execute_tool", turn.tool, tool_began, client=False)
            tool.set_attribute(TOOL_NAME, turn.tool)
            tool.end(timed.ended)

    def _start(self, parent: Span, operation: str, what: str, began: int, *, client: bool) -> Span:
        from opentelemetry.trace import SpanKind, set_span_in_context

        kind = SpanKind.CLIENT if client else SpanKind.INTERNAL
        attributes = {OPERATION: operation, PROVIDER: SERVICE}
        context = set_span_in_context(parent)
        return self._tracer.start_span(f"{operation} {what}", context, kind, attributes, start_time=began)


def open_telemetry(endpoint: str | None, share: float, *, draft: str, agent: str) -> Telemetry:
    """Traces by OTLP over HTTP to a collector.

    Args:
        endpoint: The collector; `/v1/traces` is added. None: as OpenTelemetry's environment variables have it.
        share: Share of the requests that are traced, of those whose caller did not decide it.
        draft: Name of the draft model.
        agent: Name of the agent.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
    except ModuleNotFoundError:
        raise ConfigError("observe.traces needs an extra: pip install 'speceyes[telemetry]'") from None
    resource = Resource.create().merge(Resource({SERVICE_NAME: SERVICE}))
    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(share), resource=resource)
    target = None if endpoint is None else endpoint.rstrip("/").removesuffix(PATH) + PATH
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(target)))
    return Telemetry(provider, draft=draft, agent=agent)


def trace_id(span: Span) -> str:
    """A span's trace, in hexadecimal."""
    return f"{span.get_span_context().trace_id:032x}"


def _of_request(record: RequestRecord) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        OPERATION: "chat",
        PROVIDER: SERVICE,
        REQUEST_MODEL: record.model,
        RESPONSE_ID: record.id,
        STATUS_CODE: record.status,
        "gen_ai.request.stream": record.streamed,
        "speceyes.route": record.route,
        "speceyes.reason": record.reason,
        "speceyes.score": record.score,
        "speceyes.threshold": record.threshold,
        "speceyes.images": len(record.images),
        "gen_ai.response.time_to_first_chunk": record.first_token_s,
        ERROR_TYPE: record.error,
        **_tokens(sum(record.usage.values(), Usage())),
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _tokens(usage: Usage | None) -> dict[str, int]:
    if usage is None:
        return {}
    counts = {
        INPUT_TOKENS: usage.prompt_tokens,
        OUTPUT_TOKENS: usage.completion_tokens,
        CACHED_TOKENS: usage.cached_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}
