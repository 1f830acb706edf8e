"""The sections of the settings about a query's way: looks, plans, places, deadlines, and servers that are down."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from speceyes.config.section import Count, Seconds, Section, Text


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


class SpeculationSettings(Section):
    """Whether the draft model may look closer by itself before the agent is asked, and how."""

    max_depth: Annotated[int, Field(ge=0, le=8)] = 0
    """How often. 0: it answers from the first look alone, as the paper has it. A calibration holds for one depth."""
    look_prompt: Text | None = None
    """Asks for the part to see up close, after the question: for a JSON object with `bbox_2d`. None: our own words."""
    coordinates: Literal["resized", "original", "unit", "per_mille"] | None = None
    """What the numbers of that box mean: pixels of the resized picture (Qwen2.5-VL), pixels of the original, 0 to 1,
    0 to 1000 (Qwen3-VL). None: pixels of the resized picture; for the nano draft 0 to 1000."""
    zoom_context: Annotated[float, Field(ge=0, le=10)] | None = None
    """Margin of a crop on each side of its box, as a share of the box's side. None: 0; for the nano draft 0.15."""


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
