"""What the core tells about itself while it works. Logs, metrics, records and pages subscribe; the core knows none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from speceyes.errors import EngineError, SpecEyesError
from speceyes.types import Answer, Turn, Usage, Verdict


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    """A phase of one query is over; `seconds` includes waiting for a slot."""

    query_id: str
    phase: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Decided:
    """Phases I to III are over: the draft is the answer, or the agent's loop begins."""

    query_id: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TextStreamed:
    """The agent writes. What belongs to a tool call is not told, and a `TurnEnded` comes between two turns' thoughts.

    All `answer` texts of a query, joined, are its answer's text to the letter, and none is taken back. A draft is not
    streamed: it is the answer only when the gate has seen all of it.
    """

    query_id: str
    kind: Literal["thought", "answer"]
    text: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """A turn of the agent's loop is over."""

    query_id: str
    turn: Turn


@dataclass(frozen=True, slots=True)
class Answered:
    """A query has its answer."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Failed:
    """A query ends without an answer. `usage`: tokens by model of the calls that were complete by then."""

    query_id: str
    error: SpecEyesError
    usage: Mapping[str, Usage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A query was given up by whoever asked. `usage` as in `Failed`; what the call under way cost is not known."""

    query_id: str
    usage: Mapping[str, Usage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CircuitChanged:
    """The circuit breaker before a model's server opened, tries again, or closed. `error`: what opened it."""

    model: str
    state: Literal["closed", "open", "half_open"]
    error: EngineError | None = None


@dataclass(frozen=True, slots=True)
class Misconfigured:
    """A server refuses what every query would ask of it (key, model's name, number of log-probs).

    Told at most once a minute for each server.
    """

    model: str
    error: EngineError


Event = PhaseEnded | Decided | TextStreamed | TurnEnded | Answered | Failed | Cancelled | CircuitChanged | Misconfigured
Listener = Callable[[Event], None]
"""Is called on the event loop, so it must be quick. What it raises ends the query."""


def ignore(event: Event) -> None:
    """The listener of those who do not listen."""
