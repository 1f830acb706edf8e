"""The funnel with a gate that knows the right answer: as far as any gate could bring this pair of models.

It accepts exactly the right drafts among those that phase I lets through, by the run's own rule for what is right.
Where the right answer is not known it accepts nothing.
"""

from __future__ import annotations

from speceyes.evals.baselines.cascade import Cascade
from speceyes.evals.baselines.models import Models
from speceyes.evals.baselines.screening import screened_by_agent
from speceyes.evals.systems import Question, SystemName
from speceyes.phases import gate
from speceyes.types import Draft, Verdict


def oracle_gate(models: Models) -> Cascade:
    """The funnel, accepting the right drafts and no others."""

    def judge(draft: Draft, question: Question) -> Verdict:
        return Cascade.decided(gate(draft, models.calibration), question.is_right(draft.text) is True)

    return Cascade(SystemName.ORACLE, models, screen=screened_by_agent, judge=judge)
