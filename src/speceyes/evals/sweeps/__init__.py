"""Every gate, K, threshold and plan, computed from one recorded run: no model is asked again."""

from speceyes.evals.statistics.bootstrap import Estimate
from speceyes.evals.sweeps.curves import Curve, Ledger
from speceyes.evals.sweeps.grid import GateSetting
from speceyes.evals.sweeps.operating import Point
from speceyes.evals.sweeps.outcomes import Against, Outcomes
from speceyes.evals.sweeps.plans import PlanTimes, plan_times
from speceyes.evals.sweeps.ranking import Ranking
from speceyes.evals.sweeps.sweep import Gate, Sweep, SweepOptions, sweep

__all__ = [
    "Against",
    "Curve",
    "Estimate",
    "Gate",
    "GateSetting",
    "Ledger",
    "Outcomes",
    "PlanTimes",
    "Point",
    "Ranking",
    "Sweep",
    "SweepOptions",
    "plan_times",
    "sweep",
]
