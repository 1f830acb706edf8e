"""When things run, in which order, and for how long: plans, bounded concurrency, deadlines."""

from speceyes.scheduling.crowd import in_order
from speceyes.scheduling.deadlines import deadline
from speceyes.scheduling.estimates import Outcome
from speceyes.scheduling.kinds import kind_of
from speceyes.scheduling.limit import AdaptiveLimit
from speceyes.scheduling.line import Claim
from speceyes.scheduling.metered import MeteredEngine
from speceyes.scheduling.plan import SPECULATIVE, Plan
from speceyes.scheduling.planner import Auto, Choice, Fixed, Planner, clocks_of, planner_of
from speceyes.scheduling.run_times import RunTimes
from speceyes.scheduling.side_by_side import end, first_refusal
from speceyes.scheduling.slots import Slots

__all__ = [
    "SPECULATIVE",
    "AdaptiveLimit",
    "Auto",
    "Choice",
    "Claim",
    "Fixed",
    "MeteredEngine",
    "Outcome",
    "Plan",
    "Planner",
    "RunTimes",
    "Slots",
    "clocks_of",
    "deadline",
    "end",
    "first_refusal",
    "in_order",
    "kind_of",
    "planner_of",
]
