"""When things run, in which order, and for how long: plans, bounded concurrency, deadlines."""

from speceyes.scheduling.deadlines import deadline
from speceyes.scheduling.estimates import Outcome
from speceyes.scheduling.kinds import kind_of
from speceyes.scheduling.plan import SPECULATIVE, Plan
from speceyes.scheduling.planner import Auto, Choice, Fixed, Planner, planner_of
from speceyes.scheduling.side_by_side import end, first_refusal
from speceyes.scheduling.slots import Slots

__all__ = [
    "SPECULATIVE",
    "Auto",
    "Choice",
    "Fixed",
    "Outcome",
    "Plan",
    "Planner",
    "Slots",
    "deadline",
    "end",
    "first_refusal",
    "kind_of",
    "planner_of",
]
