"""The sections of the settings about a query's way: plans, places, deadlines, and servers that are down."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from speceyes.config.section import Count, Seconds, Section


def _number_or_auto(given: object, check: ValidatorFunctionWrapHandler) -> object:
    """One message for both, instead of one for each."""
    try:
        return check(given)
    except ValidationError:
        raise ValueError('it should be a whole number of at least 1, or "auto"') from None


Loops = Annotated[Count | Literal["auto"], WrapValidator(_number_or_auto)]


class FunnelSettings(Section):
    """How much is under way at a time, and what one query may cost."""

    plan: Literal["paper", "draft-first", "parallel", "hedged", "no-screen", "off", "auto"] = "paper"
    """In which order the phases run. `auto` takes the plan that pays by what the last queries have cost, or none. All
    but `no-screen` accept the same drafts; that one accepts more, which no calibration has promised for."""
    stateless: Count = 8
    """Queries in phases I to III."""
    loops: Loops = 8
    """Agent loops at a time. `auto` finds out how many get most done: more as long as that pays, fewer where the server
    is only made to wait or says that it is too much."""
    max_loops: Count = 64
    """Most agent loops at a time where `loops` is `auto`."""
    deadline_s: Seconds | None = None
    """Seconds that one query may take, waiting included. None: no limit but those of its calls."""
    retries: Annotated[int, Field(ge=0)] | None = 4
    """Retries that all calls of one query may make together. None: as many as each call is allowed."""
    draft_when_agent_down_threshold: float | None = None
    """Least score of a draft that answers while the agent is known to be down; at least the gate's own. Such answers
    were not screened, so they carry no guarantee. None: the query fails."""


class BreakerSettings(Section):
    """When a model's server counts as down in a running service: it is not asked then, until it has had a pause."""

    failures: Count = 5
    """Calls that must fail in a row. Only faults of the server count: no connection, time-outs, 429, 5xx."""
    pause_s: Seconds = 10.0
    """Seconds until the server is tried again, with one call. They double each time that this call fails."""
    max_pause_s: Seconds = 120.0
    """The longest pause."""
    silent_s: Seconds = 30.0
    """A call that is given up after so many seconds, without a single token, counts as failed."""
