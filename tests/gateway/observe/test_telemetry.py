"""Spans of a real query down a real funnel, and of one that failed, as OpenTelemetry's own exporter sees them."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import SpanKind, StatusCode

from speceyes.config import load_settings
from speceyes.engines.trace_context import upstream_headers
from speceyes.errors import ConfigError, EngineTimeout
from speceyes.evals.datasets.samples import make_samples
from speceyes.gateway.observe import Metrics, Observer, Telemetry, open_telemetry
from speceyes.types import Answer, Query, Route
from speceyes.wiring import open_funnel

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{}"
SLACK_NS = 5_000_000
"""Ends and durations are read from two clocks."""


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def observer(exporter: InMemorySpanExporter, share: float = 1.0) -> Observer:
    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(share))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(provider, draft="nano-draft", agent="nano-agent")
    return Observer(Metrics(models=["nano-draft", "nano-agent"]), telemetry=telemetry)


async def test_the_spans_of_nano_queries_form_trees(exporter: InMemorySpanExporter) -> None:
    watch = observer(exporter)
    sample = next(one for one in make_samples(20, seed=5) if one.tool_helps)
    async with open_funnel(load_settings(env={})) as funnel:
        for route in (None, Route.AGENT):
            exporter.clear()
            seen = watch.started("req-1", {"traceparent": PARENT.format("01"), "tracestate": "a=b"})
            assert upstream_headers()["traceparent"].startswith(PARENT[:35])
            assert upstream_headers()["traceparent"] != PARENT.format("01")
            assert upstream_headers()["tracestate"] == "a=b"
            seen.model, seen.query = "speceyes", Query(sample.question, (sample.image,), id="req-1")
            if route is None:
                answer = await funnel.answer(seen.query, listen=seen.listener)
            else:
                answer = await funnel.answer_by(route, seen.query, listen=seen.listener)
            seen.finished(200, answer=answer)
            seen.finished(500)  # changes nothing
            check_tree(exporter, answer)
            text = "".join(span.to_json() for span in exporter.get_finished_spans())
            assert sample.question not in text
            assert "base64" not in text


def check_tree(exporter: InMemorySpanExporter, answer: Answer) -> None:
    """Request over phases over turns and tools, inside each other in time too, with the tokens that were spent."""
    spans = exporter.get_finished_spans()
    (root,) = (span for span in spans if span.name == "chat speceyes")
    assert root.kind is SpanKind.SERVER
    assert root.parent is not None
    assert f"{root.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert f"{root.context.trace_id:032x}" == "4bf92f3577b34da6a3ce929d0e0e4736"
    told = dict(root.attributes or {})
    assert (told["gen_ai.operation.name"], told["gen_ai.response.id"]) == ("chat", "req-1")
    assert (told["speceyes.reason"], told["http.response.status_code"]) == (answer.reason.value, 200)
    total = sum(used.completion_tokens or 0 for used in answer.trace.usage.values())
    assert told["gen_ai.usage.output_tokens"] == total

    phases = {
        str(span.attributes["speceyes.phase"]): span for span in spans if (span.attributes or {}).get("speceyes.phase")
    }
    assert phases.keys() == answer.trace.phase_seconds.keys()
    assert all(inside(span, root) for span in phases.values())
    turns = [span for span in spans if "speceyes.turn" in (span.attributes or {})]
    tools = [span for span in spans if span.name.startswith("execute_tool ")]
    assert all(inside(span, phases["fall_back"]) for span in (*turns, *tools))
    run = answer.trace.run
    assert (len(turns), len(tools)) == ((len(run.turns), run.depth) if run else (0, 0))
    if run:
        assert phases["fall_back"].name == "invoke_agent nano-agent"
        assert sum(int(span.attributes["gen_ai.usage.output_tokens"]) for span in turns) == run.usage.completion_tokens  # type: ignore[index,call-overload]


def inside(span: ReadableSpan, parent: ReadableSpan) -> bool:
    begun = (parent.start_time or 0) - SLACK_NS <= (span.start_time or 0) <= (span.end_time or 0)
    return begun and (span.end_time or 0) <= (parent.end_time or 0) and span.parent == parent.context


def test_an_error_marks_the_span(exporter: InMemorySpanExporter) -> None:
    seen = observer(exporter).started("req-3")
    seen.model = "speceyes"
    seen.finished(504, error=EngineTimeout("the agent at host: secret-word"))
    (root,) = exporter.get_finished_spans()
    assert root.status.status_code is StatusCode.ERROR
    assert root.attributes is not None
    assert root.attributes["error.type"] == "EngineTimeout"
    assert "secret-word" not in root.to_json()


def test_a_caller_who_does_not_sample_is_followed(exporter: InMemorySpanExporter) -> None:
    seen = observer(exporter).started("req-4", {"traceparent": PARENT.format("00")})
    assert upstream_headers()["traceparent"].endswith("-00")
    seen.finished(200)
    observer(exporter, share=0.0).started("req-5").finished(200)
    assert exporter.get_finished_spans() == ()


def test_spans_arrive_at_a_collector() -> None:
    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        telemetry = open_telemetry(f"http://127.0.0.1:{server.server_port}/", 1.0, draft="small", agent="large")
        Observer(Metrics(), telemetry=telemetry).started("req-6").finished(200)
        telemetry.close()
        server.shutdown()
        thread.join(30)
    ((path, body),) = received
    assert path == "/v1/traces"
    assert b"gen_ai.operation.name" in body
    assert b"req-6" in body


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"speceyes\[telemetry\]"):
        open_telemetry("http://127.0.0.1:1", 1.0, draft="a", agent="b")
