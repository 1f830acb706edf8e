"""What the core tells about itself while it works. Logs, metrics, records and pages subscribe; the core knows none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from speceyes.errors import SpecEyesError
from speceyes.types import Answer, Verdict


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
class Answered:
    """A query has its answer."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Failed:
    """A query ends without an answer."""

    query_id: str
    error: SpecEyesError


Event = PhaseEnded | Decided | Answered | Failed
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener of those who do not listen."""
