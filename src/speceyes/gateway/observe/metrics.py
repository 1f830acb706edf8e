"""Prometheus metrics of the gateway. `docs/observability.md` lists and explains them.

Every label has a bounded set of values: model and key names only as far as the configuration has them ("other" for the
rest), reasons, phases and error classes from the code. So nobody can fill a server's memory with labels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from speceyes import errors
from speceyes.events import CircuitChanged, Misconfigured
from speceyes.gateway.observe.gauges import Gauges
from speceyes.types import Reason, Usage

OTHER = "other"
NONE = "none"
"""As a label: nobody answered, or there is no key."""
CONTENT_TYPE = CONTENT_TYPE_LATEST

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
"""From a draft on the same machine to an agent of many turns."""
STATES = ("closed", "half_open", "open")
SCREENED_OUT = frozenset({Reason.TOOL_WOULD_HELP, Reason.SCREEN_UNREADABLE, Reason.SCREEN_FAILED})
_ERRORS = frozenset(name for name, value in vars(errors).items() if isinstance(value, type))


class Metrics:
    """All metrics, in a registry of their own.

    Args:
        names: Model names that clients may ask for.
        models: Names of the models behind the gateway.
        keys: Names of the API keys.

    Attributes:
        under_way: Requests that are not over.
    """

    def __init__(
        self, names: Collection[str] = ("speceyes",), models: Collection[str] = (), keys: Collection[str] = ()
    ) -> None:
        self.under_way = 0
        self._names, self._models, self._keys = frozenset(names), frozenset(models), set(keys)
        self.registry = CollectorRegistry(auto_describe=True)
        self.gauges = Gauges()
        self.registry.register(self.gauges)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._make_request_metrics()
        self._make_model_metrics()
        build = Info("speceyes_build", "The version that runs.", registry=self.registry)
        build.info({"version": version("speceyes")})

    def _make_request_metrics(self) -> None:
        at = self.registry
        self._requests = Counter(
            "speceyes_requests", "Requests that are over.", ["model", "route", "reason", "status"], registry=at
        )
        self._by_key = Counter("speceyes_key_requests", "Requests that are over.", ["key", "status"], registry=at)
        self._turned_away = Counter(
            "speceyes_turned_away",
            "Requests without a key that may do this; they are not read.",
            ["status"],
            registry=at,
        )
        under_way = Gauge("speceyes_requests_under_way", "Requests that are not over.", registry=at)
        under_way.set_function(lambda: self.under_way)
        self._seconds = Histogram(
            "speceyes_request_seconds", "From arrival to the last byte.", ["route"], buckets=SECONDS, registry=at
        )
        self._first_token = Histogram(
            "speceyes_first_token_seconds",
            "From arrival to the first words of a streamed answer.",
            ["route"],
            buckets=SECONDS,
            registry=at,
        )
        self._fetches = Counter("speceyes_fetches", "Images fetched from URLs.", ["outcome"], registry=at)
        self._fetch_seconds = Histogram("speceyes_fetch_seconds", "Fetching an image.", buckets=SECONDS, registry=at)
        self._fetch_bytes = Counter("speceyes_fetch_bytes", "Bytes of fetched images.", registry=at)

    def _make_model_metrics(self) -> None:
        at = self.registry
        self._phases = Histogram(
            "speceyes_phase_seconds",
            "A phase, its wait for a slot included.",
            ["phase"],
            buckets=SECONDS,
            registry=at,
        )
        self._plans = Counter("speceyes_plans", "Queries by the order of their phases.", ["plan"], registry=at)
        self._turns = Counter("speceyes_agent_turns", "Turns of agent loops.", ["tool"], registry=at)
        self._screenings = Counter("speceyes_screenings", "Phase I: who goes on.", ["passed"], registry=at)
        self._drafts = Counter("speceyes_drafts", "Phase III: whose draft is good.", ["accepted"], registry=at)
        self._looks = Counter(
            "speceyes_closer_looks",
            "Queries at which the draft model looked closer by itself.",
            ["accepted"],
            registry=at,
        )
        self._tokens = Counter("speceyes_tokens", "Tokens that models read and wrote.", ["model", "kind"], registry=at)
        self._calls = Counter(
            "speceyes_model_calls", "Requests to models, repeated ones included.", ["model"], registry=at
        )
        self._saved = Counter(
            "speceyes_saved_seconds", "Estimate: accepted drafts x the agent's mean seconds so far.", registry=at
        )
        self._spent = Counter(
            "speceyes_refused_speculation_seconds", "Phases I to III of queries that the agent answered.", registry=at
        )
        self._failures = Counter(
            "speceyes_upstream_errors", "Errors of model servers.", ["upstream", "error"], registry=at
        )
        self._audits = Counter(
            "speceyes_audits", "Accepted queries that the agent answered too.", ["agrees"], registry=at
        )
        self._circuits = Gauge(
            "speceyes_circuit_state", "1 for the state that a circuit breaker is in.", ["model", "state"], registry=at
        )
        for model in sorted(self._models):
            self._show_circuit(model, "closed")

    def text(self) -> bytes:
        """All metrics in Prometheus' text format; `CONTENT_TYPE` is its type."""
        return generate_latest(self.registry)

    def known_key(self, name: str) -> None:
        """Take a key's name for a label from now on: one that was made while the gateway runs."""
        self._keys.add(name)

    def turned_away(self, status: int) -> None:
        """A request was refused at the door: 401 without a valid key, 403 without the scope."""
        self._turned_away.labels(str(status)).inc()

    def request_began(self) -> None:
        """A request came."""
        self.under_way += 1

    def request_ended(
        self,
        *,
        model: str,
        key: str | None,
        route: str | None,
        reason: str | None,
        status: int,
        seconds: float,
        first_token_s: float | None,
    ) -> None:
        """A request is over, however it ended."""
        self.under_way -= 1
        asked = model if model in self._names else OTHER
        self._requests.labels(asked, route or NONE, reason or NONE, str(status)).inc()
        self._by_key.labels(NONE if key is None else key if key in self._keys else OTHER, str(status)).inc()
        self._seconds.labels(route or NONE).observe(seconds)
        if first_token_s is not None:
            self._first_token.labels(route or NONE).observe(first_token_s)

    def phase_ended(self, phase: str, seconds: float) -> None:
        """A phase of a query is over."""
        self._phases.labels(phase).observe(seconds)

    def planned(self, plan: str) -> None:
        """A query is over whose phases ran in this order."""
        if plan:
            self._plans.labels(plan).inc()

    def turn_ended(self, used_tool: bool) -> None:
        """A turn of an agent's loop is over."""
        self._turns.labels(_flag(used_tool)).inc()

    def decided(self, reason: Reason, *, screened: bool, drafted: bool) -> None:
        """Phases I to III are over."""
        if screened:
            self._screenings.labels(_flag(reason not in SCREENED_OUT)).inc()
        if drafted:
            self._drafts.labels(_flag(reason is Reason.ACCEPTED)).inc()

    def looked_closer(self, accepted: bool) -> None:
        """The draft model has looked closer by itself, and the gate has passed what it then said, or has not."""
        self._looks.labels(_flag(accepted)).inc()

    def used(self, usage: Mapping[str, Usage]) -> None:
        """What models read and wrote. Counts that a server did not give are left out."""
        for name, spent in usage.items():
            model = name if name in self._models else OTHER
            self._calls.labels(model).inc(spent.calls)
            kinds = {
                "prompt": spent.prompt_tokens,
                "completion": spent.completion_tokens,
                "cached": spent.cached_tokens,
            }
            for kind, count in kinds.items():
                if count:
                    self._tokens.labels(model, kind).inc(count)

    def saved(self, seconds: float) -> None:
        """An accepted draft made an agent's run needless."""
        self._saved.inc(seconds)

    def speculated_in_vain(self, seconds: float) -> None:
        """An agent answered after phases I to III."""
        self._spent.inc(seconds)

    def upstream_failed(self, upstream: str, error: str) -> None:
        """A model's server did not give what was asked of it. `upstream`: `draft` or `agent`."""
        self._failures.labels(upstream, error if error in _ERRORS else OTHER).inc()

    def upstream_survived(self, reason: str | None, note: str) -> None:
        """An error of a model's server that only sent a query to the agent. `note`: of its trace, "<class>: ..."."""
        upstream = {Reason.DRAFT_FAILED: "draft", Reason.SCREEN_FAILED: "agent"}.get(Reason(reason)) if reason else None
        name = note.partition(":")[0]
        if name in _ERRORS:
            self._failures.labels(upstream or OTHER, name).inc()

    def audited(self, agrees: bool | None) -> None:
        """An audit is over. None: the agent did not answer."""
        self._audits.labels(NONE if agrees is None else _flag(agrees)).inc()

    def fetched(self, outcome: str, seconds: float, size: int = 0) -> None:
        """An image was fetched from a URL, or not. `outcome`: a word from the code, such as `ok` or `refused`."""
        self._fetches.labels(outcome).inc()
        self._fetch_seconds.observe(seconds)
        self._fetch_bytes.inc(size)

    def circuit(self, event: CircuitChanged | Misconfigured) -> None:
        """A circuit breaker changed its state, or a server is not set up as it must be."""
        if isinstance(event, CircuitChanged):
            self._show_circuit(event.model if event.model in self._models else OTHER, event.state)

    def _show_circuit(self, model: str, now: str) -> None:
        for state in STATES:
            self._circuits.labels(model, state).set(state == now)


def _flag(value: bool) -> str:
    return "true" if value else "false"
