"""Scoring: which choice an answer states, whether it is right, and what benchmarks' authors count from that.

One rule is ours (`strict`, on `speceyes.gating.stated`); the others read as other projects do, so that figures can be
held side by side. `score_answer` gives a mark; `tally`, `averages` and `pope_metrics` count marks.
"""

from speceyes.evals.scoring.marks import (
    ERROR,
    JUDGE,
    REFUSAL,
    UNPARSED,
    AnswerKey,
    Asked,
    Mark,
    Placed,
    Rule,
    failed,
)
from speceyes.evals.scoring.pope import PopeMetrics, pope_by_split, pope_metrics
from speceyes.evals.scoring.rotations import RotationAverages, averages
from speceyes.evals.scoring.score import KINDS, find_rule, score_answer
from speceyes.evals.scoring.tallies import Tally, tally, tally_by_category

__all__ = [
    "ERROR",
    "JUDGE",
    "KINDS",
    "REFUSAL",
    "UNPARSED",
    "AnswerKey",
    "Asked",
    "Mark",
    "Placed",
    "PopeMetrics",
    "RotationAverages",
    "Rule",
    "Tally",
    "averages",
    "failed",
    "find_rule",
    "pope_by_split",
    "pope_metrics",
    "score_answer",
    "tally",
    "tally_by_category",
]
